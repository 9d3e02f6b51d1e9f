/**
 * `relay status`: shows the relay's health, worst first, and what to do.
 *
 * Exits with 1 if a problem is critical. With `--exit-code`, it uses the exit codes
 * of monitoring plugins: 0 ok, 1 warning, 2 critical, and 3 unknown if there is no
 * status, whatever the reason. All output is then on stdout, with the worst problem
 * in the first line.
 */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { health, levelOf } from "../../admin/status/Health.ts"
import { askStatus, render, watchStatus } from "../reports/statusReport.ts"
import { CommandError, failed, usage } from "../support/CommandError.ts"
import { Json, toggle, withExamples } from "../support/flags.ts"
import { paint, plain, print, printJson, width } from "../support/output.ts"

const printStatus = Effect.gen(function* () {
  const found = yield* askStatus
  const { level, problems } = health(found)
  if (yield* Json) {
    const shown = problems.map((problem) => ({ level: levelOf(problem), ...problem }))
    yield* printJson({ level, problems: shown, ...found })
  } else yield* print(render(found, yield* paint, yield* width))
  return level
})

/** Prints on stdout, which monitoring reads, why there is no status. */
const unknown = Effect.fnUntraced(function* ({ message }: { readonly message: string }) {
  if (yield* Json) yield* printJson({ level: "unknown", message })
  else yield* print(`unknown  ${message.split("\n").map(plain).join("\n")}`)
  return yield* new CommandError({ reason: "unknown", message: "" })
})

export const status = Command.make(
  "status",
  {
    watch: toggle("watch", "Redraw it each second until Ctrl-C; without a terminal, print a line for each change"),
    exitCode: toggle("exit-code", "Exit 0 when all is well, 1 with a warning, 2 when critical, 3 without an answer"),
  },
  Effect.fn(function* ({ watch, exitCode }) {
    if (watch && exitCode) return yield* usage("--watch and --exit-code can't be combined: leave one out")
    if (watch) return yield* watchStatus
    const level = yield* exitCode ? Effect.catch(printStatus, unknown) : printStatus
    if (exitCode && level !== "ok") return yield* new CommandError({ reason: level, message: "" })
    if (level === "critical") return yield* failed()
  }),
).pipe(
  withExamples({
    "relay status": "Problems and what to do, the journal and the lanes",
    "relay status --watch": "Live, until Ctrl-C",
    "relay status --json": "The status for a script",
    "relay status --exit-code": "For monitoring, such as Nagios",
  }),
)
