/**
 * Changes the lanes when the sinks of the config change while the relay runs.
 *
 * **Guarantee.** Every event has a lane for each of its sinks. A new lane is open in
 * the journal before events are routed to it, and a lane is retired only after
 * routing to it has ended. An error before the routes are swapped undoes all
 * changes.
 */
import { Duration, Effect, Equal, Exit, Option, Schedule, Schema, Scope } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { quarantine } from "../event/Event.ts"
import { turnstile } from "../event/Rounds.ts"
import type { Archive } from "../journal/Archive.ts"
import { isNotFenced, isUnavailable, type Journal, type JournalError, type OpenOptions } from "../journal/Journal.ts"
import type { SinkError } from "../sinks/Sink.ts"
import { knownSinks, type LaneSpec, openOptions } from "./LaneSpec.ts"
import { unclaimed } from "./OrphanedLanes.ts"
import type { RunningLanes } from "./RunningLanes.ts"

/** A new sink can't work as it is configured. */
export class SinkUnusable extends Schema.TaggedError<SinkUnusable>()("SinkUnusable", { message: Schema.String }) {}

/** How long a reload waits for a new sink to open. A slower sink counts as unavailable, and its lane waits. */
const openTimeout = Duration.seconds(5)
/** How often opening a lane is retried. */
const openEvery = Schedule.spaced(Duration.seconds(1))
/** Retries of a rename before the lane starts without its backlog, which breaks the order of the events. */
const renameRetries = 3

/** Returns none if another relay has claimed the stream, because the stream's owner opens its lanes. */
const unlessFenced = <A>(open: Effect.Effect<A, JournalError>): Effect.Effect<Option.Option<A>, JournalError> =>
  Effect.catchIf(
    Effect.asSome(open),
    (error) => !isNotFenced(error),
    () => Effect.succeedNone,
  )

/** Ignores `renamedFrom`, which doesn't affect how a lane runs. */
const isSame = (a: LaneConfig, b: LaneConfig): boolean => {
  const { renamedFrom: _a, ...rest } = a
  const { renamedFrom: _b, ...others } = b
  return Equal.equals(rest, others)
}

/** The changes to the lanes of one stream. */
interface Plan {
  readonly lanes: RunningLanes
  /**
   * Waits for a turn of the event loop, because a change may touch hundreds of lanes and each takes about a
   * millisecond.
   */
  readonly ownTurn: Effect.Effect<void>
  /** The lanes that the journal has. */
  readonly known: ReadonlySet<string>
  /**
   * The former name of a renamed sink, if the journal still has a lane of that name to take over, or the rest of one
   * after an interrupted rename.
   */
  readonly former: (config: LaneConfig) => string | undefined
  /** The sinks that are new, changed or renamed. */
  readonly touched: ReadonlyArray<LaneSpec>
}

const planOf = Effect.fnUntraced(function* (
  lanes: RunningLanes,
  specs: ReadonlyArray<LaneSpec>,
  names: ReadonlySet<string>,
  ownTurn: Effect.Effect<void>,
): Effect.fn.Return<Plan, JournalError> {
  const known = new Set((yield* lanes.log.lanes).map(({ name }) => name))
  const former = ({ renamedFrom }: LaneConfig) =>
    renamedFrom !== undefined && known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined
  const touched = specs.filter(({ config }) => {
    const lane = lanes.get(config.name)
    return lane === undefined || !isSame(lane.config, config) || former(config) !== undefined
  })
  return { lanes, ownTurn, known, former, touched }
})

