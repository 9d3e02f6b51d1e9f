/** The process of `relay run`: its messages to systemd, and its restarts. */
import {
  Cause,
  Clock,
  type Context,
  Duration,
  Effect,
  Exit,
  Formatter,
  Logger,
  type LogLevel,
  Queue,
  Schedule,
  Scope,
  Stdio,
} from "effect"
import { Flag } from "effect/cli"
import * as Address from "../../config/Address.ts"
import { type RelayConfig, type StopWaits, stopDeadline } from "../../config/Config.ts"
import { Lanes } from "../../delivery/Lanes.ts"
import { quarantine } from "../../event/Event.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import type { Millis } from "../../event/Quantities.ts"
import { escaped } from "../../formats/Texts.ts"
import { Archive } from "../../journal/Archive.ts"
import { Journal } from "../../journal/Journal.ts"
import type { Turn } from "../../journal/JournalContext.ts"
import * as Journals from "../../journal/Journals.ts"
import { doorsOf, type Listening } from "../../Relay.ts"
import type { RestartStatus } from "../../reload/Difference.ts"
import { type Restart, RestartRefused } from "../../reload/Reload.ts"
import { Notify } from "../../runtime/Notify.ts"
import * as Handover from "../../runtime/ProcessHandover.ts"
import { awaitSignal, type Signal, stopItself } from "../../runtime/Runtime.ts"
import { isJournal, Stderr } from "../../runtime/Stderr.ts"
import { relayVersion } from "../../runtime/Version.ts"
import { limit } from "../../telemetry/Repeats.ts"
import { again, type CommandError, failed } from "./CommandError.ts"
import { Json } from "./flags.ts"
import { count, type Paint, paintMessages, plain, span } from "./output.ts"
import { Program } from "./Program.ts"

/**
 * The log of `relay run`, on stderr: text on a terminal, JSON lines elsewhere. Repeated lines are counted and
 * reported together (`telemetry/Repeats.ts`).
 */
export const formatFlag = Flag.Literals("log-format", ["auto", "text", "json"]).pipe(
  Flag.withDescription("The log's format; auto: text on a terminal, JSON elsewhere"),
  Flag.withDefault("auto"),
)

/** Reports whether the log is JSON, because of the flags or because stderr is not a terminal. */
export const isJson = Effect.fnUntraced(function* (format: "auto" | "text" | "json") {
  if ((yield* Json) || format === "json") return true
  return format === "auto" && !(yield* (yield* Stdio.Stdio).stderrIsTerminal)
})

const text = (value: unknown): string => (typeof value === "string" ? value : Formatter.format(value))

/** Returns a line's words and its fields that are not empty. */
const record = Logger.map(Logger.formatStructured, ({ timestamp, level, message, annotations, cause }) => ({
  timestamp,
  level,
  message: (Array.isArray(message) ? message : [message]).map(text).join(" "),
  fields: Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== "" && value != null)),
  cause,
}))

/** Formats a line as JSON: `{"timestamp":"…","level":"WARN","message":"…","sink":"lake","reason":"SinkUnavailable"}`. */
const json = Logger.map(record, ({ fields, cause, ...line }) =>
  escaped(Formatter.formatJson({ ...line, ...fields, cause })),
)

const styles: Readonly<Record<string, Parameters<Paint>[0]>> = { WARN: "yellow", ERROR: "red", FATAL: "red" }

/** Formats a line, such as `2026-11-21T03:04:55.694Z WARN  what happened  key=value`. Fields that the words already contain are left out. */
const lines = (style: Paint) =>
  Logger.map(record, ({ timestamp, level, message, fields, cause }) => {
    const words = new Set(message.split(/[\s,;()]+|:(?=\s|$)/))
    const facts = Object.entries(fields)
      .filter(([, value]) => !words.has(text(value)))
      .map(([key, value]) => `  ${plain(key)}=${plain(text(value))}`)
    const shown = style(styles[level] ?? "dim", level.padEnd(5))
    return `${style("dim", timestamp)} ${shown} ${plain(message)}${style("dim", facts.join(""))}${cause === undefined ? "" : `\n${cause}`}`
  })

