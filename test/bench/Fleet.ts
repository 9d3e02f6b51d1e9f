/**
 * Relays on one PostgreSQL, and the cost of an event when more of them share the
 * same load. Each size has a database of its own, and all of them take turns in
 * each round.
 */
import { Effect } from "effect"
import { makePostgres, missing, type Postgres } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import { cpuMicros, endedChildrenMicros } from "./Usage.ts"

/** Settings of a dedicated server with little memory. */
const settings = { shared_buffers: "256MB", max_wal_size: "4GB" }

/** A database for the length of a scope. */
export const database = Effect.acquireRelease(
  Effect.suspend(() => {
    const lacking = missing()
    return lacking === undefined
      ? Effect.promise(() => makePostgres({ settings }))
      : Effect.fail(new BenchError({ message: `PostgreSQL is missing: ${lacking}` }))
  }),
  (postgres) => Effect.promise(postgres.stop),
)

/** A relay that writes its events to a file, with its journal in the database. */
export const relay = (setup: Target.Setup, { url }: Postgres, name: string) =>
  Target.relayToFile(setup, name, undefined, { type: "postgres", url, name })

/** Returns the CPU time of a process in microseconds, or 0 if the process has ended. */
const microsIfRunning = (pid: number): number => {
  try {
    return cpuMicros(pid)
  } catch {
    return 0
  }
}

/** Returns the CPU time of the database in microseconds. A process that ends meanwhile is counted as an ended child. */
export const databaseMicros = ({ processes }: Postgres): number => {
  const [postmaster = 0, ...children] = processes()
  const running = children.reduce((sum, pid) => sum + microsIfRunning(pid), cpuMicros(postmaster))
  return running + endedChildrenMicros(postmaster)
}

/** A relay with its journal in a database of its own, whose CPU counts as well. */
const withDatabase = <E, R>(name: string, start: (journal: object) => Effect.Effect<Target.Target, E, R>) =>
  Effect.gen(function* () {
    const postgres = yield* database
    const target = yield* start({ type: "postgres", url: postgres.url, name })
    return { ...target, databaseMicros: () => databaseMicros(postgres) }
  })

export const relayToHttp = (setup: Target.Setup, name: string) =>
  withDatabase(name, (journal) => Target.relayToHttp(setup, name, undefined, journal))

export const relayToFile = (setup: Target.Setup, name: string, idle: ReadonlyArray<string>) =>
  withDatabase(name, (journal) => Target.relayToFile(setup, name, undefined, journal, idle))

/** The figures of one round. */
interface Round {
  /** CPU microseconds an event, until all were delivered. */
  readonly relays: number
  readonly database: number
  readonly both: number
  /** Milliseconds until the answer. */
  readonly p50: number
  readonly p99: number
  /** Events in a row of the log. */
  readonly group: number
  /** Transactions a second that wrote something. */
  readonly writes: number
  /** Bytes of the write-ahead log an event. */
  readonly wal: number
}

/** A fleet under a load, in several rounds. */
export interface Measured {
  readonly title: string
  readonly rounds: ReadonlyArray<Round>
  readonly refused: number
  readonly lost: number
}

export const spread = ({ rounds }: Measured, field: keyof Round) => Rounds.spread(rounds.map((round) => round[field]))

export const ratio = (of: Measured, base: Measured, field: keyof Round) =>
  Rounds.spread(of.rounds.map((round, index) => round[field] / (base.rounds[index]?.[field] ?? Number.NaN)))

/** Relays on a database. */
interface Fleet {
  readonly title: string
  readonly postgres: Postgres
  readonly relays: ReadonlyArray<Effect.Success<ReturnType<typeof relay>>>
}

/** Starts relays on a database of their own. */
export const fleet = Effect.fnUntraced(function* (setup: Target.Setup, size: number, name = "") {
  const title = `${size === 1 ? "one relay" : `${size} relays`}${name}`
  const postgres = yield* database
  const relays: Array<Fleet["relays"][number]> = []
  for (let index = 1; index <= size; index++) relays.push(yield* relay(setup, postgres, `${title}, ${index}`))
  const made: Fleet = { title, postgres, relays }
  return made
})

