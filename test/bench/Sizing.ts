/**
 * Measures the resources of a relay for the table in docs/operations/sizing.md, on SQLite and on PostgreSQL, in less
 * than a minute.
 */
import { readdirSync, statSync } from "node:fs"
import { Console, Duration, Effect, Schedule } from "effect"
import type { Postgres } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Fleet from "./Fleet.ts"
import * as Paced from "./Paced.ts"
import * as Requests from "./Requests.ts"
import * as Rounds from "./Rounds.ts"
import { type Options, saturate } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { cpuMicros, memory } from "./Usage.ts"
import { complete } from "./Verdicts.ts"

/** Events a second of a usual load, whose commits have few events each. */
const rate = 1000
const seconds = 5

/** The rows of the page's table. */
export const rows = [
  "events a second, at most",
  "CPU an event then, µs",
  `CPU an event at ${rate} events/s, µs`,
  "CPU an event of the database, µs",
  "p99 of the response, ms",
  "bytes an event on disk",
  "memory idle, MiB",
  "memory under load at most, MiB",
  "descriptors idle",
  "descriptors with 64 connections",
] as const

interface Subject {
  readonly relay: Target.Relay
  /** Bytes of the events on disk, without reserved and rewritten space. */
  readonly onDisk: Effect.Effect<number, BenchError>
  /** CPU of the database, in microseconds. */
  readonly databaseMicros?: () => number
}

const sqlite = Effect.fnUntraced(function* (options: Options) {
  const relay = yield* Target.relayToFile(options, "SQLite")
  const index = `${Target.journalPath(Target.relayDirectory(options, "SQLite"))}-index`
  const onDisk = Effect.gen(function* () {
    const text = yield* Effect.promise(async () => (await fetch(`http://127.0.0.1:${relay.adminPort}/metrics`)).text())
    const [, bytes] = /^relay_journal_bytes (\S+)$/m.exec(text) ?? []
    if (bytes === undefined) return yield* new BenchError({ message: "the relay exports no relay_journal_bytes" })
    return Number(bytes) + (statSync(index, { throwIfNoEntry: false })?.size ?? 0)
  })
  const subject: Subject = { relay, onDisk }
  return subject
})

const sizeOf = ({ sql }: Postgres) =>
  Effect.map(
    Effect.promise(() => sql("SELECT pg_database_size('relay')::float8 AS bytes")),
    ([row]) => Number(row?.bytes),
  )

const postgres = Effect.fnUntraced(function* (options: Options) {
  const database = yield* Fleet.database
  const relay = yield* Fleet.relay(options, database, "PostgreSQL")
  const subject: Subject = {
    relay,
    onDisk: sizeOf(database),
    databaseMicros: () => Fleet.databaseMicros(database),
  }
  return subject
})

const descriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** Returns the highest number of descriptors while something runs. */
const mostDescriptors = <A, E, R>(pid: number, running: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let most = 0
    const look = Effect.sync(() => {
      most = Math.max(most, descriptors(pid))
    })
    yield* Effect.forkChild(Effect.repeat(look, Schedule.spaced("50 millis")))
    const result = yield* running
    return { result, most }
  })

/** Measures at the usual rate, once the code on the path of an event has been compiled. */
const paced = Effect.fnUntraced(function* ({ relay, onDisk, databaseMicros }: Subject) {
  const before = {
    delivered: yield* relay.delivered ?? Effect.succeed(0),
    bytes: yield* onDisk,
    cpu: cpuMicros(relay.pid),
    database: databaseMicros?.(),
  }
  const { result: load, most } = yield* mostDescriptors(relay.pid, Paced.paced(relay.port, { rate, seconds }))
  const events = load.requests - load.refused
  const delivered = yield* Target.awaitDelivered(relay, before.delivered + events)
  return {
    p99: load.p99,
    cpu: (cpuMicros(relay.pid) - before.cpu) / events,
    database: databaseMicros === undefined ? undefined : (databaseMicros() - (before.database ?? 0)) / events,
    bytes: ((yield* onDisk) - before.bytes) / events,
    descriptors: most,
    lost: before.delivered + events - delivered + load.refused,
  }
})

const measure = Effect.fnUntraced(function* (options: Options, subject: Subject) {
  const { pid, name } = subject.relay
  yield* Effect.sleep(Duration.seconds(2))
  const idle = { memory: memory(pid).now, descriptors: descriptors(pid) }
  const saturated = yield* saturate({ ...options, rounds: 2, seconds: 2, warmups: 1 }, { subject: subject.relay })
  const usual = yield* paced(subject)
  const median = (field: "rate" | "cpu") => Rounds.of(saturated.subject, field).median
  const figures: Readonly<Record<(typeof rows)[number], number | undefined>> = {
    "events a second, at most": median("rate"),
    "CPU an event then, µs": median("cpu"),
    [`CPU an event at ${rate} events/s, µs`]: usual.cpu,
    "CPU an event of the database, µs": usual.database,
    "p99 of the response, ms": usual.p99,
    "bytes an event on disk": usual.bytes,
    "memory idle, MiB": idle.memory,
    "memory under load at most, MiB": memory(pid).peak,
    "descriptors idle": idle.descriptors,
    "descriptors with 64 connections": usual.descriptors,
  }
  const lost = { requirement: `${name}: at ${rate} events/s, none lost or refused`, measured: `${usual.lost}` }
  return { name, figures, verdicts: [complete(saturated.subject, true), { ...lost, ok: usual.lost === 0 }] }
})

/** Measures one after the other, because they would compete for the machine. */
export const sizing = Effect.fnUntraced(function* (options: Options) {
  const both = [
    yield* Effect.scoped(Effect.flatMap(sqlite(options), (subject) => measure(options, subject))),
    yield* Effect.scoped(Effect.flatMap(postgres(options), (subject) => measure(options, subject))),
  ]
  yield* Console.log(
    [
      `\nA body of ${Requests.bodyBytes} bytes, delivered to a file\n`,
      `| | ${both.map(({ name }) => name).join(" | ")} |`,
      "|---|---:|---:|",
      ...rows.map((row) => `| ${row} | ${both.map(({ figures }) => figures[row]?.toFixed(0) ?? "").join(" | ")} |`),
    ].join("\n"),
  )
  return both.flatMap(({ verdicts }) => verdicts)
})