/** Syslog's priority of a level. */
const priorityOf = (level: LogLevel.LogLevel): number => {
  if (level === "Fatal" || level === "Error") return 3
  if (level === "Warn") return 4
  return level === "Debug" || level === "Trace" ? 7 : 6
}

/**
 * Puts the priority before each line, as sd-daemon(3) has it, so that `journalctl --priority` selects by it. The
 * journal takes it off. Otherwise all lines have the same priority there.
 */
const forJournal = (format: Logger.Logger<unknown, string>) =>
  Logger.make((line) => format.log(line).replaceAll(/^/gm, `<${priorityOf(line.logLevel)}>`))

const formatOf = Effect.fnUntraced(function* (isJson: boolean) {
  const format = isJson ? json : lines(yield* paintMessages)
  return isJournal((yield* Program).env.JOURNAL_STREAM) ? forJournal(format) : format
})

export const layer = (isJson: boolean) =>
  Logger.layer([Effect.flatMap(formatOf(isJson), (format) => limit(Logger.withConsoleError(format)))])

/** Makes the log non-blocking. From now on, a reader of stderr that stops must not stop the relay. */
export const neverBlock = Effect.fnUntraced(function* (isJson: boolean) {
  const format = yield* formatOf(isJson)
  const run = Effect.runSyncWith(yield* Effect.context<never>())
  const line = (message: string, dropped: number) =>
    Effect.withFiber((fiber) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        format.log({ message, logLevel: "Warn", cause: Cause.empty, fiber, date: new Date(now) }),
      ),
    ).pipe(Effect.annotateLogs({ dropped }))
  const notice = (dropped: number): string =>
    run(
      line(
        `${count(dropped, "line")} of the log ${dropped === 1 ? "is" : "are"} missing here: stderr was not read`,
        dropped,
      ),
    )
  const stderr = yield* Stderr
  yield* Effect.sync(() => stderr.neverBlock(notice))
})

type Relay = Context.Service.Shape<typeof Listening>

/**
 * Stops `relay run`. The end of its scope then starts the drain.
 *
 * After SIGTERM, `/readyz` is false and deliveries are still accepted for `drain.delay`, until load balancers have
 * noticed. Then deliveries get 503 for `drain.refuse`. SIGINT comes from a person at a terminal and skips both
 * waits.
 */
export interface Stop {
  /** Called once the relay listens. Before that a stop has no waits. */
  readonly started: (relay: Relay) => void
  /** Ends when the drain should begin. */
  readonly stopped: Effect.Effect<void>
  /** Starts the stop. */
  readonly startAgain: Effect.Effect<void>
  /** Succeeds after a stop. If `startAgain` started the stop, fails so that the service manager starts the relay again. */
  readonly ended: Effect.Effect<void, CommandError>
}

const kept = "everything accepted is on disk, and what was in flight is sent again after the next start"
const noWaits: StopWaits = { delay: Duration.zero, refuse: Duration.zero }

/** Logs the message and waits, unless the time is zero. */
const wait = (time: Duration.Duration, message: string): Effect.Effect<void> =>
  Duration.isZero(time)
    ? Effect.void
    : Effect.andThen(Effect.logInfo(`${message} for ${Duration.format(time)}`), Effect.sleep(time))

export const makeStop = (): Stop => {
  let relay: Relay | undefined
  let isStartedAgain = false
  const waitsAt = (signal: Signal): StopWaits =>
    relay === undefined || signal === "SIGINT" ? noWaits : relay.config().drain

  const stopped = Effect.gen(function* () {
    const log = Effect.runSyncWith(yield* Effect.context<never>())
    const { flush } = yield* Stderr
    const signal = yield* awaitSignal({
      deadline: (signal) => stopDeadline(waitsAt(signal)),
      onExit: (why) => {
        log(Effect.logWarning(`${why}: exiting immediately; ${kept}`))
        return flush()
      },
    })
    const waits = waitsAt(signal)
    yield* relay?.leave ?? Effect.void
    const deadline = Duration.toMillis(stopDeadline(waits))
    const until = new Date((yield* Clock.currentTimeMillis) + deadline).toISOString()
    yield* Effect.logInfo(`${signal}: draining, until ${until} at the latest; a second signal exits immediately`)
    yield* (yield* Notify).say("STOPPING=1", `STATUS=draining, until ${until} at the latest`)
    yield* wait(waits.delay, "not ready, and still accepting deliveries")
    yield* relay?.refuse ?? Effect.void
    yield* wait(waits.refuse, "refusing deliveries")
  })
  return {
    started: (listening) => {
      relay = listening
    },
    stopped,
    startAgain: Effect.suspend(() => {
      isStartedAgain = true
      return stopItself
    }),
    ended: Effect.suspend(() =>
      isStartedAgain ? Effect.fail(again("stopped, so that the service manager starts the relay again")) : Effect.void,
    ),
  }
}

