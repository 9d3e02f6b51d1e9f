/**
 * The lanes: one for each sink, the quarantine, and those of removed sinks, which
 * stay until an operator moves or drops them.
 *
 * **Guarantee.** When the sinks change while the relay runs, every event has a
 * lane for each of its sinks: a new lane is open in the journal before anything
 * is routed to it, and one is retired only after nothing is.
 */
import { Context, Duration, Effect, Equal, Exit, Layer, Schedule, Schema, Scope, Semaphore } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { quarantine } from "../event/Event.ts"
import { Journal, type JournalError, type LaneInfo } from "../journal/Journal.ts"
import type { SinkError } from "../sinks/Sink.ts"
import * as Announcements from "./Announcements.ts"
import { AttemptStats } from "./lane/AttemptStats.ts"
import type { Lane } from "./lane/Lane.ts"
import type { Condition } from "./lane/LaneState.ts"
import * as Quarantine from "./Quarantine.ts"
import type { RelayEvents } from "./RelayEvents.ts"
import * as RunningLanes from "./RunningLanes.ts"

export type { LaneSpec } from "./RunningLanes.ts"

/** `orphaned`: its sink was removed or renamed in the config. */
export type LaneCondition = Condition | "orphaned"

/** A lane whose sink is in the config can't be moved or dropped: its sink would miss the events. */
export class LaneInUse extends Schema.TaggedError<LaneInUse>()("LaneInUse", { message: Schema.String }) {}

/** A new sink can't work as it is configured. */
export class SinkUnusable extends Schema.TaggedError<SinkUnusable>()("SinkUnusable", { message: Schema.String }) {}

