/**
 * Measures what grows, on SQLite and on PostgreSQL: replays of more and more events to a file, reports of single
 * events, searches by an object, and backlogs that drain, each from a journal of its own; and reloads of more and more sinks.
 */
import { Effect, Schedule, type Scope } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Fleet from "./Fleet.ts"
import * as Report from "./Report.ts"
import * as Requests from "./Requests.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import { cpuMicros } from "./Usage.ts"

/** The events, and the time and CPU that something took for all of them. */
interface Growth {
  readonly events: number
  /** Events a second. */
  readonly rate: number
  /** CPU microseconds an event, with the database's. */
  readonly cpu: number
  readonly lost: number
}

interface Replayed extends Growth {
  /** Milliseconds for the report of one event, before the replay. */
  readonly report: Rounds.Spread
  /** Milliseconds for the search of the events of one object, before the replay. */
  readonly object: Rounds.Spread
}

/** A relay that sends to a file, with a journal of its own that was filled. */
interface Filled {
  readonly relay: Target.Relay
  readonly idOf: (number: number) => string
  /** Returns the CPU time in microseconds since the start, including the database's. */
  readonly micros: () => number
}

type Filling = (name: string, content: Fill.Content) => Effect.Effect<Filled, BenchError, Scope.Scope>

const onSqlite =
  (setup: Target.Setup): Filling =>
  (name, content) =>
    Effect.gen(function* () {
      const path = Target.journalPath(Target.relayDirectory(setup, name))
      const idOf = yield* Fill.run(path, content)
      const relay = yield* Target.relayToFile(setup, name, undefined, { type: "sqlite", path, maxSize: "1 TiB" })
      return { relay, idOf, micros: () => cpuMicros(relay.pid) }
    })

const onPostgres =
  (setup: Target.Setup): Filling =>
  (name, content) =>
    Effect.gen(function* () {
      const database = yield* Fleet.database
      // The name is different, so that the sink's file gets its own directory.
      const own = `${name} on PostgreSQL`
      const idOf = yield* Fill.runInDatabase(database.url, own, content)
      const relay = yield* Fleet.relay(setup, database, own)
      return { relay, idOf, micros: () => cpuMicros(relay.pid) + Fleet.databaseMicros(database) }
    })

const call = <A>(at: string, init?: RequestInit) =>
  Effect.tryPromise({
    try: async () => {
      const text = await (await fetch(at, init)).text()
      return (text === "" ? undefined : JSON.parse(text)) as A
    },
    catch: (error) => new BenchError({ message: `${at}: ${error}` }),
  })

interface Replay {
  readonly id: string
  readonly state: string
  readonly message: string
  readonly count: number
}

/** The milliseconds of each of {@link looks} calls. */
const timed = Effect.fnUntraced(function* (ask: (look: number) => Effect.Effect<unknown, BenchError>) {
  const took: Array<number> = []
  for (let look = 0; look < looks; look++) {
    const from = performance.now()
    yield* ask(look)
    took.push(performance.now() - from)
  }
  return Rounds.spread(took)
})
const looks = 20

const api = ({ adminPort }: Target.Relay) => `http://127.0.0.1:${adminPort}/api/v1`

const replay = Effect.fnUntraced(function* (
  filled: Filling,
  events: number,
): Effect.fn.Return<Replayed, BenchError, Scope.Scope> {
  const name = `replay of ${events}`
  const { relay, idOf, micros } = yield* filled(name, { events, lane: "file", isDelivered: true })
  const at = `${api(relay)}/replays`
  const lookFor = (look: number) => idOf(Math.floor((look * events) / looks))
  const report = yield* timed((look) => call(`${api(relay)}/events/${lookFor(look)}`))
  const object = yield* timed((look) => call(`${api(relay)}/events?object=${Requests.objectOf(lookFor(look))}`))
  const before = micros()
  const from = performance.now()
  const { id } = yield* call<Replay>(at, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ events: {}, to: "routed" }),
  })
  const { state, message, count } = yield* call<Replay>(`${at}/${id}`).pipe(
    Effect.repeat({
      until: ({ state }) => state !== "running" && state !== "waiting",
      schedule: Schedule.spaced("50 millis"),
    }),
  )
  if (state !== "finished") return yield* new BenchError({ message: `${name}: ${state}, ${message}` })
  const seconds = (performance.now() - from) / 1000
  const delivered = yield* Target.awaitDelivered(relay, events)
  return { events, rate: count / seconds, cpu: (micros() - before) / count, report, object, lost: events - delivered }
}, Effect.scoped)

