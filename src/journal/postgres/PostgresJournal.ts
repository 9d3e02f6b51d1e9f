/**
 * The journal on PostgreSQL, for several relays. Each relay writes a stream of its own.
 *
 * **Guarantee.** It gives the guarantee of `Journal`, whichever relay ends, because another takes over its
 * stream. Acknowledged events are committed as with `synchronous_commit = on`.
 *
 * **Gotcha.** If commits don't wait for a standby, a failover loses the events that were acknowledged last. The
 * relays detect this, count the losses, and are red until an operator acknowledges them.
 */
import { Clock, Deferred, Effect, Layer, type Scope } from "effect"
import * as Monotonic from "../../event/Monotonic.ts"
import { rounds } from "../../event/Rounds.ts"
import type { Archive } from "../Archive.ts"
import * as DeadLetterChanges from "../archive/DeadLetterChanges.ts"
import { importEvents } from "../archive/Imports.ts"
import * as MovedLanes from "../archive/MovedLanes.ts"
import * as Reappending from "../archive/Reappending.ts"
import { prunesTo, Room } from "../archive/Room.ts"
import type { Journal } from "../Journal.ts"
import { JournalBroken, type JournalError, unavailable } from "../JournalError.ts"
import { servicesOf, type WholeJournal } from "../JournalType.ts"
import { inUse, laneTotals } from "../LaneInfo.ts"
import { SearchIds } from "../stream/SearchIds.ts"
import { usualSearchIds } from "../stream/SearchIdsConfig.ts"
import * as WallClock from "../WallClock.ts"
import { logOf } from "./append/LaneEmptying.ts"
import { noStream } from "./append/StreamWriter.ts"
import * as EventErasing from "./archive/EventErasing.ts"
import { scrub } from "./archive/EventErasing.ts"
import { EventFinder } from "./archive/EventFinder.ts"
import * as PostgresStatus from "./archive/PostgresStatus.ts"
import * as HourCounts from "./archive/PostgresStatus.ts"
import * as PostgresTables from "./archive/PostgresTables.ts"
import type { Database } from "./connection/Database.ts"
import { refusing } from "./connection/DatabaseError.ts"
import * as PooledDatabase from "./connection/PooledDatabase.ts"
import { nameOf, type PostgresConfig } from "./connection/PostgresConfig.ts"
import * as WriteTrouble from "./connection/WriteTrouble.ts"
import * as Admission from "./fleet/Admission.ts"
import * as FleetReport from "./fleet/FleetReport.ts"
import * as Member from "./fleet/Member.ts"
import { beatEvery } from "./fleet/Membership.ts"
import * as RedAlarm from "./fleet/RedAlarm.ts"
import * as Upkeep from "./fleet/Upkeep.ts"
import * as LaneMoves from "./lanes/LaneChange.ts"
import { load } from "./lanes/StreamLoading.ts"
import { StreamState } from "./lanes/StreamState.ts"
import * as AuditTable from "./tables/AuditTable.ts"
import { migrate } from "./tables/DatabaseSchema.ts"
import * as LaneTables from "./tables/LaneTables.ts"

export { latest as schema } from "./tables/DatabaseSchema.ts"

/** A stream of another relay, in its present state. */
const visit = ({ fleet }: Member.Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const visited = new StreamState(fleet.owner, id, epoch, true)
  return Effect.as(load(visited), visited)
}

/** A stream, owned by this relay or another. */
const streamOf = (member: Member.Member, id: number, epoch = 0): Effect.Effect<StreamState, JournalError> => {
  const own = member.fleet.streams.find((stream) => stream.id === id && !stream.isLost)
  return own === undefined ? visit(member, id, epoch) : Effect.succeed<StreamState>(own)
}

