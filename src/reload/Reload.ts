/**
 * Loads the config again and puts it in force while the relay runs.
 *
 * **Guarantee.** The new config is loaded and checked first, and then applied as
 * a whole or not at all. When anything fails, the config before it stays in
 * force and the reason is reported. No delivery is refused because of a reload,
 * and nothing in flight is lost.
 *
 * One reload runs at a time. Requests that come meanwhile are answered together
 * by the next one, which reads the file after the last of them.
 */
import { Clock, Context, Deferred, Effect, Equal, Exit, FileSystem, Latch, Layer, Option, Queue, Schema } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { RelayConfig } from "../config/Config.ts"
import { type ConfigError, Diagnostic, logDiagnostics, render } from "../config/diagnostics/Diagnostic.ts"
import { embeddedName } from "../config/load/ConfigText.ts"
import { type CertificateFault, diagnosticsOf, type Loaded, warningsOf } from "../config/load/Load.ts"
import { type FileTexts, readerOf } from "../config/load/References.ts"
import { LaneSpecs } from "../delivery/LaneSpec.ts"
import { Lanes } from "../delivery/Lanes.ts"
import { eventLoop } from "../event/EventLoop.ts"
import { repeating, rounds } from "../event/Rounds.ts"
import { Archive } from "../journal/Archive.ts"
import { storeEnd } from "../journal/AuditLog.ts"
import { liveKeys } from "../journal/Journals.ts"
import { lastChange } from "../runtime/FileSystem.ts"
import { Notify } from "../runtime/Notify.ts"
import { ListenerTls, onSignal } from "../runtime/Runtime.ts"
import type { Reloaded, ReloadStatus, RestartStatus } from "./Difference.ts"
import * as Difference from "./Difference.ts"

// The restart of a relay by itself, as the admin API asks for it. `relay run` does it.

/** The relay goes on as before. */
export class RestartRefused extends Schema.TaggedError<RestartRefused>()("RestartRefused", {
  message: Schema.String,
}) {}

export class Restart extends Context.Service<
  Restart,
  {
    /** Starts the second process, and returns its id once it listens. Begins to stop this one instead, if `status` says so, and returns its id. */
    readonly begin: Effect.Effect<number, RestartRefused>
    readonly status: Effect.Effect<RestartStatus>
  }
>()("relay/reload/Restart") {
  static readonly layer = (restart: Restart["Service"]): Layer.Layer<Restart> => Layer.succeed(Restart, restart)
}

/** The config before it is still in force. */
export class ReloadRefused extends Schema.TaggedError<ReloadRefused>()("ReloadRefused", {
  /**
   * It can't be loaded; it changes what only a restart can, or another file would take its place; a new sink can't work; the journal can't open a lane now;
   * the listener can't take its certificate.
   */
  reason: Schema.Literals(["config", "restart", "sink", "journal", "listener"]),
  message: Schema.String,
  /** The mistakes in the config, if they are the reason. */
  diagnostics: Schema.Array(Diagnostic),
}) {}

export class Reload extends Context.Service<
  Reload,
  {
    readonly reload: Effect.Effect<Reloaded, ReloadRefused>
    readonly status: Effect.Effect<ReloadStatus>
  }
>()("relay/reload/Reload") {
  /** `started` is the config that the relay was started with. */
  static readonly layer = (
    load: Effect.Effect<Loaded, ConfigError>,
    started: Pick<Loaded, "file" | "certificateFaults">,
  ): Layer.Layer<Reload, never, ActiveConfig | Lanes | LaneSpecs | ListenerTls> =>
    Layer.effect(Reload, make(load, started))
}

/** The caller of a reload without a request: a user of this machine, by one of the two triggers of `Reload.ts`. */
const byTrigger = { who: "local", by: "SIGHUP or --watch", what: "reload", on: "" }

/** Reloads each time that the latch is opened. The log says why one was refused. */
export const reloadWhen = (triggered: Latch.Latch): Effect.Effect<never, never, Reload | Archive> =>
  repeating(
    "a reload",
    Effect.gen(function* () {
      yield* triggered.await
      yield* triggered.close
      const { audit } = yield* Archive
      yield* Effect.ignore(Effect.onExit((yield* Reload).reload, storeEnd(audit, byTrigger)))
    }),
  )

const refused = (reason: ReloadRefused["reason"], message: string, diagnostics: ReloadRefused["diagnostics"] = []) =>
  new ReloadRefused({ reason, message, diagnostics })