// Tells systemd that the relay is ready and what its status is, and notifies the watchdog.
//
// The watchdog is notified after an empty commit, so that systemd restarts the relay if its event
// loop, disk or journal hangs. A full journal causes no restart, because that would not empty it.

/** The interval of status messages without a watchdog. */
const defaultInterval = Duration.seconds(10)

/** The status in a line, such as `journal ok; 3 sinks; waiting: lake, chat`. */
const status = Effect.gen(function* () {
  const { health } = yield* (yield* Archive).status
  const lanes = (yield* (yield* Lanes).status).filter(({ name }) => name !== quarantine)
  const impaired = Map.groupBy(
    lanes.filter(({ condition }) => condition !== "running"),
    ({ condition }) => condition,
  )
  const conditions = [...impaired].map(
    ([condition, some]) => `; ${condition}: ${some.map(({ name }) => name).join(", ")}`,
  )
  return plain(`STATUS=journal ${health}; ${count(lanes.length, "sink")}${conditions.join("")}`)
})

/** Runs until it is interrupted. */
export const notifySystemd = Effect.gen(function* () {
  const { say, isHeard, watchdog } = yield* Notify
  if (!isHeard) return yield* Effect.never
  const journal = yield* Journal
  // Twice as often as required, because a late notification must not end the process.
  const every = watchdog === undefined ? defaultInterval : Duration.divideUnsafe(watchdog, 2)
  const commits = Effect.timeoutOption(Effect.isSuccess(journal.settle([])), every)
  const beat = Effect.gen(function* () {
    const committed = yield* commits
    if (committed._tag === "None" || !committed.value) return yield* say("STATUS=the journal does not commit")
    yield* say("WATCHDOG=1", yield* status)
  })
  yield* say("READY=1", yield* status)
  return yield* Effect.andThen(Effect.repeat(Effect.ignore(beat), Schedule.spaced(every)), Effect.never)
})

// Restarts `relay run` without refusing a delivery. Both processes run this code, and
// `ProcessHandover.ts` has their messages.
//
// The first process keeps its ports and continues until the second one listens there. It then closes
// its journal, and opens it again if the second one doesn't open it in time. Meanwhile, requests wait
// in the process that receives them.
//
// If the start takes too long for requests to wait, the process stops instead, and the service manager
// starts it again.

/** The time limit for the second process to listen. Meanwhile, deliveries are answered. */
const longestStart = Duration.seconds(30)
/** The time limit for it to open the journal. Meanwhile, requests wait for at most ten seconds. */
const longestOpening = Duration.seconds(5)
/** The time for which the first process forwards requests of clients that keep their connections. */
const lingering = Duration.seconds(3)

const stopAndStart = "stop the relay and start it again"

/** Returns the addresses with their scheme, by the keys of the config. */
const addressesOf = ({ listen, tls, admin }: RelayConfig): Readonly<Record<string, string>> => ({
  listen: `${tls === undefined ? "http" : "https"}://${Address.format(listen)}`,
  "admin.listen": `http://${Address.format(admin.listen)}`,
})

