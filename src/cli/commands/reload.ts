/** `relay reload`: makes the running relay reload its config, or reports why it keeps the current config. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { toJson } from "../../config/diagnostics/Diagnostic.ts"
import { headline, type Reloaded, show } from "../../reload/Difference.ts"
import { ask } from "../support/adminClient.ts"
import { Json, withExamples } from "../support/flags.ts"
import { sayWarnings } from "../support/loadConfig.ts"
import { plain, print, printJson, say } from "../support/output.ts"

const lines = ({ changes, ...read }: typeof Reloaded.Type): string =>
  changes.length === 0
    ? `${plain(headline(read))}: nothing has changed`
    : [`${plain(headline(read))}:`, ...changes.map((change) => `  ${plain(show(change))}`)].join("\n")

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
    yield* sayWarnings(reloaded)
    yield* print(lines(reloaded))
    for (const note of reloaded.notes) yield* say(plain(note))
  }),
).pipe(
  withExamples({
    "relay reload": "After a change of webhooks, secrets, sinks or routes",
    "relay validate && relay reload": "Check it and its sinks first",
  }),
)