const logReport = Effect.fnUntraced(function* (report: Reloaded) {
  const { file, changes, notes, warnings } = report
  const words = changes.length === 0 ? "nothing has changed" : changes.map(Difference.show).join("; ")
  yield* Effect.annotateLogs(Effect.logInfo(`${Difference.headline(report)}: ${words}`), { file })
  yield* logDiagnostics(warnings)
  for (const note of notes) yield* Effect.logWarning(note)
})

const logRefusal = Effect.fnUntraced(function* ({ reason, message, diagnostics }: ReloadRefused) {
  const words = diagnostics.length === 0 ? message : "the new one is wrong"
  yield* Effect.annotateLogs(Effect.logError(`the active config stays: ${words}`), { reason })
  yield* logDiagnostics(diagnostics)
})

/** A key with its line in the file, if it has one: `listen (relay.config.json:3)`. */
const withPlace = (key: string, { file, lineOf }: Loaded): string => {
  const line = lineOf(key.split("."))
  return line === undefined ? key : `${key} (${file}:${line})`
}

/** Refuses a file that another one has replaced, and one in the place of the file that the relay was started with. */
const readable = Effect.fnUntraced(function* (file: string, started: string) {
  if (file !== started && started !== embeddedName) {
    const message = `${started} is gone, and ${file} would take its place`
    return yield* refused("restart", `${message}: put it back, or restart the relay`)
  }
  const change = yield* lastChange(file)
  if (change?.isReplaced !== true) return change
  const { message, action } = Difference.replaced(change.path)
  return yield* refused("restart", `${message}: ${action}`)
})

/** The faults that the active certificates don't have. Others are not a reason to keep the active ones. */
const newFaults = (
  after: ReadonlyArray<CertificateFault>,
  before: ReadonlyArray<CertificateFault>,
  { certificates }: RelayConfig,
): ReadonlyArray<CertificateFault> =>
  after.filter(
    ({ key, message, fingerprint }) =>
      !before.some((fault) => fault.key === key && fault.message === message) &&
      !certificates.some((one) => one.key === key && one.fingerprint === fingerprint),
  )

const make = Effect.fnUntraced(function* (
  load: Effect.Effect<Loaded, ConfigError>,
  started: Pick<Loaded, "file" | "certificateFaults">,
) {
  const active = yield* ActiveConfig
  const lanes = yield* Lanes
  const specs = yield* LaneSpecs
  const listener = yield* ListenerTls
  const notify = yield* Notify
  let faults = started.certificateFaults
  const requests = yield* Queue.unbounded<Deferred.Deferred<Reloaded, ReloadRefused>>()
  let status: ReloadStatus = { loadedAt: yield* Clock.currentTimeMillis, refusal: "" }

  const attempt = Effect.gen(function* () {
    const loaded = yield* Effect.mapError(load, (error) => refused("config", error.message, error.diagnostics))
    const { file, config, certificateFaults } = loaded
    const change = yield* readable(file, started.file)
    const before = active.current.config
    const diagnostics = diagnosticsOf(newFaults(certificateFaults, faults, before))
    if (diagnostics.length > 0) return yield* refused("config", render(diagnostics), diagnostics)
    const fixed = Difference.needingRestart(before, config, liveKeys(config.journal))
    if (fixed.length > 0) {
      const keys = fixed.map((key) => withPlace(key, loaded)).join(", ")
      const what = `only a restart changes ${keys}, so nothing was changed`
      return yield* refused("restart", `${what}: restart the relay, or take the change back`)
    }
    yield* eventLoop.turn
    // Before the lanes: a certificate can be taken back, and events that were moved to a new name can't.
    const newTls = Equal.equals(before.tls, config.tls) ? undefined : config.tls
    if (newTls !== undefined) {
      yield* Effect.mapError(listener.renew(newTls), ({ message }) => refused("listener", message))
    }
    const takeBack = newTls === undefined || before.tls === undefined ? Effect.void : listener.renew(before.tls)
    const lanesChanged = lanes.change(config.sinks.map(specs.of), active.replace(config))
    const notes = yield* Effect.catchTags(
      Effect.onError(lanesChanged, () => Effect.ignore(takeBack)),
      {
        SinkUnusable: ({ message }) => Effect.fail(refused("sink", message)),
        JournalError: ({ message }) => Effect.fail(refused("journal", message)),
      },
    )
    yield* specs.renew(config)
    faults = certificateFaults
    yield* eventLoop.turn
    const report: Reloaded = {
      file: change?.path ?? file,
      ...(change && { changedAt: change.changedAt }),
      changes: Difference.between(before, config),
      notes,
      warnings: warningsOf(loaded),
    }
    return report
  })

  const conclude = Effect.fnUntraced(function* (exit: Exit.Exit<Reloaded, ReloadRefused>) {
    if (Exit.isSuccess(exit)) {
      status = { loadedAt: yield* Clock.currentTimeMillis, refusal: "" }
      return yield* logReport(exit.value)
    }
    const error = Exit.findErrorOption(exit)
    if (error._tag === "Some") {
      status = { ...status, refusal: error.value.message }
      return yield* logRefusal(error.value)
    }
    status = { ...status, refusal: "internal error; the log has the cause, please report it" }
    return yield* Effect.logError("internal error while reloading; please report it", exit.cause)
  })

  const work = Effect.gen(function* () {
    const answered = yield* Queue.takeAll(requests)
    yield* notify.reloading
    const exit = yield* Effect.exit(attempt)
    yield* eventLoop.turn
    yield* conclude(exit)
    yield* notify.say("READY=1")
    for (const request of answered) yield* Deferred.done(request, exit)
  })
  yield* Effect.forkScoped(repeating("a reload", work))

  return Reload.of({
    reload: Effect.gen(function* () {
      const request = yield* Deferred.make<Reloaded, ReloadRefused>()
      yield* Queue.offer(requests, request)
      return yield* Deferred.await(request)
    }),
    status: Effect.map(lastChange(started.file), (change) => ({
      ...status,
      ...(change?.isReplaced === true && { isReplaced: true as const }),
    })),
  })
})

