/**
 * The journal on PostgreSQL: for several relays, each writing a stream of its own.
 *
 * **Guarantee.** That of `Journal`, whichever relay ends: another takes over what
 * it wrote. What is answered is committed as `synchronous_commit = on` has it.
 *
 * **Gotcha.** Where commits don't wait for a standby, a failover loses what was
 * answered last. The relays see it, say how much, and are red until a person has
 * looked.
 */
import { Clock, Deferred, Duration, Effect, Exit, Schedule, type Scope, Semaphore } from "effect"
import type { JournalStatus } from "../Archive.ts"
import type { EventQuery } from "../EventQuery.ts"
import type { Introduction } from "../FleetStatus.ts"
import type { AppendExit } from "../Journal.ts"
import { full, JournalBroken, type JournalError, unavailable } from "../JournalError.ts"
import { totals } from "../LaneTotals.ts"
import { backlogThatFills } from "../stream/WhatFills.ts"
import type { WholeJournal } from "../WholeJournal.ts"
import { empty } from "./append/LaneEmptying.ts"
import { noStream, StreamWriter } from "./append/StreamWriter.ts"
import { EventFinder } from "./archive/EventFinder.ts"
import { Operations } from "./archive/Operations.ts"
import { RedAlarm } from "./archive/RedAlarm.ts"
import type { Database } from "./connection/Database.ts"
import { refusing } from "./connection/DatabaseRefusal.ts"
import { WriteTrouble } from "./connection/WriteTrouble.ts"
import * as Fleet from "./fleet/Fleet.ts"
import { FleetReport } from "./fleet/FleetReport.ts"
import { beatEvery } from "./fleet/Membership.ts"
import { nobody } from "./fleet/SelfReport.ts"
import * as Housekeeping from "./lanes/Housekeeping.ts"
import * as LaneMoves from "./lanes/LaneMoves.ts"
import { load, loadPlaces } from "./lanes/StreamLoading.ts"
import { StreamState } from "./lanes/StreamState.ts"
import type { KnownRows } from "./tables/KnownRows.ts"
import { floorOf, sharedStream } from "./tables/Sequences.ts"

const reachedMaxSize = `The journal has reached its largest size ("journal.maxSize"). Raise it, or make the sinks take what waits.`

/** How often the shared stream is asked for what others appended, in milliseconds: with sinks that need it, and without. */
const pollEvery = 25
const pollIdly = 1_000
/** How often old rows are looked for, and duplicates forgotten. */
const pruneEvery = Duration.seconds(1)
const forgetEvery = Duration.seconds(60)
/** A sign of life that is older says that the database does not answer: said before appends are refused. */
const answersWithin = 2_500
/** How far back a failover is looked for among what was appended to the shared stream, while the database answers. */
const remembersShared = 60_000
/** How long the last commits may take when the relay stops. */
const drainWithin = Duration.seconds(3)

export interface JournalOptions {
  readonly name: string
  readonly retention: Duration.Duration
  /** Bytes, of all relays together. */
  readonly maxSize: number
  readonly duplicates: { readonly age: Duration.Duration; readonly count: number }
}

const marks = [95, 80, 50] as const

