/**
 * Another config in place of the one in force, while the relay runs.
 *
 * **Promise.** It is loaded and checked first, and then applied whole or not at
 * all: whatever fails, the config before it stays in force and says why. No
 * delivery is refused for it, and nothing under way is lost.
 *
 * One at a time. Those that are asked for while one is under way are answered
 * together by the next, which reads the file after the last of them.
 */
import { Clock, Context, Deferred, Effect, Exit, Layer, Queue, Schema } from "effect"
import type { LaneConfig, RelayConfig } from "../config/Config.ts"
import { type ConfigError, Diagnostic } from "../config/diagnostics/Diagnostic.ts"
import type { Loaded } from "../config/load/Load.ts"
import { type LaneSpec, Lanes } from "../delivery/Lanes.ts"
import { Notify } from "../runtime/Notify.ts"
import * as Difference from "./Difference.ts"

export interface Report {
  /** The file that was read, as it is named. */
  readonly file: string
  readonly changes: ReadonlyArray<Difference.Difference>
  /** What a person should know of it, in sentences. */
  readonly notes: ReadonlyArray<string>
  readonly warnings: ReadonlyArray<Diagnostic>
}

/** The config before it is in force still. */
export class ReloadRefused extends Schema.TaggedError<ReloadRefused>()("ReloadRefused", {
  /** It can't be loaded; it changes what only a restart can; a new sink can't work; the journal can't open a lane now. */
  reason: Schema.Literals(["config", "restart", "sink", "journal"]),
  message: Schema.String,
  /** What is wrong with the config, where that is the reason. */
  diagnostics: Schema.Array(Diagnostic),
}) {}

export interface ReloadStatus {
  /** Epoch milliseconds at which the config in force was loaded. */
  readonly loadedAt: number
  /** Why the last reload was refused; empty when it was not. */
  readonly refusal: string
}

export interface ReloadOptions {
  readonly current: () => RelayConfig
  readonly load: Effect.Effect<Loaded, ConfigError>
  readonly spec: (sink: LaneConfig) => LaneSpec
  /** Puts a config in force for whatever is received from then on. */
  readonly swap: (config: RelayConfig) => void
}

export class Reload extends Context.Service<
  Reload,
  {
    readonly reload: Effect.Effect<Report, ReloadRefused>
    readonly standing: Effect.Effect<ReloadStatus>
  }
>()("relay/admin/Reload") {
  static readonly layer = (options: ReloadOptions): Layer.Layer<Reload, never, Lanes> =>
    Layer.effect(Reload, make(options))
}

const refused = (reason: ReloadRefused["reason"], message: string, diagnostics: ReloadRefused["diagnostics"] = []) =>
  new ReloadRefused({ reason, message, diagnostics })

const make = Effect.fnUntraced(function* ({ current, load, spec, swap }: ReloadOptions) {
  const lanes = yield* Lanes
  const notify = yield* Notify
  const asked = yield* Queue.unbounded<Deferred.Deferred<Report, ReloadRefused>>()
  let standing: ReloadStatus = { loadedAt: yield* Clock.currentTimeMillis, refusal: "" }

  const attempt = Effect.gen(function* () {
    const { file, config, warnings } = yield* Effect.mapError(load, (error) =>
      refused("config", error.message, error.diagnostics),
    )
    const before = current()
    const fixed = Difference.restart(before, config)
    if (fixed.length > 0)
      return yield* refused("restart", `only a restart changes ${fixed.join(", ")}, so nothing was changed`)
    const notes = yield* lanes
      .change(
        config.sinks.map(spec),
        Effect.sync(() => swap(config)),
      )
      .pipe(
        Effect.catchTags({
          SinkUnusable: ({ message }) => Effect.fail(refused("sink", message)),
          JournalError: ({ message }) => Effect.fail(refused("journal", message)),
        }),
      )
    const report: Report = { file, changes: Difference.between(before, config), notes, warnings }
    return report
  })

  const tell = Effect.fnUntraced(function* ({ file, changes, notes, warnings }: Report) {
    const words = changes.length === 0 ? "nothing has changed" : changes.map(Difference.show).join("; ")
    yield* Effect.logInfo(`${file} was loaded anew: ${words}`)
    for (const { line, message } of warnings) yield* Effect.logWarning(`${file}:${line}: ${message}`)
    for (const note of notes) yield* Effect.logWarning(note)
  })

  const tellWhyNot = Effect.fnUntraced(function* ({ message, diagnostics }: ReloadRefused) {
    yield* Effect.logError(`the config in force stays: ${diagnostics.length === 0 ? message : "the new one is wrong"}`)
    for (const { file, line, key, message } of diagnostics)
      yield* Effect.logError(`${file}:${line}: ${key}: ${message}`)
  })

  const work = Effect.gen(function* () {
    const waiting = yield* Queue.takeAll(asked)
    yield* notify.reloading
    const exit = yield* Effect.exit(attempt)
    const error = Exit.isFailure(exit) ? Exit.findErrorOption(exit) : undefined
    standing =
      error === undefined
        ? { loadedAt: yield* Clock.currentTimeMillis, refusal: "" }
        : {
            ...standing,
            refusal: error._tag === "Some" ? error.value.message : "a bug in relay; the log has its cause",
          }
    if (Exit.isSuccess(exit)) yield* tell(exit.value)
    else if (error?._tag === "Some") yield* tellWhyNot(error.value)
    else yield* Effect.logError("a bug in relay while reloading", exit.cause)
    yield* notify.say("READY=1")
    for (const one of waiting) yield* Deferred.done(one, exit)
  })
  yield* Effect.forkScoped(Effect.forever(work))

  return Reload.of({
    reload: Effect.gen(function* () {
      const answer = yield* Deferred.make<Report, ReloadRefused>()
      yield* Queue.offer(asked, answer)
      return yield* Deferred.await(answer)
    }),
    standing: Effect.sync(() => standing),
  })
})