const lookEvery = "500 millis"

/**
 * Triggers of a reload: SIGHUP, and with `run --watch` a change of the config or of a file that it names, such as a
 * certificate.
 *
 * The files are read twice a second, so that a file that an editor renames into place, or that a symbolic link
 * leads to, is seen like any other. A change counts when two reads in a row agree, so that a half-written file
 * isn't used. A file that can't be read or is empty counts after five seconds.
 *
 * A latch that every trigger opens, from now on. If `files` are given, they are watched.
 */
export const triggers = Effect.fnUntraced(function* (files?: FileTexts) {
  const triggered = Latch.makeUnsafe(false)
  yield* onSignal("SIGHUP", () => triggered.openUnsafe())
  if (files !== undefined) yield* Effect.forkScoped(watch(files, triggered), { startImmediately: true })
  return triggered
})

/** Reads in a row after which a file that is absent or empty counts as changed. A rename takes less. */
const patience = 10

/**
 * Opens the latch when one of `files` has another text than when it was loaded. Each load updates the list of files.
 */
export const watch = Effect.fnUntraced(function* (files: FileTexts, triggered: Latch.Latch) {
  const fileSystem = yield* FileSystem.FileSystem
  const readFile = readerOf(fileSystem)
  const known = new Set<string>()
  /** Warns once of a file whose new content can't be read. */
  const warnOfReplaced = Effect.fnUntraced(function* (path: string) {
    const found = yield* Effect.option(fileSystem.stat(path))
    const links = Option.flatMap(found, ({ nlink }) => nlink)
    if (known.has(path) || !Option.contains(links, 0n)) return
    known.add(path)
    const { message, action } = Difference.replaced(path)
    yield* Effect.logWarning(`${message}: ${action}`)
  })
  /** Empty while the file doesn't exist, as in the middle of a rename. */
  const read = (path: string) =>
    Effect.orElseSucceed(
      Effect.map(readFile(path), (bytes) => new TextDecoder().decode(bytes)),
      () => "",
    )
  let before: ReadonlyMap<string, string> = new Map(files)
  const empty = new Map<string, number>()
  const look = Effect.gen(function* () {
    const now: FileTexts = new Map()
    for (const path of files.keys()) {
      const text = yield* read(path)
      now.set(path, text)
      empty.set(path, text === "" ? (empty.get(path) ?? 0) + 1 : 0)
      yield* warnOfReplaced(path)
    }
    // Not one by one: a certificate and its key change together.
    const changed = [...now].filter(
      ([path, text]) =>
        files.has(path) && text !== files.get(path) && (text !== "" || (empty.get(path) ?? 0) >= patience),
    )
    if (changed.length > 0 && changed.every(([path, text]) => text === before.get(path))) {
      for (const [path, text] of changed) files.set(path, text)
      yield* triggered.open
    }
    before = now
  })
  return yield* Effect.delay(rounds("watching the config's files", look, lookEvery), lookEvery)
})
