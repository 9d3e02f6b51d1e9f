/**
 * Measures the cost of an event and prints one table. Its rows are relays with each of the usual sinks, and servers
 * that do a part of a relay's work. Each row has its own server. All rows take turns in each round, and a ratio
 * compares figures of the same round.
 */
import { join } from "node:path"
import { Duration, Effect, type Scope } from "effect"
import { unavailable } from "../parts/Kafka.ts"
import { missing as lackingPostgres } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Fleet from "./Fleet.ts"
import * as Kafka from "./Kafka.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import { type Options, saturate } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { memory } from "./Usage.ts"
import * as Verdicts from "./Verdicts.ts"

/** A relay to HTTP with its journal in a database. Its CPU includes the database's. */
const postgres = "postgres"

type Make = (options: Options, name: string) => Effect.Effect<Target.Target, BenchError, Scope.Scope>

/** The rows that need no broker. `postgres` needs a database. */
const rows: Readonly<Record<string, Make>> = {
  empty: (options, name) => Target.server(options, name, "empty"),
  bare: (options, name) => Target.server(options, name, "bare"),
  durable: (options, name) => Target.server(options, name, "durable", join(options.directory, `${name}.db`)),
  forwarder: Target.forwarder,
  file: Target.relayToFile,
  http: (options, name) => Target.relayToHttp(options, name),
  batches: (options, name) => Target.relayToHttp(options, name, { format: "ndjson", batch: { maxEvents: 100 } }),
  [postgres]: Fleet.relayToHttp,
}

const kafkaRows = { producer: Kafka.producer, kafka: Kafka.relay }

const isKafka = (name: string): name is keyof typeof kafkaRows => Object.hasOwn(kafkaRows, name)

/** In the order of the table. One that is named twice is measured twice, which shows the noise. */
const usual = [
  "empty",
  "bare",
  "bare",
  "durable",
  "forwarder",
  "producer",
  "file",
  "http",
  "batches",
  "kafka",
  postgres,
]

const named = Effect.fnUntraced(function* (list: string | undefined) {
  const names = list?.split(",") ?? usual
  const unknown = names.find((name) => rows[name] === undefined && !isKafka(name))
  if (unknown !== undefined) {
    return yield* new BenchError({ message: `--rows takes ${[...new Set(usual)].join(", ")}, not ${unknown}` })
  }
  const without = (part: string, missing: string | undefined, needs: (name: string) => boolean) => {
    if (missing === undefined || !names.some(needs)) return new Set<string>()
    process.stderr.write(`without ${part}: ${missing}\n`)
    return new Set(names.filter(needs))
  }
  const left = without("Kafka", unavailable(), isKafka).union(
    without("PostgreSQL", lackingPostgres(), (name) => name === postgres),
  )
  return names.filter((name) => !left.has(name))
})

/** How long the servers are left alone before their memory is read: at first, and at the end. */
const rest = Duration.seconds(10)

export interface CostOptions extends Options {
  /** Events a second for each row. Without it, each row gets as many as it can take. */
  readonly pace: number | undefined
  /** Comma-separated names of rows (default: all). */
  readonly rows: string | undefined
}

export const cost = Effect.fnUntraced(function* (options: CostOptions) {
  const names = yield* named(options.rows)
  const kafka = names.some(isKafka) ? yield* Kafka.broker : undefined
  const targets: Record<string, Target.Target> = {}
  for (const [index, name] of names.entries()) {
    const copies = names.slice(0, index).filter((other) => other === name).length
    const title = copies === 0 ? name : `${name} ${copies + 1}`
    const make =
      isKafka(name) && kafka !== undefined ? kafkaRows[name](options, title, kafka) : rows[name]?.(options, title)
    if (make !== undefined) targets[title] = yield* make
  }
  yield* Effect.sleep(rest)
  const idle = resident(targets)
  const { pace } = options
  const subjects =
    pace === undefined
      ? yield* saturate(options, targets)
      : yield* Rounds.interleaved(targets, options.rounds, Effect.void, ({ port }) =>
          Paced.paced(port, { rate: pace, seconds: options.seconds }),
        )
  const peak = resident(targets, "peak")
  yield* Effect.sleep(rest)
  const measured: Measured = { subjects, idle, peak, settled: resident(targets) }
  process.stdout.write(table(measured, pace === undefined ? "as many as each can take" : `${pace} events/s`))
  return verdicts(measured, pace)
})

