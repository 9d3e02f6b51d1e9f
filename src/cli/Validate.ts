/** `relay validate`: is the config right, and can its sinks be reached? */
import { Duration, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import type { LaneConfig } from "../config/Config.ts"
import { render, toJson } from "../config/Diagnostic.ts"
import type { Limits } from "../sinks/Sink.ts"
import type { AnySinkType } from "../sinks/Sinks.ts"
import { failed } from "./CommandError.ts"
import { loadQuietly } from "./Loading.ts"
import { Json } from "./Options.ts"
import { count, plain, print, printJson, say, table } from "./Output.ts"
import { lazily } from "./Program.ts"

/** A sink that does not answer in this time can't be reached. */
const patience = Duration.seconds(10)

interface Reached {
  readonly sink: string
  readonly ok: boolean
  readonly message: string
  /** What will go wrong for some events all the same. */
  readonly advice: ReadonlyArray<string>
}

const reach = Effect.fnUntraced(function* (
  type: AnySinkType | undefined,
  { name, config }: LaneConfig,
  limits: Limits,
) {
  // A config that loads names only types that exist.
  if (type === undefined) return []
  const sink = yield* type.open(name, config)
  yield* sink.check
  return sink.advise === undefined ? [] : yield* sink.advise(limits)
})

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
    const { sinkTypes } = yield* lazily(() => import("../sinks/Sinks.ts"))
    const limits = { maxBody: Math.max(0, ...config.webhooks.map(({ maxBody }) => maxBody)) }
    const reached = offline
      ? []
      : yield* Effect.forEach(
          config.sinks,
          (lane) =>
            Effect.scoped(reach(sinkTypes[lane.type], lane, limits)).pipe(
              Effect.timeoutOrElse({
                duration: patience,
                orElse: () => Effect.fail({ message: `no answer within ${Duration.format(patience)}` }),
              }),
              Effect.match({
                onSuccess: (advice): Reached => ({ sink: lane.name, ok: true, message: "", advice }),
                onFailure: ({ message }): Reached => ({ sink: lane.name, ok: false, message, advice: [] }),
              }),
            ),
          { concurrency: 8 },
        )
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
