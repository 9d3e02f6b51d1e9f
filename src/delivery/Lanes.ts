/**
 * The lanes: one for each sink, one for the quarantine, and one for each removed
 * sink until an operator moves or drops it. If the journal has several streams, each
 * stream that this relay owns has its own lanes.
 */
import { Clock, Context, Duration, Effect, Layer, Semaphore, Struct, SubscriptionRef } from "effect"
import { changesOf } from "../config/Config.ts"
import { quarantine } from "../event/Event.ts"
import * as Monotonic from "../event/Monotonic.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { rounds } from "../event/Rounds.ts"
import { instant } from "../formats/Texts.ts"
import { Archive } from "../journal/Archive.ts"
import { Journal, type JournalError, type Log, type Streams } from "../journal/Journal.ts"
import { Operator } from "../journal/JournalContext.ts"
import { laneTotals, type Mute, type Paused } from "../journal/LaneInfo.ts"
import { knownSinks, type LaneSpec } from "./LaneSpec.ts"
import { type LaneStatus, reportOf, type SinkReport, statusOf } from "./LaneStatus.ts"
import { type AlertState, type Request, remindsAt } from "./lane/Alerts.ts"
import type { Lane } from "./lane/Lane.ts"
import { Stall } from "./lane/LaneState.ts"
import type { LaneInUse } from "./OrphanedLanes.ts"
import * as OrphanedLanes from "./OrphanedLanes.ts"
import * as Quarantine from "./Quarantine.ts"
import type { RelayEvents } from "./RelayEvents.ts"
import type { SinkUnusable } from "./SinkChanges.ts"
import * as SinkChanges from "./SinkChanges.ts"
import * as StreamLanes from "./StreamLanes.ts"

const lookEvery = Duration.seconds(1)

/**
 * Finds sinks with pending events in a stream that this relay owns, but without a running lane there. The lane
 * could not be opened, or is not open yet.
 */
class UnservedLanes {
  readonly #stalls = new WeakMap<Log, Map<string, Stall>>()
  /** By sink, a message that says for how long the sink has delivered nothing from a stream without its lane. */
  messages: ReadonlyMap<string, string> = new Map()

  /** Returns the report of a sink as stalled if one of its lanes doesn't run. */
  readonly noted = <A extends SinkReport>(report: A): A => {
    const message = this.messages.get(report.name)
    return message === undefined ? report : { ...report, condition: "stalled", message }
  }

  /** Checks forever. `isServed` reports whether the sink's lane runs or the config has no such sink. */
  looking(owned: Streams, isServed: (log: Log, sink: string) => boolean): Effect.Effect<never> {
    const look = Effect.suspend(() => this.#look(SubscriptionRef.getUnsafe(owned), isServed))
    return rounds("looking for lanes that don't run", look, lookEvery)
  }

  readonly #look = Effect.fnUntraced(function* (
    this: UnservedLanes,
    owned: ReadonlyArray<Log>,
    isServed: (log: Log, sink: string) => boolean,
  ) {
    const clock = yield* Clock.Clock
    const now = Monotonic.millis(clock)
    const wall = clock.currentTimeMillisUnsafe()
    const found = new Map<string, string>()
    for (const log of owned) {
      const before = this.#stalls.get(log)
      const stalls = new Map<string, Stall>()
      for (const { name, backlog } of yield* log.holding) {
        const stall = before?.get(name) ?? new Stall()
        stalls.set(name, stall)
        const hasWork = backlog > 0 && !isServed(log, name)
        const cause = () => "its lane for a stream that this relay owns could not be opened; see the log"
        const message = stall.look({ now, wall, activity: 0, hasWork, cause })
        if (message !== "") found.set(name, message)
      }
      this.#stalls.set(log, stalls)
    }
    this.messages = found
  })
}

/** How late a pause may end. */
const endPausesEvery = Duration.seconds(1)

/** The fields of an alert's state that only its lane uses. */
const ofLane = ["recent", "group", "shown", "shownAt", "reference", "earlier", "muted"] as const

/** An alert of a sink. Times are epoch milliseconds. */
export interface AlertReport extends Omit<AlertState, (typeof ofLane)[number] | "sent"> {
  readonly sink: string
  /** Its newest messages, oldest first. */
  readonly sent: NonNullable<AlertState["sent"]>
  /** When its mute ends, if it is muted. */
  readonly mutedUntil?: EpochMillis
  /** The account of its newest failure. It is empty if that is erased or no longer kept. */
  readonly account: string
  /** When the next reminder is due, if one is. */
  readonly remindsAt?: EpochMillis
}

/** The order of alerts in a list. */
const statusOrder: ReadonlyArray<AlertState["status"]> = ["firing", "acknowledged", "muted", "pending", "resolved"]

/** The number of alerts whose account is looked up, because each takes a search. */
const maxAccounts = 200