/** Says why a config or binary can't continue the work of the first process. Returns `undefined` if it can. */
export const mismatch = (
  before: Handover.Facts,
  now: Pick<Handover.Facts, "addresses" | "journal" | "schema">,
): string | undefined => {
  for (const [key, address] of Object.entries(now.addresses)) {
    const was = before.addresses[key]
    if (was !== address) return `"${key}" of the config is ${address}, and the relay listens at ${was}: ${stopAndStart}`
  }
  if (now.journal !== before.journal) return `the config names another journal than the relay's: ${stopAndStart}`
  if (now.schema < before.schema) {
    return `the program is older than the journal's schema (${now.schema} and ${before.schema}): install the version that runs, or a later one`
  }
  return undefined
}

/** A second process that listens. */
interface Attempt {
  readonly successor: Handover.Successor
  readonly pid: number
  readonly turn: Turn
  /** The scope of the second process. Closing it kills the process unless it has taken over. */
  readonly scope: Scope.Closeable
}

export interface Restarts {
  readonly restart: Restart["Service"]
  readonly doors: Handover.KeptDoors
  /** The proof that it is this process's turn to use the journal. */
  readonly turn: () => Turn
  /** Whether another process is about to take over. */
  readonly isHandedOver: () => boolean
  /** If another process started this one, listens on its addresses and waits for its journal. */
  readonly succeed: (config: RelayConfig) => Effect.Effect<void, CommandError>
  /** Reports that the relay serves, and how long opening it took. */
  readonly opened: (config: RelayConfig, took: Millis) => Effect.Effect<void>
  /** Waits until a second process can take over. */
  readonly asked: Effect.Effect<Attempt>
  /** Lets the other process open the journal. Returns whether it took over. */
  readonly handOver: (attempt: Attempt) => Effect.Effect<boolean>
}

const forwardAll = ({ all }: Handover.KeptDoors, config: RelayConfig): void => {
  for (const [key, door] of all)
    door.passTo(Handover.forwardTo(door.address, key === "listen" && config.tls !== undefined))
}

const factsOf = (config: RelayConfig) =>
  Effect.map(Journals.identify(config.journal), (identity) => ({ ...identity, addresses: addressesOf(config) }))

/** Listens on the first process's addresses. */
const listenFor = Effect.fnUntraced(function* (
  { facts, ended }: Handover.Predecessor,
  config: RelayConfig,
  doors: Handover.KeptDoors,
) {
  const why = mismatch(facts, yield* factsOf(config))
  if (why !== undefined) return yield* new RestartRefused({ message: why })
  for (const [key, options] of Object.entries(doorsOf(config))) {
    const address = { ...options.address, port: facts.ports[key] ?? options.address.port }
    yield* doors.open(key, { ...options, address, takesOver: ended })
  }
})

/** Reports whether a start that takes this long is too long for requests to wait. */
const isLong = (took: Millis): boolean => took > Duration.toMillis(longestOpening)

/** Says why this process can't be restarted now. Returns `undefined` if it can. */
const refusalOf = (isHeard: boolean, took: Millis): string | undefined => {
  const limit = Duration.format(longestOpening)
  if (isHeard || !isLong(took)) return Handover.refusal(Handover.situation(isHeard))
  return `the relay took ${span(took)} to start, and deliveries wait for ${limit} at most: ${stopAndStart}`
}

export interface Options {
  /** The process that started this one as its successor. */
  readonly first?: Handover.Predecessor | undefined
  /** Fails if the current config file can't be loaded. */
  readonly check: Effect.Effect<unknown, { readonly message: string }>
  /** Starts to stop this process, which the service manager then starts again. */
  readonly startAgain: Effect.Effect<void>
}