/** The figures of a fleet up to now. */
const usedBy = Effect.fnUntraced(function* ({ postgres, relays }: Fleet) {
  const delivered = (yield* Effect.all(relays.map(({ delivered }) => delivered))).reduce((sum, count) => sum + count, 0)
  const micros = relays.reduce((sum, { pid }) => sum + cpuMicros(pid), 0)
  const [row] = yield* Effect.promise(() =>
    postgres.sql(`SELECT count(*) AS groups, pg_current_wal_insert_lsn() - '0/0' AS wal,
      pg_snapshot_xmax(pg_current_snapshot())::text AS writes FROM relay.log`),
  )
  const { groups, wal, writes } = row ?? {}
  return {
    delivered,
    relays: micros,
    database: databaseMicros(postgres),
    groups: Number(groups),
    wal: Number(wal),
    writes: Number(writes),
  }
})

/** Puts a load on a fleet, and waits until all is delivered. */
const measureOnce = Effect.fnUntraced(function* (fleet: Fleet, pace: Paced.Pace) {
  const { relays } = fleet
  const [first, ...others] = relays
  if (first === undefined) return yield* new BenchError({ message: "a fleet needs a relay" })
  const ports = others.map(({ port }) => port)
  const before = yield* usedBy(fleet)
  const began = performance.now()
  const { requests, refused, p50, p99 } = yield* Paced.paced(first.port, pace, ports)
  const expected = before.delivered + requests - refused
  const counts = Effect.all(relays.map(({ delivered }) => delivered))
  const delivered = Effect.map(counts, (all) => all.reduce((sum, count) => sum + count, 0))
  yield* Target.awaitDelivered({ ...first, delivered }, expected)
  const after = yield* usedBy(fleet)
  const used = (figure: keyof typeof after) => after[figure] - before[figure]
  const round: Round = {
    relays: used("relays") / requests,
    database: used("database") / requests,
    both: (used("relays") + used("database")) / requests,
    ...{ p50, p99 },
    group: requests / used("groups"),
    writes: (used("writes") * 1000) / (performance.now() - began),
    wal: used("wal") / requests,
  }
  return { round, refused, lost: Math.max(0, expected - after.delivered) }
})

/** Rounds that aren't counted, because the engine still compiles in the first seconds. */
const warmups = 3

/** Measures fleets at the same total load, and prints a table. The others are compared with the first. */
export const measure = Effect.fnUntraced(function* <const Fleets extends ReadonlyArray<Fleet>>(
  fleets: Fleets,
  rounds: number,
  pace: Paced.Pace,
) {
  const all = fleets.map((fleet) => ({ ...fleet, rounds: [] as Array<Round>, refused: 0, lost: 0 }))
  for (let round = 1 - warmups; round <= rounds; round++) {
    for (const fleet of round % 2 === 0 ? all : all.toReversed()) {
      const { round: figures, refused, lost } = yield* measureOnce(fleet, pace)
      fleet.refused += refused
      fleet.lost += lost
      if (round > 0) fleet.rounds.push(figures)
    }
    process.stderr.write(round < 1 ? "warm " : `${round} `)
  }
  process.stderr.write("\n")
  process.stdout.write(table(all, pace.rate))
  return all as unknown as { readonly [Index in keyof Fleets]: Measured }
})

const columns: ReadonlyArray<readonly [head: string, field: keyof Round, digits: number]> = [
  ["relays µs", "relays", 1],
  ["PostgreSQL µs", "database", 1],
  ["both µs", "both", 1],
  ["p50 ms", "p50", 2],
  ["p99 ms", "p99", 1],
  ["events a commit", "group", 1],
  ["writes/s", "writes", 0],
  ["WAL bytes", "wal", 0],
]

const table = (fleets: ReadonlyArray<Measured>, rate: number): string =>
  Report.titled(`Fleets at ${rate} events/s in all; CPU and WAL an event; medians with their range`, [
    ["", ...columns.map(([head]) => head), "both ÷ the first"],
    ...fleets.map((fleet, index) => [
      fleet.title,
      ...columns.map(([, field, digits]) => Report.brief(spread(fleet, field), digits)),
      index === 0 ? "" : Report.brief(ratio(fleet, fleets[0] ?? fleet, "both"), 2),
    ]),
  ])
