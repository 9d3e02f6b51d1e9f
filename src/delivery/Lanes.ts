/**
 * The lanes: one for each sink, the quarantine, and those that a removed sink
 * left behind, which stay until a person moves or drops them.
 *
 * **A change of sinks while it runs.** What is new is open in the journal
 * before anything is routed to it, and what is removed ends after nothing is
 * routed to it any more: so an event that is accepted at any moment has a lane
 * for each of its sinks.
 */
import { Context, Duration, Effect, Equal, Exit, Layer, Schedule, Schema, Scope, Semaphore } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { quarantine } from "../event/Event.ts"
import { Journal, type JournalError, type LaneInfo } from "../journal/Journal.ts"
import type { SinkError } from "../sinks/Sink.ts"
import * as Announcements from "./Announcements.ts"
import { durationBuckets } from "./lane/InFlight.ts"
import type { Lane } from "./lane/Lane.ts"
import type { Condition } from "./lane/LaneState.ts"
import * as Quarantine from "./Quarantine.ts"
import type { RelayEvents } from "./RelayEvents.ts"
import * as LaneSet from "./RunningLanes.ts"

export type { LaneSpec } from "./RunningLanes.ts"

/** `orphaned`: it has a cursor and no sink, which was removed or renamed in the config. */
export type LaneCondition = Condition | "orphaned"

/** A lane whose sink is in the config can't be moved or dropped: its events would be missed, not given up. */
export class LaneInUse extends Schema.TaggedError<LaneInUse>()("LaneInUse", { message: Schema.String }) {}

/** A new sink can't work until a person acts. */
export class SinkUnusable extends Schema.TaggedError<SinkUnusable>()("SinkUnusable", { message: Schema.String }) {}

export interface LaneStatus {
  readonly name: string
  /** The sink's type; empty for an orphaned lane. */
  readonly type: string
  readonly condition: LaneCondition
  /** Why, and what to do; empty while it runs. */
  readonly message: string
  /** Events routed to it and not settled, parked ones included. */
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
  readonly specs: ReadonlyArray<LaneSet.LaneSpec>
  /** How long attempts under way may take when the relay stops, or a sink is removed or changed. */
  readonly grace: Duration.Duration
}

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
    /**
     * Goes over to other specs. `swap` puts in force what routes to them; an
     * error means that it was not run and nothing has changed. Gives what a
     * person should know, in sentences.
     */
    change(
      specs: ReadonlyArray<LaneSet.LaneSpec>,
      swap: Effect.Effect<void>,
    ): Effect.Effect<ReadonlyArray<string>, JournalError | SinkUnusable>
  }
>()("relay/delivery/Lanes") {
  static readonly layer = (options: LanesOptions): Layer.Layer<Lanes, JournalError, Journal | RelayEvents> =>
    Layer.effect(Lanes, make(options))
}

/** How long a reload waits for a new sink to open: one that takes longer is away, and its lane waits. */
const openTimeout = Duration.seconds(5)
/** When the journal is asked again for a lane that it could not open. */
const again = Schedule.spaced("1 second")

const waiting = ({ name, backlog }: LaneInfo): string =>
  `${backlog === 1 ? "1 event waits" : `${backlog} events wait`} for the sink ${name}, which is not in the config: \`relay lanes move ${name} TO\` hands over what waits, \`relay lanes drop ${name}\` gives it up, or a sink adopts it with "renamedFrom"`

/** `renamedFrom` says where a lane comes from, not how it runs. */
const isSame = (a: LaneConfig, b: LaneConfig): boolean => {
  const { renamedFrom: _a, ...rest } = a
  const { renamedFrom: _b, ...others } = b
  return Equal.equals(rest, others)
}

/** What the journal alone knows of a lane, and what it is doing where it runs. */
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
      attempts: {},
      durations: { counts: durationBuckets.map(() => 0).concat(0), sum: 0 },
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
    attempts: lane.inFlight.outcomes,
    durations: lane.inFlight.durations,
  }
}