/** A lane in a stream. A move takes eleven round trips, and two for 256 events. A drop takes nine. */
const laneIn = (member: Member.Member, stream: StreamState, name: string): MovedLanes.LaneRows => {
  let now = stream
  let log: MovedLanes.MovingLog | undefined
  return {
    moveKept: Effect.fnUntraced(function* (sink) {
      const isConfigured = () => true
      // Another relay with a newer config may have renamed the sink.
      const renamed = now.names.laneOf(sink, Number.POSITIVE_INFINITY)
      const to = renamed === name ? sink : renamed
      // Two lanes exist then, so this is not a rename: events are appended again, and recorded as moved.
      yield* LaneMoves.open(stream, to, { isConfigured })
      const count = yield* LaneMoves.open(stream, to, { renamedFrom: name, isConfigured })
      now = stream.isVisited ? yield* visit(member, stream.id) : stream
      log = yield* logOf(now, member.writer, name)
      return { count, log }
    }),
    removeEmpty: (why) => Effect.as(LaneMoves.remove(now, name, why, log?.end), true),
    drop: (why) => LaneMoves.remove(stream, name, why),
  }
}

/** The lane of this name in the streams of all relays, for an operator who moves or drops it. */
const lanesNamed = Effect.fnUntraced(function* (
  db: Database,
  member: Member.Member,
  name: string,
): Effect.fn.Return<ReadonlyArray<MovedLanes.LaneRows>, JournalError> {
  const relays = member.fleet.relaysWith(name)
  if (relays.length > 0) return yield* unavailable(`The ${inUse(name, relays)}.`)
  const { rows } = yield* refusing(db.query<{ id: number; epoch: number }>("SELECT id, epoch FROM stream ORDER BY id"))
  const streams = yield* Effect.forEach(rows, ({ id, epoch }) => streamOf(member, id, epoch))
  return streams.filter(({ backlogs }) => backlogs.has(name)).map((stream) => laneIn(member, stream, name))
})

/** The limits of the journal, and this relay's name. */
export interface JournalOptions extends Upkeep.UpkeepOptions {
  /** This relay's name among the relays on the database. */
  readonly name: string
  /** JSON Pointers to the ids of objects. */
  readonly searchIds?: ReadonlyArray<string>
}

