/** `relay reload`: the running relay loads its config anew, or says why it keeps the one it has. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import type { Reloaded } from "../../admin/Api.ts"
import { render, toJson } from "../../config/diagnostics/Diagnostic.ts"
import { show } from "../../reload/Difference.ts"
import { ask } from "../support/adminClient.ts"
import { Json } from "../support/globalFlags.ts"
import { plain, print, printJson, say } from "../support/output.ts"

const lines = ({ file, changes }: typeof Reloaded.Type): string =>
  changes.length === 0
    ? `${plain(file)} was loaded anew: nothing has changed`
    : [`${plain(file)} was loaded anew:`, ...changes.map((change) => `  ${plain(show(change))}`)].join("\n")

export const reload = Command.make(
  "reload",
  {},
  Effect.fn(function* () {
    const json = yield* Json
    const reloaded = yield* ask((client) =>
      Effect.tapError(client.reload(), (error) =>
        json && error._tag === "Invalid"
          ? printJson({ ok: false, diagnostics: toJson(error.diagnostics) })
          : Effect.void,
      ),
    )
    const { warnings, ...rest } = reloaded
    if (json) return yield* printJson({ ok: true, ...rest, diagnostics: toJson(warnings) })
    if (warnings.length > 0) yield* say(`${render(warnings)}\n`)
    yield* print(lines(reloaded))
    for (const note of reloaded.notes) yield* say(plain(note))
  }),
).pipe(
  Command.withDescription("Load the config anew into the running relay, whole or not at all"),
  Command.withExamples([
    { command: "relay reload", description: "After a change of webhooks, secrets, sinks or routes" },
    { command: "relay validate && relay reload", description: "Reach its sinks first" },
  ]),
)