const make = Effect.fnUntraced(function* ({ specs, grace }: LanesOptions) {
  const journal = yield* Journal
  const lanes = yield* LaneSet.make(yield* Announcements.make, grace)
  /** What changes which lanes there are is done one after the other. */
  const oneChange = yield* Semaphore.make(1)

  // All are open before one runs: an event of our own for a sink that is not would begin its lane, and it adopts none then.
  const open = yield* Effect.forEach([...specs, Quarantine.spec], (spec) =>
    Effect.map(journal.openLane(spec.config.name, spec.config.renamedFrom), (state) => ({ spec, state })),
  )
  for (const { spec, state } of open) yield* lanes.start(spec, state, yield* lanes.hold(spec))
  for (const state of yield* journal.lanes) {
    if (lanes.get(state.name) === undefined && state.backlog > 0) yield* Effect.logWarning(waiting(state))
  }

  const setPaused = Effect.fn("Lanes.setPaused")(function* (name: string, paused: boolean) {
    const lane = lanes.get(name)
    if (lane === undefined) return false
    yield* journal.setPaused(name, paused)
    if (paused) {
      lane.state.pause()
      yield* Effect.logInfo(`sink ${name} is paused by a person`)
    } else lane.resume()
    return true
  })

  const inUse = (name: string) =>
    new LaneInUse({ message: `the sink ${name} is in the config: only a lane without a sink can be moved or dropped` })

  /** Hands over what a lane that does not run holds; the lane is forgotten once it holds nothing. */
  const hand = Effect.fnUntraced(function* (from: string, to: string) {
    const moved = yield* journal.moveLane(from, to)
    const left = (yield* journal.lanes).find(({ name }) => name === from)
    if (left !== undefined && left.backlog + left.deadLetters === 0) yield* journal.dropLane(from)
    return moved
  })

  /** The same for a renamed sink: a person who paused it paused it by whatever name. */
  const adopt = Effect.fnUntraced(function* (from: string, to: string) {
    const source = (yield* journal.lanes).find(({ name }) => name === from)
    if (source?.paused === true) yield* journal.setPaused(to, true)
    yield* hand(from, to)
  })

  /** Opens what a new or changed sink needs, or says what a person must mend first. */
  const prepare = Effect.fnUntraced(function* (spec: LaneSet.LaneSpec) {
    const isOpen = yield* lanes.isOpen(spec)
    const held = yield* lanes.hold(spec)
    if (isOpen) return { spec, held, trouble: undefined }
    const trouble = yield* Effect.match(Effect.timeoutOption(held.ensureOpen, openTimeout), {
      onSuccess: () => undefined,
      onFailure: (error: SinkError) => error,
    })
    return { spec, held, trouble }
  })

  const change = Effect.fn("Lanes.change")(function* (
    specs: ReadonlyArray<LaneSet.LaneSpec>,
    swap: Effect.Effect<void>,
  ) {
    const names = new Set([quarantine, ...specs.map(({ config }) => config.name)])
    const known = new Set((yield* journal.lanes).map(({ name }) => name))
    /** The lane that a sink takes over: what it left there before, or what was left of it when a take-over was cut short. */
    const former = ({ renamedFrom }: LaneConfig) =>
      renamedFrom !== undefined && known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined
    const touched = specs.filter(({ config }) => {
      const lane = lanes.get(config.name)
      return lane === undefined || !isSame(lane.config, config) || former(config) !== undefined
    })
    const prepared = yield* Effect.forEach(touched, prepare, { concurrency: "unbounded" })
    const undo = Effect.forEach(prepared, ({ held, spec }) =>
      Effect.andThen(
        Scope.close(held.scope, Exit.void),
        known.has(spec.config.name) ? Effect.void : Effect.ignore(journal.dropLane(spec.config.name)),
      ),
    )
    const unusable = prepared.flatMap(({ spec, trouble }) =>
      trouble?.reason._tag === "SinkMisconfigured" ? [`sink ${spec.config.name}: ${trouble.message}`] : [],
    )
    yield* Effect.gen(function* () {
      if (unusable.length > 0) return yield* new SinkUnusable({ message: unusable.join("\n") })
      for (const { config } of touched) if (!known.has(config.name)) yield* journal.openLane(config.name)
    }).pipe(Effect.onError(() => undo))
    yield* swap

    const notes = prepared.flatMap(({ spec, trouble }) =>
      trouble === undefined
        ? []
        : [`the sink ${spec.config.name} can't be reached, its lane waits: ${trouble.message}`],
    )
    const renamed = new Set<string>()
    const starting = prepared.map(({ spec, held }) => {
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
                `what waits for ${from} could not all be handed to ${name}: ${message} The next reload or start goes on with it.`,
              ),
            ),
          )
        }
        // It was open a moment ago: what fails here passes, or ends the relay.
        const state = yield* Effect.retry(journal.openLane(name), { schedule: again })
        yield* lanes.start(spec, state, held, before)
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
    return notes.concat(left.filter(({ name, backlog }) => !names.has(name) && backlog > 0).map(waiting))
  })

  return Lanes.of({
    status: Effect.map(journal.lanes, (states) => states.map((state) => statusOf(state, lanes.get(state.name)))),
    // In a change a lane may be between two lives of its own.
    pause: (name) => oneChange.withPermit(setPaused(name, true)),
    resume: (name) => oneChange.withPermit(setPaused(name, false)),
    move: (from, to) =>
      oneChange.withPermit(
        Effect.gen(function* () {
          if (lanes.get(from) !== undefined) return yield* inUse(from)
          // What the lane has decided must be on disk, or it would be taken for its own after the move.
          yield* lanes.settle
          const adopt = Effect.map(journal.openLane(to), (opened) => lanes.get(to)?.adopt(opened))
          // Also when the move fails on its way: what has come would lie parked with nobody to send it.
          return yield* Effect.ensuring(hand(from, to), Effect.ignore(adopt))
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