/** Measures from the moment an operator resumes the lane until its last event is in the file. */
const drain = Effect.fnUntraced(function* (
  filled: Filling,
  events: number,
): Effect.fn.Return<Growth, BenchError, Scope.Scope> {
  const { relay, micros } = yield* filled(`backlog of ${events}`, {
    ...{ events, lane: "file", isDelivered: false },
    isPaused: true,
  })
  const before = micros()
  const from = performance.now()
  yield* call(`${api(relay)}/lanes/file/resume`, { method: "POST" })
  const delivered = yield* Target.awaitDelivered(relay, events)
  const seconds = (performance.now() - from) / 1000
  return { events, rate: delivered / seconds, cpu: (micros() - before) / delivered, lost: events - delivered }
}, Effect.scoped)

/** Milliseconds of reloads that change nothing, with this many sinks. */
const reload = Effect.fnUntraced(function* (setup: Target.Setup, sinks: number) {
  const idle = Array.from({ length: sinks - 1 }, (_, index) => `idle${index + 1}`)
  const relay = yield* Target.relayToFile(setup, `reload of ${sinks}`, undefined, undefined, idle)
  return yield* timed(() => call(`http://127.0.0.1:${relay.adminPort}/api/v1/reload`, { method: "POST" }))
}, Effect.scoped)

/** The numbers of sinks of the reloads. */
const sinkCounts = [10, 100, 1_000]

const cells = ({ events, rate, cpu }: Growth) => [events.toLocaleString("en"), rate.toFixed(0), cpu.toFixed(0)]

const noneLost = (what: string, { events, lost }: Growth): Report.Verdict => ({
  requirement: `${what} of ${events.toLocaleString("en")}: none lost`,
  measured: `${lost} lost`,
  ok: lost === 0,
})

/** Measures replays and backlogs of more and more events in one type of journal. */
const grown = Effect.fnUntraced(function* (journal: string, filled: Filling, sizes: ReadonlyArray<number>) {
  const replays: Array<Replayed> = []
  const drains: Array<Growth> = []
  for (const size of sizes) {
    replays.push(yield* replay(filled, size))
    drains.push(yield* drain(filled, size))
    process.stderr.write(`${size} `)
  }
  process.stderr.write("\n")
  process.stdout.write(
    Report.titled(`Replays to the sinks that events were routed to, on ${journal}`, [
      ["events", "events/s", "CPU µs an event", "report of an event, ms", "events of an object, ms"],
      ...replays.map((replay) => [...cells(replay), Report.show(replay.report, 1), Report.show(replay.object, 1)]),
    ]),
  )
  process.stdout.write(
    Report.titled(`Backlogs that drain to a file, on ${journal}`, [
      ["events", "events/s", "CPU µs an event"],
      ...drains.map(cells),
    ]),
  )
  return { replays, drains }
})

/** The largest size is so large that a cost that grows with the number of events can't be missed. */
export const growth = Effect.fnUntraced(function* (setup: Target.Setup, sizes: ReadonlyArray<number>) {
  const sqlite = yield* grown("SQLite", onSqlite(setup), sizes)
  const postgres = yield* grown("PostgreSQL", onPostgres(setup), sizes)
  const reloads = yield* Effect.forEach(sinkCounts, (sinks) =>
    Effect.map(reload(setup, sinks), (took) => [sinks.toLocaleString("en"), Report.show(took, 0)]),
  )
  process.stdout.write(Report.titled("Reloads that change nothing", [["sinks", "ms"], ...reloads]))
  return [
    ...sqlite.replays.map(
      ({ events, rate }): Report.Verdict => ({
        requirement: `a replay of ${events.toLocaleString("en")}: events/s ≥ 5,000`,
        measured: rate.toFixed(0),
        ok: rate >= 5_000,
      }),
    ),
    ...[sqlite, postgres].flatMap(({ replays, drains }) => [
      ...replays.map((one) => noneLost("a replay", one)),
      ...drains.map((one) => noneLost("a backlog", one)),
    ]),
  ]
})
