/**
 * The lanes: one for each sink, the quarantine, and those that a removed sink
 * left behind, which stay until a person moves or drops them.
 */
import { Clock, Context, Duration, Effect, Latch, Layer, Schema, Scope } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { quarantine } from "../event/Event.ts"
import { type Entry, Journal, type JournalError } from "../journal/Journal.ts"
import * as WallClock from "../journal/WallClock.ts"
import { DeliveryRejected, type Sink, SinkError } from "../sinks/Sink.ts"
import { Tracing } from "../telemetry/Tracing.ts"
import { durationBuckets } from "./Flights.ts"
import type { LaneEvents } from "./Landing.ts"
import * as Lane from "./Lane.ts"
import * as LazySink from "./LazySink.ts"
import { ownWebhook, RelayEvents } from "./RelayEvents.ts"
import type { Condition } from "./Standing.ts"

/** `orphaned`: it has a cursor and no sink, which was removed or renamed in the config. */
export type LaneCondition = Condition | "orphaned"

/** A lane whose sink is in the config can't be moved or dropped: its events would be missed, not given up. */
export class LaneInUse extends Schema.TaggedError<LaneInUse>()("LaneInUse", { message: Schema.String }) {}

export interface LaneStatus {
  readonly name: string
  /** The sink's type; empty for an orphaned lane. */
  readonly type: string
  readonly condition: LaneCondition
  /** Why, and what to do; empty while it runs. */
  readonly message: string
  /** Events routed to it and not settled, parked ones included. */
  readonly backlog: number
  readonly parked: number
  readonly deadLetters: number
  readonly cursor: number
  /** Epoch milliseconds of the oldest event that is not settled; 0 when there is none. */
  readonly oldestAt: number
  /** The most events that a crash at any moment sends twice. */
  readonly duplicateBound: number
  /** Attempts by outcome since the start: `delivered`, or a reason's tag. */
  readonly attempts: Readonly<Record<string, number>>
  /** Attempts by duration: a count for each of `durationBuckets` and one above, and their sum in seconds. */
  readonly durations: { readonly counts: ReadonlyArray<number>; readonly sum: number }
}

/** A sink as the lanes need it: its config, how to open it, and its order key. */
export interface LaneSpec {
  readonly config: LaneConfig
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>
  readonly key: (entry: Entry) => string
}

export interface LanesOptions {
  readonly specs: ReadonlyArray<LaneSpec>
  /** How long attempts under way may take when the relay stops. */
  readonly grace: Duration.Duration
}

/** How often lanes' progress is made durable: it bounds what a crash repeats. */
const settleEvery = Duration.millis(100)
const keepHouseEvery = Duration.seconds(1)
/** One `relay.dead_letter` a lane in this time, with the count: a poisoned stream must not double itself. */
const announceEvery = 10_000

export class Lanes extends Context.Service<
  Lanes,
  {
    readonly status: Effect.Effect<ReadonlyArray<LaneStatus>, JournalError>
    /** False when there is no such lane. */
    pause(name: string): Effect.Effect<boolean, JournalError>
    resume(name: string): Effect.Effect<boolean, JournalError>
    /** Hands what is pending in an orphaned lane to another; the number of events. */
    move(from: string, to: string): Effect.Effect<number, JournalError | LaneInUse>
    /** Gives up what is pending and forgets an orphaned lane; the number of events. */
    drop(name: string): Effect.Effect<number, JournalError | LaneInUse>
  }
>()("relay/delivery/Lanes") {
  static readonly layer = (options: LanesOptions): Layer.Layer<Lanes, JournalError, Journal | RelayEvents> =>
    Layer.effect(Lanes, make(options))
}

/** The quarantine's sink: it rejects every event with what was wrong with it, so the dead letters are the quarantine. */
const rejecting: Sink = {
  // Nobody waits for it, and nearly every commit holds nothing for it.
  batch: { maxEvents: 256, maxBytes: 4 * 1024 * 1024, linger: 50 },
  send: (batch) =>
    Effect.succeed(
      new Map(
        batch.map(({ event }, index) => [
          index,
          new SinkError({ reason: new DeliveryRejected({ message: event.problem ?? "quarantined" }) }),
        ]),
      ),
    ),
  check: Effect.void,
}

