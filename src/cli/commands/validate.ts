/** `relay validate`: is the config right, and can its sinks be reached? */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { render, toJson } from "../../config/diagnostics/Diagnostic.ts"
import { failed } from "../support/CommandError.ts"
import { reachAll } from "../support/checkSinks.ts"
import { loadQuietly } from "../support/loadConfig.ts"
import { Json } from "../support/globalFlags.ts"
import { count, plain, print, printJson, say, table } from "../support/output.ts"

export const validate = Command.make(
  "validate",
  {
    offline: Flag.Boolean("offline").pipe(
      Flag.withDescription("Check the file only; reach no sink"),
      Flag.withoutNegation,
      Flag.withDefault(false),
    ),
  },
  Effect.fn(function* ({ offline }) {
    const json = yield* Json
    const { file, config, warnings } = yield* Effect.tapError(loadQuietly, (error) =>
      json ? printJson({ ok: false, file: error.file, diagnostics: toJson(error.diagnostics) }) : Effect.void,
    )
    const reached = offline ? [] : yield* reachAll(config)
    const ok = reached.every((sink) => sink.ok)
    if (json) {
      yield* printJson({ ok, file, diagnostics: toJson(warnings), sinks: reached })
      return ok ? undefined : yield* failed()
    }
    if (warnings.length > 0) yield* say(`${render(warnings)}\n`)
    for (const { sink, advice } of reached) for (const one of advice) yield* say(`sink ${sink}: ${one}`)
    if (reached.length > 0) {
      yield* print(table(reached.map(({ sink, ok, message }) => [sink, ok ? "reached" : "NOT REACHED", message])))
    }
    if (!ok) {
      const away = reached.filter((sink) => !sink.ok).map(({ sink }) => sink)
      return yield* failed(`the config is right, but not every sink can be reached: ${away.join(", ")}`)
    }
    yield* print(
      `${plain(file)}: all right, ${count(config.webhooks.length, "webhook")}, ${count(config.routes.length, "route")}, ${count(config.sinks.length, "sink")}${offline ? "" : ", all reached"}`,
    )
  }),
).pipe(
  Command.withDescription("Check the config, and that its sinks can be reached"),
  Command.withExamples([
    { command: "relay validate", description: "Check relay.config.json and reach its sinks" },
    {
      command: "relay validate --offline -c new.config.json",
      description: "Check a file where its sinks are out of reach",
    },
  ]),
)
