/**
 * `relay status`: how the running relay is, worst first, and what to do.
 *
 * Exit code 1 when something is red, so that it can be used as a health check.
 */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { ask } from "../support/adminClient.ts"
import { failed } from "../support/CommandError.ts"
import { Json, toggle } from "../support/flags.ts"
import { paint, print, printJson } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { isRed, render } from "../support/statusReport.ts"

export const status = Command.make(
  "status",
  {
    watch: toggle("watch", "Redraw it each second until Ctrl-C; without a terminal, print a line for each change"),
  },
  Effect.fn(function* ({ watch }) {
    if (watch) return yield* (yield* lazily(() => import("../support/liveStatus.ts"))).watch
    const found = yield* ask((client) => client.status())
    if (yield* Json) yield* printJson({ red: isRed(found), ...found })
    else yield* print(render(found, yield* paint))
    if (isRed(found)) return yield* failed()
  }),
).pipe(
  Command.withDescription("Show how the running relay is, worst first; exits 1 when something is red"),
  Command.withExamples([
    { command: "relay status", description: "The journal, the lanes, and what to do about them" },
    { command: "relay status --watch", description: "The same, live" },
    { command: "relay status --json", description: "The same for a script" },
  ]),
)
