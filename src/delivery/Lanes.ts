/**
 * The lanes: one for each sink, the quarantine, and those of removed sinks, which
 * stay until an operator moves or drops them. Where the journal has several
 * streams, each that this relay owns has its own.
 *
 * **Guarantee.** When the sinks change while the relay runs, every event has a
 * lane for each of its sinks: a new lane is open in the journal before anything
 * is routed to it, and one is retired only after nothing is.
 */
import {
  Context,
  Duration,
  Effect,
  Equal,
  Exit,
  Layer,
  Option,
  Schedule,
  Schema,
  Scope,
  Semaphore,
  Stream,
  SubscriptionRef,
} from "effect"
import type { LaneConfig } from "../config/Config.ts"
import * as Slices from "../config/load/Slices.ts"
import { quarantine } from "../event/Event.ts"
import { Archive } from "../journal/Archive.ts"
import { Journal, type JournalError, type LaneInfo, type Log, type Streams } from "../journal/Journal.ts"
import { totals } from "../journal/LaneTotals.ts"
import type { SinkError } from "../sinks/Sink.ts"
import { knownSinks, type LaneSpec, openOptions } from "./LaneSpec.ts"
import { type LaneStatus, statusOf } from "./LaneStatus.ts"
import { OrphanAges } from "./OrphanAges.ts"
import * as Quarantine from "./Quarantine.ts"
import type { RelayEvents } from "./RelayEvents.ts"
import type { RunningLanes } from "./RunningLanes.ts"
import * as StreamLanes from "./StreamLanes.ts"
import { UnservedLanes } from "./UnservedLanes.ts"

export type { LaneSpec } from "./LaneSpec.ts"
export type { LaneCondition, LaneStatus } from "./LaneStatus.ts"

/** A lane whose sink is in the config can't be moved or dropped: its sink would miss the events. */
export class LaneInUse extends Schema.TaggedError<LaneInUse>()("LaneInUse", { message: Schema.String }) {}

/** A new sink can't work as it is configured. */
export class SinkUnusable extends Schema.TaggedError<SinkUnusable>()("SinkUnusable", { message: Schema.String }) {}

export interface LanesOptions {
  readonly specs: ReadonlyArray<LaneSpec>
  /** How long attempts in flight may take when the relay stops, or a sink is removed or changed. */
  readonly grace: Duration.Duration
  readonly quarantine?: Quarantine.QuarantineLimits
}

export class Lanes extends Context.Service<
  Lanes,
  {
    /** Only the streams that this relay owns count. */
    readonly status: Effect.Effect<ReadonlyArray<LaneStatus>, JournalError>
    /** Since the start, the outcomes of attempts at each sink, also of one that has left the config. */
    counted(): ReadonlyArray<LaneStatus["attempts"]>
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
      specs: ReadonlyArray<LaneSpec>,
      swap: Effect.Effect<void>,
    ): Effect.Effect<ReadonlyArray<string>, JournalError | SinkUnusable>
  }
>()("relay/delivery/Lanes") {
  static readonly layer = (options: LanesOptions): Layer.Layer<Lanes, JournalError, Journal | Archive | RelayEvents> =>
    Layer.effect(Lanes, make(options))
}

/** How long a reload waits for a new sink to open. One that takes longer is away, and its lane waits. */
const openTimeout = Duration.seconds(5)
/** How often opening a lane is retried. */
const openEvery = Duration.seconds(1)

const unclaimed = ({ name, backlog }: LaneInfo): string =>
  `${backlog === 1 ? "1 event waits" : `${backlog} events wait`} for the sink ${name}, which is not in the config: \`relay lanes move ${name} TO\` moves the backlog to another sink, \`relay lanes drop ${name}\` gives it up, or a sink takes it over with "renamedFrom"`

const isNotFenced = ({ reason }: JournalError): boolean => reason._tag !== "JournalFenced"