/** Opens a new or changed sink and keeps it open until the scope closes. `failure` is set if it can't be opened. */
const prepare = Effect.fnUntraced(function* ({ lanes, ownTurn }: Plan, spec: LaneSpec) {
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

/**
 * Opens the lanes that the journal does not have yet. A lane that will be renamed
 * already receives the events appended under its new name.
 */
const openNew = ({ lanes, ownTurn, known, former, touched }: Plan, specs: ReadonlyArray<LaneSpec>) =>
  Effect.forEach(
    touched.filter(({ config }) => !known.has(config.name) && former(config) === undefined),
    ({ config }) => Effect.andThen(ownTurn, unlessFenced(lanes.log.openLane(config.name, openOptions(config, specs)))),
    { discard: true },
  )

/**
 * Opens a lane with the backlog of its former name. If only the backlog can't be
 * taken over, it opens without it and `failure` says why.
 */
const openRenamed = ({ log }: RunningLanes, name: string, options: OpenOptions) => {
  const { renamedFrom: _, ...alone } = options
  return log.openLane(name, options).pipe(
    Effect.retry({ schedule: openEvery, times: renameRetries, while: isUnavailable }),
    Effect.map((state) => ({ state, failure: "" })),
    Effect.catchIf(isNotFenced, ({ message }) =>
      Effect.map(log.openLane(name, alone), (state) => ({ state, failure: message })),
    ),
  )
}

/**
 * Replaces the lane of a sink, under its new name if it was renamed. If `blocked`
 * isn't empty, the new lane is blocked for that reason.
 */
const replace = Effect.fnUntraced(function* (
  { lanes, ownTurn, former }: Plan,
  spec: LaneSpec,
  specs: ReadonlyArray<LaneSpec>,
  note: (text: string) => void,
  blocked = "",
) {
  const { name } = spec.config
  const renamedFrom = former(spec.config)
  const options = { ...openOptions(spec.config, specs), renamedFrom }
  yield* ownTurn
  yield* lanes.retire(name)
  if (renamedFrom !== undefined) yield* lanes.retire(renamedFrom)
  yield* ownTurn
  // The lane was open a moment ago, so a failure here is temporary or ends the relay.
  const opening = Effect.retry(openRenamed(lanes, name, options), { schedule: openEvery, while: isNotFenced })
  const opened = Option.getOrUndefined(yield* unlessFenced(opening))
  if (opened === undefined) return
  yield* lanes.start(spec, opened.state, yield* lanes.acquire(spec), blocked)
  if (opened.failure === "") return
  note(
    `the backlog of ${renamedFrom} could not all be moved to ${name}, which is tried again each second: ${opened.failure}`,
  )
  yield* lanes.adoptLater(name, options)
})

/** Stops the lanes of some specs, runs the work, and always starts the lanes again. Blocked lanes stay blocked. */
export const whileStopped = <A>(
  streams: ReadonlyArray<RunningLanes>,
  specs: ReadonlyArray<LaneSpec>,
  all: ReadonlyArray<LaneSpec>,
  work: Effect.Effect<A, JournalError>,
): Effect.Effect<A, JournalError> => {
  const stopped = streams.flatMap((lanes) => specs.map((spec) => ({ lanes, spec, lane: lanes.get(spec.config.name) })))
  const each = <E>(use: (one: (typeof stopped)[number]) => Effect.Effect<void, E>) =>
    Effect.forEach(stopped, use, { concurrency: "unbounded", discard: true })
  const unchanged = { ownTurn: Effect.void, known: new Set<string>(), former: () => undefined, touched: [] }
  const stop = each(({ lanes, spec }) => lanes.retire(spec.config.name))
  // Read only now, because the lane's last attempts may have blocked it while it ended.
  const start = each(({ lanes, spec, lane }) =>
    replace({ lanes, ...unchanged }, spec, all, () => {}, lane?.state.blocked),
  )
  return Effect.ensuring(Effect.andThen(stop, work), Effect.orDie(start))
}

/** Ends the lane of a sink that has left the config. */
const remove = ({ lanes, ownTurn }: Plan, name: string) =>
  lanes.log
    .limitBacklog(name, undefined)
    .pipe(Effect.andThen(lanes.catchUp(name)), Effect.andThen(ownTurn), Effect.andThen(lanes.retire(name)))

/** Implements `Lanes.change`. */
export const change = Effect.fn("Lanes.change")(function* (
  { journal, archive }: { readonly journal: Journal["Service"]; readonly archive: Archive["Service"] },
  streams: ReadonlyArray<RunningLanes>,
  specs: ReadonlyArray<LaneSpec>,
  swap: Effect.Effect<void>,
) {
  const names = new Set([quarantine, ...specs.map(({ config }) => config.name)])
  const ownTurn = turnstile()
  const plans = yield* Effect.forEach(streams, (lanes) => planOf(lanes, specs, names, ownTurn))
  const touched = specs.filter((spec) => plans.some((plan) => plan.touched.includes(spec)))
  const [first] = plans
  const prepared =
    first === undefined
      ? []
      : yield* Effect.forEach(touched, (spec) => prepare(first, spec), { concurrency: "unbounded" })
  const release = Effect.forEach(prepared, ({ scope }) => Scope.close(scope, Exit.void), { discard: true })
  const isNew = ({ config }: LaneSpec) => !plans.some(({ known }) => known.has(config.name))
  // In a fleet, another relay may have loaded the same config and accepted events for these lanes, so an empty lane is
  // kept.
  const opened = archive.fleet === undefined ? touched.filter(isNew) : []
  const undo = Effect.andThen(
    release,
    Effect.forEach(opened, ({ config }) => Effect.ignore(archive.dropLane(config.name))),
  )
  const unusable = prepared.flatMap(({ spec, failure }) =>
    failure?.reason._tag === "SinkMisconfigured" ? [`sink ${spec.config.name}: ${failure.message}`] : [],
  )
  yield* Effect.gen(function* () {
    if (unusable.length > 0) return yield* new SinkUnusable({ message: unusable.join("\n") })
    for (const plan of plans) yield* openNew(plan, specs)
  }).pipe(Effect.onError(() => undo))
  // The lane of a renamed sink may still have its old name and not be opened yet.
  journal.knowSinks?.(knownSinks(specs))
  yield* swap

  const notes = prepared.flatMap(({ spec, failure }) =>
    failure === undefined ? [] : [`the sink ${spec.config.name} can't be reached, its lane waits: ${failure.message}`],
  )
  const carryOut = Effect.fnUntraced(function* (plan: Plan) {
    yield* plan.lanes.adoptNothing
    const renamed = new Set(plan.touched.map(({ config }) => plan.former(config)))
    const removed = plan.lanes.names().filter((name) => !names.has(name) && !renamed.has(name))
    yield* Effect.all(
      [
        ...plan.touched.map((spec) => replace(plan, spec, specs, (text) => notes.push(text))),
        ...removed.map((name) => remove(plan, name)),
      ],
      { concurrency: "unbounded", discard: true },
    )
  })
  yield* Effect.ensuring(Effect.forEach(plans, carryOut, { concurrency: "unbounded", discard: true }), release)
  const left = yield* Effect.orElseSucceed(archive.lanes, () => [])
  const claimed = new Set([...names, ...specs.map(({ config }) => config.renamedFrom)])
  return notes.concat(left.filter(({ name, backlog }) => !claimed.has(name) && backlog > 0).map(unclaimed))
})