export interface LaneStatus {
  readonly name: string
  /** The sink's type; empty for an orphaned lane. */
  readonly type: string
  readonly condition: LaneCondition
  /** Why, and what to do; empty while it runs. */
  readonly message: string
  /** Events routed to it and not settled, those that wait for a retry included. */
  readonly backlog: number
  readonly retrying: number
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

export interface LanesOptions {
  readonly specs: ReadonlyArray<RunningLanes.LaneSpec>
  /** How long attempts in flight may take when the relay stops, or a sink is removed or changed. */
  readonly grace: Duration.Duration
}

export class Lanes extends Context.Service<
  Lanes,
  {
    readonly status: Effect.Effect<ReadonlyArray<LaneStatus>, JournalError>
    /** False when there is no such lane. */
    pause(name: string): Effect.Effect<boolean, JournalError>
    resume(name: string): Effect.Effect<boolean, JournalError>
    /** Moves the backlog of an orphaned lane to another; the number of events. */
    move(from: string, to: string): Effect.Effect<number, JournalError | LaneInUse>
    /** Gives up the backlog of an orphaned lane and removes the lane; the number of events. */
    drop(name: string): Effect.Effect<number, JournalError | LaneInUse>
    /**
     * Changes to other specs. `swap` puts their routes in force; an error means
     * that it was not run and nothing has changed. Gives what the operator
     * should know, in sentences.
     */
    change(
      specs: ReadonlyArray<RunningLanes.LaneSpec>,
      swap: Effect.Effect<void>,
    ): Effect.Effect<ReadonlyArray<string>, JournalError | SinkUnusable>
  }
>()("relay/delivery/Lanes") {
  static readonly layer = (options: LanesOptions): Layer.Layer<Lanes, JournalError, Journal | RelayEvents> =>
    Layer.effect(Lanes, make(options))
}

/** How long a reload waits for a new sink to open. One that takes longer is away, and its lane waits. */
const openTimeout = Duration.seconds(5)
/** How often opening a lane is retried. */
const openRetries = Schedule.spaced("1 second")

const unclaimed = ({ name, backlog }: LaneInfo): string =>
  `${backlog === 1 ? "1 event waits" : `${backlog} events wait`} for the sink ${name}, which is not in the config: \`relay lanes move ${name} TO\` moves the backlog to another sink, \`relay lanes drop ${name}\` gives it up, or a sink takes it over with "renamedFrom"`

/** `renamedFrom` says where a lane comes from, not how it runs. */
const isSame = (a: LaneConfig, b: LaneConfig): boolean => {
  const { renamedFrom: _a, ...rest } = a
  const { renamedFrom: _b, ...others } = b
  return Equal.equals(rest, others)
}

const noAttempts = new AttemptStats()

const statusOf = (state: LaneInfo, lane: Lane | undefined): LaneStatus => {
  const { name, backlog, deadLetters } = state
  if (lane === undefined) {
    return {
      name,
      type: "",
      condition: "orphaned",
      message: `no sink in the config has this name: \`relay lanes move ${name} TO\` or \`relay lanes drop ${name}\``,
      backlog,
      retrying: state.retrying,
      deadLetters,
      cursor: state.cursor.sequence,
      oldestAt: 0,
      duplicateBound: 0,
      attempts: noAttempts.outcomes,
      durations: noAttempts.durations,
    }
  }
  return {
    name,
    type: lane.config.type,
    condition: lane.state.condition,
    message: lane.state.message,
    backlog,
    retrying: lane.progress.retries.size,
    deadLetters,
    cursor: lane.progress.cursor,
    oldestAt: lane.oldestAt,
    duplicateBound: lane.duplicateBound,
    attempts: lane.attempts.outcomes,
    durations: lane.attempts.durations,
  }
}

const make = Effect.fnUntraced(function* ({ specs, grace }: LanesOptions) {
  const journal = yield* Journal
  const lanes = yield* RunningLanes.make(yield* Announcements.make, grace)
  /** Changes of the lanes are made one after the other. */
  const oneChange = yield* Semaphore.make(1)

  // All are open before one runs: an own event for a sink whose lane is not would create it, and it could adopt none.
  const open = yield* Effect.forEach([...specs, Quarantine.spec], (spec) =>
    Effect.map(journal.openLane(spec.config.name, spec.config.renamedFrom), (state) => ({ spec, state })),
  )
  for (const { spec, state } of open) yield* lanes.start(spec, state, yield* lanes.acquire(spec))
  for (const state of yield* journal.lanes) {
    if (lanes.get(state.name) === undefined && state.backlog > 0) yield* Effect.logWarning(unclaimed(state))
  }

  const setPaused = Effect.fn("Lanes.setPaused")(function* (name: string, paused: boolean) {
    const lane = lanes.get(name)
    if (lane === undefined) return false
    yield* journal.setPaused(name, paused)
    if (paused) {
      lane.state.pause()
      yield* Effect.logInfo(`sink ${name} is paused by an operator`)
    } else lane.resume()
    return true
  })

  const inUse = (name: string) =>
    new LaneInUse({ message: `the sink ${name} is in the config: only a lane without a sink can be moved or dropped` })

  /** Moves the backlog of a lane that does not run; the lane is removed once it has nothing left. */
  const moveBacklog = Effect.fnUntraced(function* (from: string, to: string) {
    const moved = yield* journal.moveLane(from, to)
    const left = (yield* journal.lanes).find(({ name }) => name === from)
    if (left !== undefined && left.backlog + left.deadLetters === 0) yield* journal.dropLane(from)
    return moved
  })

  /** The same for a renamed sink. If it was paused it stays so under its new name. */
  const adopt = Effect.fnUntraced(function* (from: string, to: string) {
    const source = (yield* journal.lanes).find(({ name }) => name === from)
    if (source?.paused === true) yield* journal.setPaused(to, true)
    yield* moveBacklog(from, to)
  })

  /** Opens a new or changed sink; `failure` is why it can't be. */
  const prepare = Effect.fnUntraced(function* (spec: RunningLanes.LaneSpec) {
    const isOpen = yield* lanes.isOpen(spec)
    const acquired = yield* lanes.acquire(spec)
    if (isOpen) return { spec, acquired, failure: undefined }
    const failure = yield* Effect.match(Effect.timeoutOption(acquired.ensureOpen, openTimeout), {
      onSuccess: () => undefined,
      onFailure: (error: SinkError) => error,
    })
    return { spec, acquired, failure }
  })

  const change = Effect.fn("Lanes.change")(function* (
    specs: ReadonlyArray<RunningLanes.LaneSpec>,
    swap: Effect.Effect<void>,
  ) {
    const names = new Set([quarantine, ...specs.map(({ config }) => config.name)])
    const known = new Set((yield* journal.lanes).map(({ name }) => name))
    /** The lane that a renamed sink takes over, or what is left of it when that was interrupted. */
    const former = ({ renamedFrom }: LaneConfig) =>
      renamedFrom !== undefined && known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined
    const touched = specs.filter(({ config }) => {
      const lane = lanes.get(config.name)
      return lane === undefined || !isSame(lane.config, config) || former(config) !== undefined
    })
    const prepared = yield* Effect.forEach(touched, prepare, { concurrency: "unbounded" })
    const undo = Effect.forEach(prepared, ({ acquired, spec }) =>
      Effect.andThen(
        Scope.close(acquired.scope, Exit.void),
        known.has(spec.config.name) ? Effect.void : Effect.ignore(journal.dropLane(spec.config.name)),
      ),
    )
    const unusable = prepared.flatMap(({ spec, failure }) =>
      failure?.reason._tag === "SinkMisconfigured" ? [`sink ${spec.config.name}: ${failure.message}`] : [],
    )
    yield* Effect.gen(function* () {
      if (unusable.length > 0) return yield* new SinkUnusable({ message: unusable.join("\n") })
      for (const { config } of touched) if (!known.has(config.name)) yield* journal.openLane(config.name)
    }).pipe(Effect.onError(() => undo))
    yield* swap

    const notes = prepared.flatMap(({ spec, failure }) =>
      failure === undefined
        ? []
        : [`the sink ${spec.config.name} can't be reached, its lane waits: ${failure.message}`],
    )
    const renamed = new Set<string>()
    const starting = prepared.map(({ spec, acquired }) => {
      const { name } = spec.config
      const from = former(spec.config)
      if (from !== undefined) renamed.add(from)
      return Effect.gen(function* () {
        const before = lanes.get(name)
        yield* lanes.retire(name)
        if (from !== undefined) {
          yield* lanes.retire(from)
          yield* Effect.catch(adopt(from, name), ({ message }) =>
            Effect.sync(() =>
              notes.push(
                `the backlog of ${from} could not all be moved to ${name}: ${message} The next reload or start continues.`,
              ),
            ),
          )
        }
        // It was open a moment ago: a failure here is temporary, or ends the relay.
        const state = yield* Effect.retry(journal.openLane(name), { schedule: openRetries })
        yield* lanes.start(spec, state, acquired, before)
      })
    })
    const removed = lanes.names().filter((name) => !names.has(name) && !renamed.has(name))
    const ending = removed.map((name) =>
      journal
        .limitBacklog(name, undefined)
        .pipe(Effect.andThen(lanes.catchUp(name)), Effect.andThen(lanes.retire(name))),
    )
    yield* Effect.all([...starting, ...ending], { concurrency: "unbounded", discard: true })
    const left = yield* Effect.orElseSucceed(journal.lanes, () => [])
    return notes.concat(left.filter(({ name, backlog }) => !names.has(name) && backlog > 0).map(unclaimed))
  })

  return Lanes.of({
    status: Effect.map(journal.lanes, (states) => states.map((state) => statusOf(state, lanes.get(state.name)))),
    // During a change a lane may be retired and not yet started again.
    pause: (name) => oneChange.withPermit(setPaused(name, true)),
    resume: (name) => oneChange.withPermit(setPaused(name, false)),
    move: (from, to) =>
      oneChange.withPermit(
        Effect.gen(function* () {
          if (lanes.get(from) !== undefined) return yield* inUse(from)
          // What the target has ended must be on disk, or it would adopt it again after the move.
          yield* lanes.settle
          const adopt = Effect.map(journal.openLane(to), (opened) => lanes.get(to)?.adopt(opened))
          // Also when the move fails half way: the retries that were moved would never be sent.
          return yield* Effect.ensuring(moveBacklog(from, to), Effect.ignore(adopt))
        }),
      ),
    drop: (name) =>
      oneChange.withPermit(
        Effect.suspend(
          (): Effect.Effect<number, JournalError | LaneInUse> =>
            lanes.get(name) === undefined ? journal.dropLane(name) : Effect.fail(inUse(name)),
        ),
      ),
    change: (specs, swap) => oneChange.withPermit(change(specs, swap)),
  })
})