const quarantineSpec = (delivery: LaneConfig["delivery"]): LaneSpec => ({
  config: { name: quarantine, type: "quarantine", delivery, concurrency: 1, order: "none", key: "", config: undefined },
  open: Effect.succeed(rejecting),
  key: () => "",
})

const quarantineDelivery: LaneConfig["delivery"] = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
  pauseAfter: 5,
  maxParked: 10_000,
  maxDeadLetters: 1024 * 1024 * 1024,
}

const make = Effect.fnUntraced(function* ({ specs, grace }: LanesOptions) {
  const journal = yield* Journal
  const own = yield* RelayEvents
  const clock = yield* Clock.Clock
  const tracing = yield* Tracing
  const wallClock = WallClock.make(clock)
  const lanes = new Map<string, Lane.Lane>()
  const run = Effect.runForkWith(yield* Effect.context<never>())

  const settle = Effect.suspend(() => {
    const changes = [...lanes.values()].flatMap((lane) => lane.ledger.takeChanges() ?? [])
    if (changes.length === 0) return Effect.void
    return Effect.match(journal.settle(changes), {
      onSuccess: () => {
        for (const change of changes) lanes.get(change.lane)?.stored()
      },
      // The journal says what is wrong; what it could not store goes with the next settlement.
      onFailure: () => {
        for (const change of changes) lanes.get(change.lane)?.ledger.restore(change)
      },
    })
  })
  const settleNow = Latch.makeUnsafe(false)

  const events = (name: string): LaneEvents => {
    let announcedAt = Number.NEGATIVE_INFINITY
    let unannounced = 0
    return {
      deadLettered: (entry, reason, message) => {
        if (name === quarantine || entry.event.webhook === ownWebhook) return
        unannounced += 1
        const now = clock.currentTimeMillisUnsafe()
        if (now - announcedAt < announceEvery) return
        const facts = {
          sink: name,
          count: unannounced,
          reason,
          message,
          event_id: entry.event.id,
          event_type: entry.event.type,
        }
        announcedAt = now
        unannounced = 0
        run(
          Effect.logWarning(`sink ${name}: dead letter (${reason}): ${message}`).pipe(
            Effect.annotateLogs({ event: entry.event.id, type: entry.event.type, count: facts.count }),
            Effect.andThen(own.emit("relay.dead_letter", facts, name)),
          ),
        )
      },
      paused: (message) => {
        run(
          Effect.logWarning(`sink ${name} is paused: ${message}`).pipe(
            Effect.andThen(own.emit("relay.lane_paused", { sink: name, message }, name)),
          ),
        )
      },
      resumed: () => {
        run(Effect.logInfo(`sink ${name} goes on`))
      },
      settle: () => {
        settleNow.openUnsafe()
      },
      defect: (cause) => {
        run(Effect.logError(`sink ${name}: a bug while sending; the event is parked and the lane goes on`, cause))
      },
    }
  }

  // Finalizers run in reverse: the pumps stop, attempts under way end, what they came to is stored, the sinks close.
  const sinks = yield* Scope.fork(yield* Scope.Scope)
  yield* Effect.addFinalizer(() => settle)
  yield* Effect.addFinalizer(() =>
    Effect.forEach(lanes.values(), (lane) => lane.drain(grace), { concurrency: "unbounded", discard: true }),
  )
  for (const spec of [...specs, quarantineSpec(quarantineDelivery)]) {
    const { config } = spec
    const state = yield* journal.openLane(config.name, config.renamedFrom)
    yield* journal.limitBacklog(config.name, config.backlog?.whenFull === "refuse" ? config.backlog.max : undefined)
    const open =
      tracing === undefined
        ? spec.open
        : Effect.map(spec.open, (sink) => tracing.traced(sink, config.name, config.type))
    const { sink, ensureOpen } = yield* Scope.provide(LazySink.make(open), sinks)
    const lane = yield* Lane.make({
      config,
      sink,
      state,
      key: spec.key,
      events: events(config.name),
      wallClockTrusted: wallClock.trusted,
      rejects: config.name === quarantine,
    })
    lanes.set(config.name, lane)
    yield* Effect.forkScoped(Effect.andThen(Effect.ignore(ensureOpen), lane.run))
  }
  yield* Effect.forkScoped(
    Effect.forever(
      settleNow.await.pipe(Effect.timeoutOption(settleEvery), Effect.andThen(settleNow.close), Effect.andThen(settle)),
    ),
  )

  const keepHouse = Effect.gen(function* () {
    for (const state of yield* journal.lanes) {
      const lane = lanes.get(state.name)
      if (lane === undefined) continue
      lane.ledger.deadLetters = state.deadLetters
      lane.ledger.deadLetterBytes = state.deadLetterBytes
      const limit = lane.config.backlog
      if (limit?.whenFull === "deadLetter") lane.giveUp(Math.max(0, state.backlog - limit.max))
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(keepHouse), keepHouseEvery)))

  for (const state of yield* journal.lanes) {
    if (lanes.has(state.name) || state.backlog === 0) continue
    yield* Effect.logWarning(
      `${state.backlog} events wait for the sink ${state.name}, which is not in the config: \`relay lanes move ${state.name} TO\` hands them to another, \`relay lanes drop ${state.name}\` gives them up, or adopt them with "renamedFrom"`,
    )
  }

  const setPaused = Effect.fn("Lanes.setPaused")(function* (name: string, paused: boolean) {
    const lane = lanes.get(name)
    if (lane === undefined) return false
    yield* journal.setPaused(name, paused)
    if (paused) lane.standing.pause()
    else lane.resume()
    return true
  })

  const inUse = (name: string) =>
    new LaneInUse({ message: `the sink ${name} is in the config: only a lane without a sink can be moved or dropped` })

  return Lanes.of({
    status: Effect.map(journal.lanes, (states) =>
      states.map((state): LaneStatus => {
        const { name, backlog, deadLetters } = state
        const lane = lanes.get(name)
        if (lane === undefined) {
          return {
            name,
            type: "",
            condition: "orphaned",
            message: `no sink in the config has this name: \`relay lanes move ${name} TO\` or \`relay lanes drop ${name}\``,
            backlog,
            parked: state.parked.length,
            deadLetters,
            cursor: state.cursor.sequence,
            oldestAt: 0,
            duplicateBound: 0,
            attempts: {},
            durations: { counts: durationBuckets.map(() => 0).concat(0), sum: 0 },
          }
        }
        return {
          name,
          type: lane.config.type,
          condition: lane.standing.condition,
          message: lane.standing.message,
          backlog,
          parked: lane.ledger.parking.size,
          deadLetters,
          cursor: lane.ledger.cursor,
          oldestAt: lane.oldestAt,
          duplicateBound: lane.duplicateBound,
          attempts: lane.flights.outcomes,
          durations: lane.flights.durations,
        }
      }),
    ),
    pause: (name) => setPaused(name, true),
    resume: (name) => setPaused(name, false),
    move: Effect.fn("Lanes.move")(function* (from, to) {
      if (lanes.has(from)) return yield* inUse(from)
      // What the lane has decided must be on disk, or it would be taken for its own after the move.
      yield* settle
      const moved = yield* journal.moveLane(from, to)
      const state = (yield* journal.lanes).find(({ name }) => name === to)
      if (state !== undefined) lanes.get(to)?.adopt(state)
      return moved
    }),
    drop: Effect.fn("Lanes.drop")(function* (name) {
      if (lanes.has(name)) return yield* inUse(name)
      return yield* journal.dropLane(name)
    }),
  })
})