/** Returns the stored alerts of the configured sinks, firing ones first, then by their newest failures. */
const reportAlerts = Effect.fnUntraced(function* (archive: Archive["Service"], specs: ReadonlyArray<LaneSpec>) {
  const policies = new Map(specs.map(({ config }) => [config.name, changesOf(config)]))
  const states = (yield* archive.alerts)
    .filter(({ lane }) => policies.get(lane) !== undefined)
    .map(({ lane, state }): { readonly sink: string; readonly state: AlertState } => ({
      sink: lane,
      state: JSON.parse(state),
    }))
    .sort(
      ({ state: a }, { state: b }) =>
        statusOrder.indexOf(a.status) - statusOrder.indexOf(b.status) || b.last - a.last || a.id - b.id,
    )
  return yield* Effect.forEach(states, ({ sink, state }, index) =>
    Effect.gen(function* () {
      const [found] = index < maxAccounts ? (yield* archive.events({ sequence: state.newest, limit: 1 })).events : []
      const policy = policies.get(sink)
      const reminder = policy && remindsAt(policy, state)
      return {
        ...{ sink, ...Struct.omit(state, ofLane), sent: state.sent ?? [] },
        ...(state.muted !== undefined && { mutedUntil: state.muted.until }),
        account: found === undefined || found.event.erased !== undefined ? "" : found.event.accountId,
        ...(reminder !== undefined && { remindsAt: reminder }),
      } satisfies AlertReport
    }),
  )
})

/** Asks something of an alert. Returns false if none of the lanes has it. */
const askOf = (lanes: ReadonlyArray<Lane>, ...request: Parameters<Lane["ask"]>): Effect.Effect<boolean, JournalError> =>
  Effect.map(
    Effect.forEach(lanes, (lane) => lane.ask(...request)),
    (answers) => answers.includes(true),
  )

/** The sinks and limits with which the lanes start. */
interface LanesOptions {
  /** One for each sink, without the quarantine. */
  readonly specs: ReadonlyArray<LaneSpec>
  /** Time limit for attempts in flight when the relay stops, or when a sink is removed or changed. */
  readonly grace: () => Duration.Duration
  /** Default: no limits. */
  readonly quarantine?: Quarantine.QuarantineLimits
}