type Mebibytes = Readonly<Record<string, number>>

const resident = (targets: Readonly<Record<string, Target.Target>>, when: "now" | "peak" = "now"): Mebibytes =>
  Object.fromEntries(Object.entries(targets).map(([name, { pid }]) => [name, memory(pid)[when]]))

interface Measured {
  readonly subjects: Readonly<Record<string, Rounds.Subject>>
  readonly idle: Mebibytes
  readonly peak: Mebibytes
  readonly settled: Mebibytes
}

const table = ({ subjects, idle, peak, settled }: Measured, load: string): string => {
  const { bare } = subjects
  const ratio = (subject: Rounds.Subject, field: "rate" | "cpu" | "p99") =>
    bare === undefined || subject === bare ? "" : Report.brief(Rounds.ratio(subject, bare, field), 2)
  const figure = (subject: Rounds.Subject, field: keyof Rounds.Run, digits: number) =>
    Report.brief(Rounds.of(subject, field), digits)
  const mebibytes = (of: Mebibytes, name: string) => (of[name] ?? Number.NaN).toFixed(0)
  const head = ["", "events/s", "÷ bare", "CPU µs", "÷ bare", "p50 ms", "p99 ms", "÷ bare"]
  const body = Object.entries(subjects).map(([name, subject]) => [
    name,
    figure(subject, "rate", 0),
    ratio(subject, "rate"),
    figure(subject, "cpu", 1),
    ratio(subject, "cpu"),
    figure(subject, "p50", 1),
    figure(subject, "p99", 1),
    ratio(subject, "p99"),
    mebibytes(idle, name),
    mebibytes(peak, name),
    mebibytes(settled, name),
    figure(subject, "collections", 2),
    figure(subject, "faults", 2),
  ])
  return Report.titled(
    `What an event costs, ${load}; medians with their range; CPU of the server, with its database where it has one, until all was delivered`,
    [[...head, "idle MiB", "peak", "settled", "GCs/1000", "faults"], ...body],
  )
}

/** Compares two copies of one server: their ratio is the noise of the measurement. */
const noise = ({ subjects }: Measured): ReadonlyArray<Report.Verdict> =>
  Object.entries(subjects).flatMap(([name, subject]) => {
    const first = subjects[name.replace(/ \d+$/, "")]
    if (first === undefined || first === subject) return []
    const of = (field: "rate" | "cpu" | "p99") => Verdicts.factor(Rounds.ratio(subject, first, field))
    return [
      {
        requirement: `${name}, the same server: the run's noise`,
        measured: `rate ${of("rate")}, CPU ${of("cpu")}, p99 ${of("p99")}`,
        ok: true,
      },
    ]
  })

const verdicts = (measured: Measured, pace: number | undefined): ReadonlyArray<Report.Verdict> => {
  const { subjects, idle, peak } = measured
  const { bare, durable, forwarder, file, http, batches, kafka, postgres } = subjects
  const found: Array<Report.Verdict> = [...noise(measured)]
  const atMost = (
    what: "cpu" | "p99",
    of: Rounds.Subject | undefined,
    base: Rounds.Subject | undefined,
    bound: number,
  ) => {
    if (of === undefined || base === undefined) return
    const requirement = `to ${of.target.name}: ${what === "cpu" ? "CPU an event" : what} of ${base.target.name}'s`
    found.push(Verdicts.atMost(requirement, bound, Rounds.ratio(of, base, what)))
  }
  atMost("cpu", file, durable, 1.5)
  atMost("cpu", http, forwarder, 1.6)
  atMost("cpu", batches, file, 1.15)
  atMost("cpu", kafka, bare, 1.8)
  if (postgres !== undefined) {
    const { median, min, max } = Rounds.of(postgres, "cpu")
    found.push({
      requirement: "on PostgreSQL to HTTP: CPU an event, with the database ≤ 200 µs",
      measured: `${median.toFixed(0)} µs [${min.toFixed(0)}..${max.toFixed(0)}]`,
      ok: median <= 200,
    })
  }
  if (pace === undefined) atMost("p99", file, durable, 1.2)
  for (const relay of [file, http, batches, kafka, postgres]) {
    if (relay === undefined) continue
    const { name } = relay.target
    found.push(
      ...Verdicts.resident(name, idle[name] ?? Number.NaN, peak[name] ?? Number.NaN),
      Verdicts.complete(relay, pace === undefined),
    )
  }
  return found
}