export const makeRestarts = Effect.fnUntraced(function* ({ first, check, startAgain }: Options) {
  const doors = yield* Handover.keepDoors
  const notify = yield* Notify
  const scope = yield* Scope.Scope
  const attempts = yield* Queue.unbounded<Attempt>()
  const all = () => [...doors.all.values()]
  let underWay = false
  let isHandedOver = false
  let listeningSince: Millis | undefined
  let turn = first?.facts.turn ?? { instance: crypto.randomUUID(), ended: [] }
  let status: RestartStatus = { pid: Handover.situation(notify.isHeard).pid }
  let running: { readonly config: RelayConfig; readonly took: Millis } | undefined

  const start = Effect.fnUntraced(function* (config: RelayConfig) {
    for (const door of all()) yield* door.share
    const ports = Object.fromEntries([...doors.all].map(([key, { address }]) => [key, address.port]))
    const next = { instance: crypto.randomUUID(), ended: [turn.instance] }
    const facts = { ...(yield* factsOf(config)), ports, pid: status.pid, turn: next }
    const own = yield* Scope.fork(scope)
    const listening = Effect.gen(function* () {
      const successor = yield* Scope.provide(Handover.start(facts), own)
      const { pid } = yield* Effect.timeoutOrElse(successor.says("listening"), {
        duration: longestStart,
        orElse: () => new RestartRefused({ message: "the second process doesn't listen" }),
      })
      return { successor, pid, turn: next, scope: own }
    })
    return yield* Effect.onExit(listening, (exit) => (Exit.isSuccess(exit) ? Effect.void : Scope.close(own, exit)))
  })

  const begin = Effect.gen(function* () {
    const refuse = (message: string) => Effect.fail(new RestartRefused({ message }))
    if (underWay || running === undefined) return yield* refuse("a restart is under way")
    const reason = refusalOf(notify.isHeard, running.took)
    if (reason !== undefined) return yield* refuse(reason)
    if (isLong(running.took)) yield* Effect.catch(check, ({ message }) => refuse(message))
    underWay = true
    status = { pid: status.pid }
    if (isLong(running.took)) return yield* Effect.as(startAgain, status.pid)
    const attempt = yield* start(running.config).pipe(
      Effect.mapError(({ message }) => new RestartRefused({ message })),
      Effect.onExit((exit) => Effect.sync(() => (underWay = Exit.isSuccess(exit)))),
    )
    isHandedOver = true
    for (const door of all()) yield* door.leave
    yield* Queue.offer(attempts, attempt)
    return attempt.pid
  })

  const succeed = Effect.fnUntraced(function* (config: RelayConfig) {
    if (first === undefined) return
    const listening = Scope.provide(listenFor(first, config, doors), scope)
    yield* Effect.mapError(listening, ({ message }) => failed(message))
    listeningSince = yield* Monotonic.now
    yield* first.listening
    yield* first.released
  })

  const opened = Effect.fnUntraced(function* (config: RelayConfig, took: Millis) {
    running = { config, took }
    underWay = false
    isHandedOver = false
    if (first === undefined || listeningSince === undefined) return
    const waited = Math.round((yield* Monotonic.now) - listeningSince)
    listeningSince = undefined
    yield* first.opened(relayVersion)
    status = { ...status, took: waited }
  })

  const handOver = Effect.fnUntraced(function* ({ successor, pid, scope, turn: next }: Attempt) {
    yield* successor.release
    const opening = Effect.timeoutOrElse(successor.says("opened"), {
      duration: longestOpening,
      orElse: () =>
        new Handover.HandoverFailed({
          message: `process ${pid} didn't open the journal within ${Duration.format(longestOpening)}`,
        }),
    })
    const exit = yield* Effect.result(opening)
    if (exit._tag === "Failure") {
      yield* Scope.close(scope, Exit.void)
      turn = { instance: crypto.randomUUID(), ended: [turn.instance, next.instance] }
      const { message } = exit.failure
      status = { ...status, failure: message }
      yield* Effect.logError(`the restart failed, so this process opens the journal again: ${message}`)
      return false
    }
    yield* successor.taken
    yield* notify.say(`MAINPID=${pid}`)
    if (running !== undefined) forwardAll(doors, running.config)
    yield* Effect.logInfo(`process ${pid}, relay ${exit.success.version}, took over`)
    yield* Effect.sleep(lingering)
    return true
  })

  const stops = () => (notify.isHeard && running !== undefined && isLong(running.took) ? { stops: running.took } : {})

  const restarts: Restarts = {
    restart: { begin, status: Effect.sync(() => ({ ...status, ...stops() })) },
    doors,
    turn: () => turn,
    isHandedOver: () => isHandedOver,
    succeed,
    opened,
    asked: Queue.take(attempts),
    handOver,
  }
  return restarts
})