export const make = Effect.fnUntraced(function* (
  database: Database,
  options: JournalOptions,
): Effect.fn.Return<WholeJournal, JournalError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const wall = () => clock.currentTimeMillisUnsafe()
  const trouble = new WriteTrouble(wall)
  const db = trouble.watched(database)
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const brokenSignal = Deferred.makeUnsafe<never, JournalBroken>()
  let isClosed = false
  let introduction: () => Introduction = () => nobody
  const alarm = new RedAlarm(db, { wall, steady: () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6 })
  /** One at a time reads the shared stream into memory, or changes its lanes. */
  const oneOfShared = yield* Semaphore.make(1)

  /** Says what a failover lost; of a stream that this relay alone has written, all of it. */
  const nameLost = (known: KnownRows, stream?: StreamState) =>
    Effect.retry(known.takeMissing(db, stream && floorOf(stream.id)), {
      times: 10,
      schedule: Schedule.spaced("1 second"),
    }).pipe(
      Effect.flatMap(({ events, from, isAll }) =>
        events === 0
          ? Effect.void
          : alarm.raise(
              `The database lost ${isAll ? "at least " : ""}${events} events that were answered, from seq_${from} on, by a failover to a server that did not have them. Those that had not been delivered by then never will be, unless the sender sends them again.`,
            ),
      ),
      Effect.ignore,
    )

  const fleet: Fleet.Fleet = yield* Fleet.make({
    db,
    name: options.name,
    introduction: () => introduction(),
    owner: {
      opened: (sink, { renamedFrom, exclusive }) =>
        Effect.suspend(() => {
          if (exclusive !== undefined) writer.setExclusive(sink, exclusive)
          // A lane's pause goes along.
          const isPaused = renamedFrom !== undefined && renamedFrom !== sink && fleet.isPaused(renamedFrom)
          return isPaused ? setPaused(sink, true) : Effect.void
        }),
      empty: (stream, from) => empty(stream, writer, from),
      exclusively: (stream, work) =>
        stream === fleet.own
          ? writer.exclusively(work)
          : stream.id === sharedStream
            ? oneOfShared.withPermit(work)
            : work,
      damaged: (sequence) => {
        run(
          alarm.raise(
            `Event ${sequence} can't be read as it was written: it is not delivered; the sender may send it again.`,
          ),
        )
      },
    },
    // Each relay reports what is missing of its own appends to the shared stream.
    onLost: (stream) => {
      if (isClosed) return
      run(stream.id === sharedStream ? nameLost(writer.toShared) : nameLost(stream.known, stream))
    },
    onSharedTaken: () => {
      if (!isClosed) run(nameLost(writer.toShared))
    },
    onReplaced: (message) => {
      Deferred.doneUnsafe(brokenSignal, Effect.fail(new JournalBroken({ message })))
    },
  })
  const writer = new StreamWriter({
    db,
    own: () => fleet.own,
    isClosed: () => isClosed,
    waitingInShared: (sink) => fleet.waitingInShared(sink),
  })
  const recount = () => {
    for (const stream of fleet.streams) stream.recount()
  }
  const operations = new Operations(db, writer, recount)
  const finder = new EventFinder(db, () => fleet.now())

  // The start and the end.
  yield* Effect.acquireRelease(fleet.join, () =>
    Effect.gen(function* () {
      isClosed = true
      yield* Effect.timeoutOption(
        Effect.promise(() => writer.drain()),
        drainWithin,
      )
      yield* fleet.leave
    }),
  )
  yield* fleet.run

  // The appends of others to the shared stream, for the relay that delivers it.
  const poll = Effect.suspend(() => {
    const shared = fleet.streams.find(({ id }) => id === sharedStream)
    const look = shared === undefined ? Effect.void : Effect.ignore(oneOfShared.withPermit(shared.follow))
    return Effect.andThen(look, Effect.sleep(writer.hasExclusive && shared !== undefined ? pollEvery : pollIdly))
  })
  yield* Effect.forkScoped(Effect.forever(poll))

  // Room and age.
  const report = new FleetReport(fleet)
  const used = () => report.sum(({ bytes }) => bytes)
  const tidy = Effect.gen(function* () {
    const before = clock.currentTimeMillisUnsafe() - Duration.toMillis(options.retention)
    const tooMany = used() - options.maxSize * 0.9
    for (const stream of fleet.streams) {
      if (stream.isLost) continue
      // Another relay may be emptying one of its lanes.
      if (stream.names.isMoving) yield* fleet.owner.exclusively(stream, loadPlaces(stream, db))
      while (yield* Housekeeping.prune(stream, before, tooMany)) yield* Effect.sleep(20)
    }
    writer.toShared.forget(performance.now() - remembersShared)
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(pruneEvery), Effect.ignore(tidy))))
  const forget = Effect.suspend(() =>
    fleet.streams.some(({ id }) => id === sharedStream)
      ? Housekeeping.forget(db, { age: Duration.toMillis(options.duplicates.age), count: options.duplicates.count })
      : Effect.void,
  )
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(forgetEvery), Effect.ignore(forget))))

  // The refusals of appends.
  const closed: AppendExit = Exit.fail(unavailable("The journal is closed: the relay stops."))
  let silentSince = 0
  /** Why PostgreSQL is taken for unavailable; empty while it answers. */
  const silence = (): string => {
    const isSilent = fleet.beatAge > answersWithin
    if (!isSilent) silentSince = 0
    else if (silentSince === 0) silentSince = wall() - Math.round(fleet.beatAge)
    return isSilent
      ? `PostgreSQL has not answered since ${new Date(silentSince).toISOString()}: deliveries are refused until it does. What is said of it is of then.`
      : ""
  }
  const silent: AppendExit = Exit.fail(unavailable("PostgreSQL does not answer. Try again."))
  const waiting = () =>
    [...report.streams.values()].flatMap(({ lanes }) =>
      Object.entries(lanes).map(([name, { backlog }]): readonly [string, number] => [name, backlog]),
    )
  /** Why nothing more fits; empty while something does. Dead letters have a table of their own, and don't count. */
  let whyFull = ""
  let fullExit: AppendExit | undefined
  writer.refusal = () => {
    if (isClosed) return closed
    if (fullExit !== undefined) return fullExit
    if (!fleet.isAlive) return silent
    const { refusal } = trouble
    return refusal && Exit.fail(refusal)
  }
  const count = Effect.suspend(() => Effect.forEach(fleet.streams, ({ counted }) => counted, { discard: true }))
  const eachBeat = (task: Effect.Effect<void>) =>
    Effect.forkScoped(Effect.forever(Effect.andThen(task, Effect.sleep(beatEvery))))
  yield* eachBeat(
    Effect.sync(() => {
      whyFull = used() < options.maxSize ? "" : `${reachedMaxSize} ${backlogThatFills(waiting())}`
      fullExit = whyFull === "" ? undefined : Exit.fail(full("maxSize", whyFull))
    }),
  )
  yield* eachBeat(trouble.probe(db))
  yield* eachBeat(alarm.store)
  yield* eachBeat(count)

  /** Fails at once where PostgreSQL is known not to answer: no person waits for its timeouts. */
  const asking = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> =>
    Effect.suspend(() => (silence() === "" ? effect : Effect.fail(unavailable(silence()))))
  const fallsSilent = Effect.suspend(() => (silence() === "" ? Effect.sleep("250 millis") : asking(Effect.void)))
  /** A question that may be asked again also ends as soon as PostgreSQL is seen not to answer. */
  const askingAgain = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> =>
    asking(Effect.raceFirst(effect, Effect.forever(fallsSilent)))

  const setPaused = (name: string, paused: boolean): Effect.Effect<void, JournalError> =>
    askingAgain(
      Effect.map(
        refusing(
          db.query(
            "INSERT INTO sink (name, paused) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused",
            [name, paused],
          ),
        ),
        () => fleet.notePaused(name, paused),
      ),
    )

  /** A stream that this relay does not own, as it stands now. */
  const visit = Effect.fnUntraced(function* (id: number, epoch = 0) {
    const visited = new StreamState(fleet.owner, id, epoch, true)
    yield* load(visited)
    return visited
  })

  /** The streams of all relays. */
  const everywhere = Effect.gen(function* () {
    const { rows } = yield* refusing(
      db.query<{ id: number; epoch: number }>("SELECT id, epoch FROM stream ORDER BY id"),
    )
    return yield* Effect.forEach(rows, ({ id, epoch }) =>
      Effect.gen(function* () {
        const own = fleet.streams.find((stream) => stream.id === id && !stream.isLost)
        if (own !== undefined) return own
        return yield* visit(id, epoch)
      }),
    )
  })

  const lanes = Effect.gen(function* () {
    const own = yield* Effect.forEach(fleet.streams, (stream) => stream.lanes, { concurrency: "unbounded" })
    return totals([...own, ...report.elsewhere])
  })

  const dropIn = Effect.fnUntraced(function* (streams: ReadonlyArray<StreamState>, name: string) {
    let count = 0
    for (const stream of streams) if (stream.backlogs.has(name)) count += yield* LaneMoves.remove(stream, name)
    return count
  })

  const moveLane = Effect.fnUntraced(function* (from: string, to: string) {
    yield* LaneMoves.requireOrphaned(from, fleet.relaysWith(from))
    const streams = yield* everywhere
    const holding = streams.filter(({ backlogs }) => backlogs.has(from))
    if (holding.length === 0) {
      return yield* unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
    }
    if (from === to) return 0
    let count = 0
    const isConfigured = () => true
    for (const stream of holding) {
      // A lane of its own first: what is moved by an operator is appended again, and told as moved.
      yield* LaneMoves.open(stream, to, { isConfigured })
      count += yield* LaneMoves.open(stream, to, { renamedFrom: from, isConfigured })
      const now = stream.isVisited ? yield* visit(stream.id) : stream
      count += yield* empty(now, writer, from)
    }
    return count
  })

  const status = Effect.sync((): JournalStatus => {
    const raised = alarm.state(fleet.news.alarm, fleet.now() - fleet.beatAge)
    const troubles = fleet.streams.flatMap(({ trouble }) =>
      trouble === "" ? [] : [`What the lanes settle can't be stored, and soon nothing more is delivered: ${trouble}`],
    )
    const unanswered = silence()
    const refusal = trouble.refusal ?? (fleet.own === undefined ? noStream : undefined)
    const isUnavailable = unanswered !== "" || refusal?.reason._tag === "JournalUnavailable"
    const message = unanswered !== "" ? unanswered : (refusal?.message ?? whyFull)
    const usedBytes = used()
    const head = report.sum(({ accepted }) => accepted)
    return {
      health: isUnavailable
        ? "unavailable"
        : whyFull !== "" || refusal !== undefined
          ? "full"
          : raised.lines.length > 0
            ? "red"
            : "ok",
      message: [message, ...troubles, ...raised.lines].filter((line) => line !== "").join("\n"),
      alarm: raised,
      head,
      first: head + 1 - report.sum(({ kept }) => kept),
      usedBytes,
      maxBytes: options.maxSize,
      filling: marks.find((mark) => usedBytes * 100 >= options.maxSize * mark) ?? 0,
      counters: { ...writer.counters },
      engine: unanswered === "" ? {} : { answeredAt: silentSince },
    }
  })

  /** The stream that this relay writes; it waits for one between two. */
  const own = Effect.suspend(() => (fleet.own === undefined ? Effect.fail(noStream) : Effect.succeed(fleet.own)))

  return {
    appendUnsafe: (event, sinks) => writer.appendUnsafe(event, sinks),
    append: (event, sinks) => writer.append(event, sinks),
    read: (after, limit, reader) => Effect.flatMap(own, (stream) => stream.read(after, limit, reader)),
    settle: (settlements) => Effect.flatMap(own, (stream) => stream.settle(settlements)),
    head: Effect.sync(() => fleet.own?.end ?? 0),
    awaitBeyond: (after) => Effect.suspend(() => fleet.own?.awaitBeyond(after) ?? Effect.void),
    openLane: (name, openOptions) => Effect.flatMap(own, (stream) => stream.openLane(name, openOptions)),
    limitBacklog: (lane, ...limits) => Effect.suspend(() => fleet.own?.limitBacklog(lane, ...limits) ?? Effect.void),
    readRetries: (lane, sequences) => Effect.flatMap(own, (stream) => stream.readRetries(lane, sequences)),
    mayStart: () => fleet.own?.mayStart() ?? false,
    streams: fleet.owned,
    knowSinks: (sinks) => writer.knowSinks(sinks),
    fleet: {
      status: Effect.sync(() => report.status),
      introduce: (self) =>
        Effect.sync(() => {
          introduction = self
        }),
    },
    lanes,
    setPaused,
    moveLane: (from, to) => asking(moveLane(from, to)),
    dropLane: (name) =>
      asking(
        Effect.gen(function* () {
          yield* LaneMoves.requireOrphaned(name, fleet.relaysWith(name))
          return yield* dropIn(yield* everywhere, name)
        }),
      ),
    deadLetters: (query) => askingAgain(operations.deadLetters(query)),
    replayDeadLetters: (ids, reroute) => asking(operations.replayDeadLetters(ids, reroute)),
    dropDeadLetters: (ids) => asking(operations.dropDeadLetters(ids)),
    replay: (targets) => asking(operations.replay(targets)),
    import: (journal, events) => asking(operations.import(journal, events)),
    events: (query: EventQuery) => askingAgain(finder.page(query)),
    end: askingAgain(finder.end),
    status,
    broken: Deferred.await(brokenSignal),
    acknowledge: askingAgain(refusing(alarm.clear)),
  }
})