/** Opens the journal of a database with the newest schema, for the length of a scope. */
export const make = Effect.fnUntraced(function* (
  database: Database,
  options: JournalOptions,
): Effect.fn.Return<WholeJournal, JournalError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const clocks = { wall: () => clock.currentTimeMillisUnsafe(), steady: () => Monotonic.millis(clock) }
  const trouble = WriteTrouble.make(clocks)
  const db = trouble.watched(database)
  const alarm = RedAlarm.make(db, clocks, options.name)
  const brokenSignal = Deferred.makeUnsafe<never, JournalBroken>()
  const searchIds = new SearchIds(options.searchIds ?? usualSearchIds)
  const member = yield* Member.join({
    db,
    searchIds,
    alarm,
    trouble,
    name: options.name,
    onReplaced: (message) => {
      Deferred.doneUnsafe(brokenSignal, Effect.fail(new JournalBroken({ message })))
    },
  })
  const { fleet, writer } = member
  const { asking, askingAgain } = member.silence
  const report = FleetReport.make(fleet)
  const room = new Room(options.maxSize, prunesTo.fleet)
  const admission = Admission.make(member, trouble, room)
  writer.refusal = admission.refusal
  const wallClock = WallClock.make(clock)
  yield* Upkeep.run(db, member, report, options, room, wallClock)
  const count = Effect.suspend(() => Effect.forEach(fleet.streams, ({ counted }) => counted, { discard: true }))
  const keepAlarm = Effect.suspend(() => alarm.heard(fleet.news.alarm, fleet.now() - fleet.beatAge))
  yield* Effect.forkScoped(rounds("measuring the journal", admission.measure(report), beatEvery))
  yield* Effect.forkScoped(rounds("checking the database", trouble.check(db), beatEvery))
  yield* Effect.forkScoped(rounds("reading the alarm", keepAlarm, beatEvery))
  yield* Effect.forkScoped(rounds("counting dead letters", count, beatEvery))

  const recount = () => {
    for (const stream of fleet.streams) stream.recount()
  }
  const tables = PostgresTables.make(db, writer, () => admission.whyFull(report), recount)
  const audit = AuditTable.make(db, options.name, wallClock)
  const finder = new EventFinder(db, searchIds, () => fleet.now())
  /** The head of the stream that this relay writes, or wrote last. */
  let head = 0
  /** Returns the stream that this relay writes. Fails between two streams. */
  const own = Effect.suspend(() => (fleet.own === undefined ? Effect.fail(noStream) : Effect.succeed(fleet.own)))

  return {
    appendUnsafe: (event, sinks) => writer.appendUnsafe(event, sinks),
    refusalOf: (event) => writer.refusalOf(event),
    append: (event, sinks) => writer.append(event, sinks),
    read: (after, limit, reader) => Effect.flatMap(own, (stream) => stream.read(after, limit, reader)),
    pastLost: (after) => Effect.flatMap(own, (stream) => stream.pastLost(after)),
    settle: (settlements) => Effect.flatMap(own, (stream) => stream.settle(settlements)),
    head: Effect.sync(() => (head = fleet.own?.end ?? head)),
    awaitBeyond: (after, lane) => Effect.suspend(() => fleet.own?.awaitBeyond(after, lane) ?? Effect.succeed(after)),
    createLanes: (names) => Effect.flatMap(own, (stream) => stream.createLanes(names)),
    openLane: (name, openOptions) => Effect.flatMap(own, (stream) => stream.openLane(name, openOptions)),
    limitBacklog: (lane, ...limits) => Effect.suspend(() => fleet.own?.limitBacklog(lane, ...limits) ?? Effect.void),
    returned: (lane) => Effect.flatMap(own, (stream) => stream.returned(lane)),
    readRetries: (lane, sequences) => Effect.flatMap(own, (stream) => stream.readRetries(lane, sequences)),
    holding: Effect.flatMap(own, (stream) => stream.holding),
    mayStart: () => fleet.own?.mayStart() ?? false,
    streams: fleet.owned,
    knowSinks: (sinks) => writer.knowSinks(sinks),
    broken: Deferred.await(brokenSignal),

    status: PostgresStatus.make(member, report, admission, alarm, options.maxSize, room, wallClock),
    searchIds,
    acknowledge: askingAgain(refusing(alarm.clear)),
    hour: HourCounts.hourCounts(db, options.name),
    audit: {
      record: (operation) => asking(audit.record(operation)),
      list: (query) => askingAgain(audit.list(query)),
    },
    fleet: {
      status: Effect.sync(report.status),
      introduce: (self) =>
        Effect.sync(() => {
          fleet.introduction = self
        }),
    },
    lanes: Effect.gen(function* () {
      const own = yield* Effect.forEach(fleet.streams, (stream) => stream.lanes, { concurrency: "unbounded" })
      return laneTotals([...own, ...report.elsewhere()])
    }),
    alerts: askingAgain(refusing(LaneTables.allAlerts(db))),
    setPaused: (name, paused, mute) =>
      askingAgain(fleet.setPause(name, { paused, ...(mute !== undefined && { mute }) })),
    endPause: (name, until) => askingAgain(fleet.endPause(name, until)),
    moveLane: (from, to) => asking(MovedLanes.move(lanesNamed(db, member, from), from, to)),
    dropLane: (name) => asking(MovedLanes.drop(lanesNamed(db, member, name))),
    deadLetters: (query) => askingAgain(PostgresTables.deadLetters(db, query)),
    replayDeadLetters: (ids, reroute) => asking(DeadLetterChanges.replay(tables, ids, reroute)),
    dropDeadLetters: (ids) => asking(DeadLetterChanges.drop(tables, ids)),
    events: (query) => askingAgain(finder.page(query)),
    end: askingAgain(finder.end),
    replay: (targets) => asking(Reappending.replay(tables, targets)),
    erase: (sequences, giveUp) => asking(EventErasing.erase(member, sequences, giveUp)),
    scrub: asking(scrub(db)),
    import: (journal, events) => asking(importEvents(tables, journal, events)),
  }
})

/** Opens the database, migrates its schema to the newest version, and joins the fleet, for the length of a scope. */
export const layer = (config: PostgresConfig): Layer.Layer<Journal | Archive, JournalError> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const database = yield* PooledDatabase.ofConfig(config)
      yield* refusing(migrate(database, config.schema))
      const { retention, maxSize, duplicates, searchIds } = config
      const options = { name: nameOf(config), retention, maxSize, duplicates, searchIds }
      return servicesOf(yield* make(database, options))
    }),
  )