/** The running lanes. Changes to them run one at a time. */
export class Lanes extends Context.Service<
  Lanes,
  {
    /** All lanes in the journal, with or without a sink. Only streams that this relay owns count. */
    readonly status: Effect.Effect<ReadonlyArray<LaneStatus>, JournalError>
    /** The sinks that may not be idle, each in its state in memory. Only streams that this relay owns count. */
    busy(): ReadonlyArray<SinkReport>
    /** Attempts by outcome for each sink since the start, including removed sinks, without the quarantine. */
    counted(): ReadonlyArray<LaneStatus["attempts"]>
    /** Pauses a lane in every stream, across restarts, and optionally until a time. Returns false if the lane doesn't exist. */
    pause(name: string, until?: EpochMillis): Effect.Effect<boolean, JournalError>
    /** Pauses a lane until a time, with a rule for the events received meanwhile. Returns false if the lane doesn't exist. */
    mute(name: string, until: EpochMillis, ending: Mute["ending"]): Effect.Effect<boolean, JournalError>
    /**
     * Resumes a paused or blocked lane and makes its retries due immediately. If that ends a mute early, its events are
     * delivered as usual. Returns false if the lane doesn't exist.
     */
    resume(name: string): Effect.Effect<boolean, JournalError>
    /** The alerts of all streams, as they are stored. */
    readonly alerts: Effect.Effect<ReadonlyArray<AlertReport>, JournalError>
    /** Asks something of an alert of a sink; `until` ends a mute. Returns false if this relay runs no lane with it. */
    ask(sink: string, alert: number, request: Request, until?: EpochMillis): Effect.Effect<boolean, JournalError>
    /** Moves the backlog and the dead letters of an orphaned lane to another. Returns the number of events. */
    move(from: string, to: string): Effect.Effect<number, JournalError | LaneInUse>
    /** Abandons the backlog of an orphaned lane and deletes the lane. Returns the number of events. */
    drop(name: string): Effect.Effect<number, JournalError | LaneInUse>
    /**
     * Stops these lanes after their attempts in flight end, runs the work, and starts them again. They then re-read
     * their events from the journal.
     */
    whileStopped<A>(names: ReadonlyArray<string>, work: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError>
    /**
     * Replaces the sinks. `swap` activates their routes. If this fails, `swap` did not run and nothing has changed.
     * Returns notes for the operator, in sentences.
     */
    change(
      specs: ReadonlyArray<LaneSpec>,
      swap: Effect.Effect<void>,
    ): Effect.Effect<ReadonlyArray<string>, JournalError | SinkUnusable>
  }
>()("relay/delivery/Lanes") {
  /** Opens the journal's lanes and starts them. When the layer is released, they end and their progress is stored. */
  static readonly layer = (options: LanesOptions): Layer.Layer<Lanes, JournalError, Journal | Archive | RelayEvents> =>
    Layer.effect(Lanes, make(options))
}

const make = Effect.fnUntraced(function* ({ specs, grace, quarantine: limits }: LanesOptions) {
  const journal = yield* Journal
  const archive = yield* Archive
  /** Changes run one at a time, because during a change a lane may be retired and not yet restarted. */
  const oneChange = yield* Semaphore.make(1)
  const streams = yield* StreamLanes.make(grace, oneChange)
  const orphans = OrphanedLanes.make(archive, streams)
  const unserved = new UnservedLanes()
  const quarantined = Quarantine.spec(limits)
  let current = [...specs, quarantined]

  journal.knowSinks?.(knownSinks(specs))
  const owned = journal.streams === undefined ? [journal] : SubscriptionRef.getUnsafe(journal.streams)
  for (const log of owned) yield* streams.follow(log, current)
  yield* orphans.warn
  if (limits?.maxAge !== undefined) yield* Effect.forkScoped(Quarantine.expiring(archive, limits.maxAge))
  if (journal.streams !== undefined) {
    const isServed = (log: Log, sink: string) =>
      streams.has(log, sink) || !current.some(({ config }) => config.name === sink)
    yield* Effect.forkScoped(streams.keepUp(journal.streams, () => current))
    yield* Effect.forkScoped(unserved.looking(journal.streams, isServed))
  }

  const setPaused = Effect.fn("Lanes.setPaused")(function* (name: string, paused: Paused, mute?: Mute) {
    const lanes = streams.of(name)
    if (lanes.length === 0) return false
    yield* archive.setPaused(name, paused, mute)
    if (paused === false) {
      for (const lane of lanes) lane.resume(mute)
      return true
    }
    const until = paused === true ? "" : ` until ${instant(paused)}`
    yield* Effect.annotateLogs(Effect.logInfo(`sink ${name} is paused by an operator${until}`), { sink: name })
    for (const lane of lanes) lane.state.pause(paused, mute)
    return true
  })

  const mute = Effect.fnUntraced(function* (name: string, until: EpochMillis, ending: Mute["ending"]) {
    const before = streams.of(name).find(({ state }) => state.isMuted)?.state.mute
    const from = before?.from ?? Math.floor(yield* Clock.currentTimeMillis)
    return yield* setPaused(name, until, { from, until, ending, by: yield* Operator })
  })

  /** A mute that has ended still applies to its events, because the lane may have been blocked. */
  const resume = (name: string) =>
    Effect.suspend(() => {
      const ended = streams.of(name).find(({ state: { paused } }) => paused === false)?.state.mute
      return setPaused(name, false, ended)
    })

  /** Resumes the lanes whose pause has ended by now. */
  const endPauses = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    for (const name of streams.busy()) {
      const over = streams.of(name).filter(({ state: { paused } }) => typeof paused === "number" && paused <= now)
      const until = over[0]?.state.paused
      if (typeof until !== "number") continue
      yield* archive.endPause(name, until)
      yield* Effect.annotateLogs(Effect.logInfo(`sink ${name} is resumed: its pause has ended`), { sink: name })
      for (const lane of over) lane.resume(lane.state.mute)
    }
  })

  yield* Effect.forkScoped(rounds("ending pauses", oneChange.withPermit(endPauses), endPausesEvery))

  return Lanes.of({
    status: Effect.gen(function* () {
      const infos = yield* Effect.forEach(
        streams.logs(),
        (log) => Effect.tap(log.lanes, (infos) => orphans.note(log, infos)),
        { concurrency: "unbounded" },
      )
      return laneTotals(infos).map(
        (info): LaneStatus => unserved.noted(statusOf(info, streams.of(info.name), orphans.oldestAt(info.name))),
      )
    }),
    busy: () =>
      [...streams.busy().union(unserved.messages)].map((name) => unserved.noted(reportOf(name, streams.of(name)))),
    // The quarantine's lane delivers nothing, so its attempts don't count.
    counted: () => [...streams.counted()].filter(([name]) => name !== quarantine).map(([, { outcomes }]) => outcomes),
    pause: (name, until) => oneChange.withPermit(setPaused(name, until ?? true)),
    mute: (name, until, ending) => oneChange.withPermit(mute(name, until, ending)),
    resume: (name) => oneChange.withPermit(resume(name)),
    alerts: Effect.suspend(() => reportAlerts(archive, current)),
    ask: (sink, ...request) => askOf(streams.of(sink), ...request),
    move: (from, to) => oneChange.withPermit(orphans.move(from, to)),
    drop: (name) => oneChange.withPermit(orphans.drop(name)),
    whileStopped: (names, work) =>
      oneChange.withPermit(
        Effect.suspend(() =>
          SinkChanges.whileStopped(
            streams.all(),
            current.filter(({ config }) => names.includes(config.name)),
            current,
            work,
          ),
        ),
      ),
    change: (specs, swap) => {
      const swapAll = Effect.andThen(
        swap,
        Effect.sync(() => {
          current = [...specs, quarantined]
        }),
      )
      return oneChange.withPermit(
        Effect.suspend(() => SinkChanges.change({ journal, archive }, streams.all(), specs, swapAll)),
      )
    },
  })
})
