/**
 * Relays on one PostgreSQL, at the same rate each: what an event costs a relay
 * and the database must not depend on how many relays there are. Each size has a
 * database of its own, and all of them take turns in each round.
 */
import { Effect } from "effect"
import { makePostgres, missing, type Postgres } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Paced from "./Paced.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import { cpuMicros, endedChildrenMicros } from "./Usage.ts"

/** Of a server that does nothing else, and of few memory. */
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

/** A relay that writes what it receives to a file, with its journal in the database. */
export const relay = (setup: Target.Setup, { url }: Postgres, name: string) =>
  Target.relayToFile(setup, name, undefined, { type: "postgres", url, name })

/** CPU that the database has used so far, in microseconds. */
export const databaseMicros = ({ processes }: Postgres): number => {
  const [postmaster = 0, ...children] = processes()
  return [postmaster, ...children].reduce((sum, pid) => sum + cpuMicros(pid), endedChildrenMicros(postmaster))
}

/** A relay that sends to HTTP, with its journal in a database of its own. */
export const relayToHttp = Effect.fnUntraced(function* (setup: Target.Setup, name: string) {
  const postgres = yield* database
  const target = yield* Target.relayToHttp(setup, name, undefined, { type: "postgres", url: postgres.url, name })
  return { ...target, databaseMicros: () => databaseMicros(postgres) }
})

interface Round {
  /** CPU microseconds an event, until all were delivered. */
  readonly relays: number
  readonly database: number
  /** Milliseconds, of the slowest relay. */
  readonly p99: number
}

export interface Measured {
  readonly title: string
  readonly rounds: ReadonlyArray<Round>
  readonly refused: number
  readonly lost: number
}

export const spread = ({ rounds }: Measured, field: keyof Round) => Rounds.spread(rounds.map((round) => round[field]))

export const ratio = (of: Measured, base: Measured, field: keyof Round) =>
  Rounds.spread(of.rounds.map((round, index) => round[field] / (base.rounds[index]?.[field] ?? Number.NaN)))

/** Events a second for each relay: four of them, the database and the load share the machine. */
const rate = 500

interface Options extends Target.Setup {
  readonly rounds: number
  readonly seconds: number
}

/** What compiling costs in the first seconds is not what an event costs. */
const warmups = 3

export const measure = Effect.fnUntraced(function* <const Sizes extends ReadonlyArray<number>>(
  options: Options,
  sizes: Sizes,
) {
  const fleets: Array<Measured & { rounds: Array<Round>; refused: number; lost: number } & Fleet> = []
  for (const size of sizes) {
    const postgres = yield* database
    const title = size === 1 ? "one relay" : `${size} relays`
    const relays: Array<Effect.Success<ReturnType<typeof relay>>> = []
    for (let index = 1; index <= size; index++) {
      relays.push(yield* relay(options, postgres, `${title}, ${index}`))
    }
    fleets.push({ title, postgres, relays, rounds: [], refused: 0, lost: 0 })
  }
  for (let round = 1 - warmups; round <= options.rounds; round++) {
    for (const fleet of round % 2 === 0 ? fleets : fleets.toReversed()) {
      const { postgres, relays } = fleet
      const before = yield* Effect.all(relays.map(({ delivered }) => delivered))
      const relaysBefore = relays.reduce((sum, { pid }) => sum + cpuMicros(pid), 0)
      const databaseBefore = databaseMicros(postgres)
      const loads = yield* Effect.all(
        relays.map(({ port }) => Paced.paced(port, { rate, seconds: options.seconds })),
        { concurrency: "unbounded" },
      )
      let lost = 0
      for (const [index, relay] of relays.entries()) {
        const accepted = (loads[index]?.requests ?? 0) - (loads[index]?.refused ?? 0)
        const expected = (before[index] ?? 0) + accepted
        lost += expected - (yield* Target.awaitDelivered(relay, expected))
      }
      const events = loads.reduce((sum, { requests }) => sum + requests, 0)
      const relaysAfter = relays.reduce((sum, { pid }) => sum + cpuMicros(pid), 0)
      fleet.refused += loads.reduce((sum, { refused }) => sum + refused, 0)
      fleet.lost += Math.max(0, lost)
      if (round < 1) continue
      fleet.rounds.push({
        relays: (relaysAfter - relaysBefore) / events,
        database: (databaseMicros(postgres) - databaseBefore) / events,
        p99: Math.max(...loads.map(({ p99 }) => p99)),
      })
    }
    process.stderr.write(round < 1 ? "warm " : `${round} `)
  }
  process.stderr.write("\n")
  const figures = fleets.map((fleet) => {
    const show = (field: keyof Round, digits: number) => spread(fleet, field).median.toFixed(digits)
    return `  ${fleet.title}: ${show("relays", 1)} µs CPU an event, PostgreSQL ${show("database", 1)}, p99 ${show("p99", 1)} ms`
  })
  process.stdout.write(`\nFleets at ${rate} events/s for each relay, medians\n${figures.join("\n")}\n`)
  return fleets as { readonly [Index in keyof Sizes]: Measured }
})

interface Fleet {
  readonly postgres: Postgres
  readonly relays: ReadonlyArray<Effect.Success<ReturnType<typeof relay>>>
}