/** Nothing where another relay has taken the stream: whoever owns it next opens its lanes. */
const unlessFenced = <A>(open: Effect.Effect<A, JournalError>): Effect.Effect<Option.Option<A>, JournalError> =>
  Effect.catchIf(
    Effect.asSome(open),
    (error) => !isNotFenced(error),
    () => Effect.succeedNone,
  )

/** `renamedFrom` says where a lane comes from, not how it runs. */
const isSame = (a: LaneConfig, b: LaneConfig): boolean => {
  const { renamedFrom: _a, ...rest } = a
  const { renamedFrom: _b, ...others } = b
  return Equal.equals(rest, others)
}

const make = Effect.fnUntraced(function* ({ specs, grace, quarantine: limits }: LanesOptions) {
  const journal = yield* Journal
  const archive = yield* Archive
  const streams = yield* StreamLanes.make(grace)
  /** Changes of the lanes are made one after the other. */
  const oneChange = yield* Semaphore.make(1)
  /** A change may touch hundreds of lanes, and each takes about a millisecond. */
  const ownTurn = Slices.turnstile()
  const quarantined = Quarantine.spec(limits)
  let current = [...specs, quarantined]
  if (limits?.maxAge !== undefined) yield* Effect.forkScoped(Quarantine.expiring(archive, limits.maxAge))

  journal.knowSinks?.(knownSinks(specs))
  const owned = journal.streams === undefined ? [journal] : SubscriptionRef.getUnsafe(journal.streams)
  for (const log of owned) yield* streams.follow(log, current)
  for (const info of yield* archive.lanes) {
    if (streams.of(info.name).length > 0 || info.backlog === 0) continue
    yield* Effect.annotateLogs(Effect.logWarning(unclaimed(info)), { sink: info.name })
  }

  /** Lanes for the streams that were taken, none for those that were lost; false when one could not be opened. */
  const follow = Effect.fnUntraced(function* (owned: ReadonlyArray<Log>) {
    const known = streams.logs()
    const lost = known.filter((log) => !owned.includes(log))
    yield* Effect.forEach(lost, streams.leave, { concurrency: "unbounded", discard: true })
    const taken = owned.filter((log) => !known.includes(log))
    const failures = yield* Effect.forEach(taken, (log) =>
      Effect.flip(streams.follow(log, current)).pipe(Effect.option),
    )
    return failures.every((failure) => failure._tag === "None")
  })

  const keepUp = (owned: Streams) =>
    Effect.gen(function* () {
      const logs = SubscriptionRef.getUnsafe(owned)
      const isDone = yield* oneChange.withPermit(follow(logs))
      const changed = Stream.runHead(Stream.filter(SubscriptionRef.changes(owned), (now) => now !== logs))
      yield* Effect.raceFirst(changed, isDone ? Effect.never : Effect.sleep(openEvery))
    })
  const unserved = new UnservedLanes()
  const orphans = new OrphanAges()
  if (journal.streams !== undefined) {
    const owned = journal.streams
    yield* Effect.forkScoped(Effect.forever(keepUp(owned)))
    const wanted = (sink: string) => current.some(({ config }) => config.name === sink)
    const look = Effect.suspend(() =>
      unserved.look(SubscriptionRef.getUnsafe(owned), (log, sink) => streams.has(log, sink) || !wanted(sink)),
    )
    yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(look), openEvery)))
  }

  const setPaused = Effect.fn("Lanes.setPaused")(function* (name: string, paused: boolean) {
    const lanes = streams.of(name)
    if (lanes.length === 0) return false
    yield* archive.setPaused(name, paused)
    if (paused) yield* Effect.annotateLogs(Effect.logInfo(`sink ${name} is paused by an operator`), { sink: name })
    for (const lane of lanes) {
      if (paused) lane.state.pause()
      else lane.resume()
    }
    return true
  })

  const inUse = (name: string) =>
    new LaneInUse({ message: `the sink ${name} is in the config: only a lane without a sink can be moved or dropped` })

  /** Moves the backlog of a lane that does not run; the lane is removed once it has nothing left. */
  const moveBacklog = Effect.fnUntraced(function* (from: string, to: string) {
    const moved = yield* archive.moveLane(from, to)
    const left = (yield* archive.lanes).find(({ name }) => name === from)
    if (left !== undefined && left.backlog + left.deadLetters === 0) yield* archive.dropLane(from)
    return moved
  })

  /** Opens a new or changed sink, and holds it open until the scope closes; `failure` is why it can't be opened. */
  const prepare = Effect.fnUntraced(function* (lanes: RunningLanes, spec: LaneSpec) {
    yield* ownTurn
    const isOpen = yield* lanes.isOpen(spec)
    const { scope, ensureOpen } = yield* lanes.acquire(spec)
    if (isOpen) return { spec, scope, failure: undefined }
    const failure = yield* Effect.match(Effect.timeoutOption(ensureOpen, openTimeout), {
      onSuccess: () => undefined,
      onFailure: (error: SinkError) => error,
    })
    return { spec, scope, failure }
  })

  const change = Effect.fn("Lanes.change")(function* (specs: ReadonlyArray<LaneSpec>, swap: Effect.Effect<void>) {
    const names = new Set([quarantine, ...specs.map(({ config }) => config.name)])
    /** The changes to a stream's lanes. */
    const plan = Effect.fnUntraced(function* (lanes: RunningLanes) {
      const known = new Set((yield* lanes.log.lanes).map(({ name }) => name))
      /** The lane that a renamed sink takes over, or what is left of it when that was interrupted. */
      const former = ({ renamedFrom }: LaneConfig) =>
        renamedFrom !== undefined && known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined
      const touched = specs.filter(({ config }) => {
        const lane = lanes.get(config.name)
        return lane === undefined || !isSame(lane.config, config) || former(config) !== undefined
      })
      return { lanes, known, former, touched }
    })
    const plans = yield* Effect.forEach(streams.all(), plan)
    const touched = specs.filter((spec) => plans.some((plan) => plan.touched.includes(spec)))
    const [first] = streams.all()
    const prepared =
      first === undefined
        ? []
        : yield* Effect.forEach(touched, (spec) => prepare(first, spec), { concurrency: "unbounded" })
    const isNew = ({ config }: LaneSpec) => !plans.some(({ known }) => known.has(config.name))
    const release = Effect.forEach(prepared, ({ scope }) => Scope.close(scope, Exit.void), { discard: true })
    const undo = Effect.andThen(
      release,
      Effect.forEach(touched.filter(isNew), ({ config }) => Effect.ignore(archive.dropLane(config.name))),
    )
    const unusable = prepared.flatMap(({ spec, failure }) =>
      failure?.reason._tag === "SinkMisconfigured" ? [`sink ${spec.config.name}: ${failure.message}`] : [],
    )
    yield* Effect.gen(function* () {
      if (unusable.length > 0) return yield* new SinkUnusable({ message: unusable.join("\n") })
      for (const { lanes, known, former, touched } of plans) {
        for (const { config } of touched) {
          // A lane that is to be renamed takes what is appended under its new name.
          if (known.has(config.name) || former(config) !== undefined) continue
          yield* ownTurn
          yield* unlessFenced(lanes.log.openLane(config.name, openOptions(config, specs)))
        }
      }
    }).pipe(Effect.onError(() => undo))
    // The lane of a new name may still have its former one, and not yet be opened.
    journal.knowSinks?.(knownSinks(specs))
    yield* swap
    current = [...specs, quarantined]

    const notes = prepared.flatMap(({ spec, failure }) =>
      failure === undefined
        ? []
        : [`the sink ${spec.config.name} can't be reached, its lane waits: ${failure.message}`],
    )
    const carryOut = ({ lanes, former, touched }: (typeof plans)[number]) => {
      const { log } = lanes
      const starting = touched.map((spec) => {
        const { config } = spec
        const { name } = config
        const renamedFrom = former(config)
        return Effect.gen(function* () {
          const options = openOptions(config, specs)
          yield* Effect.andThen(ownTurn, lanes.retire(name))
          if (renamedFrom !== undefined) {
            yield* lanes.retire(renamedFrom)
            yield* Effect.catch(log.openLane(name, { ...options, renamedFrom }), ({ message }) =>
              Effect.sync(() =>
                notes.push(
                  `the backlog of ${renamedFrom} could not all be moved to ${name}: ${message} The next reload or start continues.`,
                ),
              ),
            )
          }
          yield* ownTurn
          // It was open a moment ago: a failure here is temporary, or ends the relay.
          const schedule = Schedule.spaced(openEvery)
          const state = yield* unlessFenced(Effect.retry(log.openLane(name, options), { schedule, while: isNotFenced }))
          if (Option.isSome(state)) yield* lanes.start(spec, state.value, yield* lanes.acquire(spec))
        })
      })
      const renamed = new Set(touched.map(({ config }) => former(config)))
      const removed = lanes.names().filter((name) => !names.has(name) && !renamed.has(name))
      const ending = removed.map((name) =>
        log
          .limitBacklog(name, undefined)
          .pipe(Effect.andThen(lanes.catchUp(name)), Effect.andThen(ownTurn), Effect.andThen(lanes.retire(name))),
      )
      return Effect.all([...starting, ...ending], { concurrency: "unbounded", discard: true })
    }
    yield* Effect.ensuring(Effect.forEach(plans, carryOut, { concurrency: "unbounded", discard: true }), release)
    const left = yield* Effect.orElseSucceed(archive.lanes, () => [])
    return notes.concat(left.filter(({ name, backlog }) => !names.has(name) && backlog > 0).map(unclaimed))
  })

  return Lanes.of({
    status: Effect.gen(function* () {
      const isOrphan = ({ name }: LaneInfo) => streams.of(name).length === 0
      const agesOf = (log: Log, infos: ReadonlyArray<LaneInfo>) =>
        Effect.forEach(infos.filter(isOrphan), (info) => orphans.note(log, info), { discard: true })
      const infos = yield* Effect.forEach(
        streams.logs(),
        (log) => Effect.tap(log.lanes, (infos) => agesOf(log, infos)),
        { concurrency: "unbounded" },
      )
      return totals(infos).map((info): LaneStatus => {
        const status = statusOf(info, streams.of(info.name), orphans.oldestAt(streams.logs(), info.name))
        const message = unserved.messages.get(info.name)
        return message === undefined ? status : { ...status, condition: "stalled", message }
      })
    }),
    // The quarantine's lane only puts aside, so it attempts nothing.
    counted: () => [...streams.counted()].filter(([name]) => name !== quarantine).map(([, { outcomes }]) => outcomes),
    // During a change a lane may be retired and not yet started again.
    pause: (name) => oneChange.withPermit(setPaused(name, true)),
    resume: (name) => oneChange.withPermit(setPaused(name, false)),
    move: (from, to) =>
      oneChange.withPermit(
        Effect.gen(function* () {
          if (streams.of(from).length > 0) return yield* inUse(from)
          // The target's settlements must be on disk, or it would adopt it again after the move.
          for (const lanes of streams.all()) yield* lanes.settle
          const adopt = Effect.forEach(streams.all(), (lanes) =>
            Effect.map(lanes.log.openLane(to), (opened) => lanes.get(to)?.adopt(opened)),
          )
          // Also when the move fails half way: the retries that were moved would never be sent.
          return yield* Effect.ensuring(moveBacklog(from, to), Effect.ignore(adopt))
        }),
      ),
    drop: (name) =>
      oneChange.withPermit(
        Effect.suspend(
          (): Effect.Effect<number, JournalError | LaneInUse> =>
            streams.of(name).length === 0 ? archive.dropLane(name) : Effect.fail(inUse(name)),
        ),
      ),
    change: (specs, swap) => oneChange.withPermit(change(specs, swap)),
  })
})
