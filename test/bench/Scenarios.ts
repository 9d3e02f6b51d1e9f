/**
 * The scenarios that change the cost of an event, with their limits. Every scenario starts its targets together before
 * the first round, prints its table and returns its verdicts.
 */
import { Effect, type Scope } from "effect"
import { backtest } from "./Backtest.ts"
import type { BenchError } from "./BenchError.ts"
import { drain } from "./Drain.ts"
import * as Far from "./Far.ts"
import * as Fleet from "./Fleet.ts"
import { growth } from "./Growth.ts"
import * as Kept from "./Kept.ts"
import * as Memory from "./Memory.ts"
import * as Paced from "./Paced.ts"
import { rates } from "./Rates.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import { type Options as Rounded, saturate } from "./Saturate.ts"
import { sizing } from "./Sizing.ts"
import { start } from "./Start.ts"
import * as Target from "./Target.ts"
import { atLeast, atMost, complete } from "./Verdicts.ts"
import * as Watchers from "./Watchers.ts"

export interface Options extends Rounded {
  /** Events a second, if the load is paced. */
  readonly rate: number
  /** Events kept in the journal that is compared with an empty one. */
  readonly kept: number
  /** Events that wait for a sink. */
  readonly backlog: number
  /** Seconds of load for each sink while its memory is watched. */
  readonly long: number
}

type Scenario = (options: Options) => Effect.Effect<ReadonlyArray<Report.Verdict>, BenchError, Scope.Scope>

/** Measures how much more an event costs while a page, a tail and Prometheus watch the relay. */
const page: Scenario = Effect.fnUntraced(function* (options) {
  const watched = yield* Target.relayToFile(options, "watched")
  yield* Watchers.attach(watched.adminPort)
  const targets = { alone: yield* Target.relayToFile(options, "alone"), watched }
  const drive: Rounds.Drive = (target) => Paced.paced(target.port, options)
  const subjects = yield* Rounds.interleaved(targets, options.rounds, Effect.void, drive)
  yield* print(
    `With and without a page, a tail and a scrape each second, at ${options.rate} events/s`,
    [subjects.alone, subjects.watched],
    [subjects.alone],
  )
  return [
    atMost("watched: CPU an event of one that is alone", 1.1, Rounds.ratio(subjects.watched, subjects.alone, "cpu")),
    complete(subjects.watched, false),
  ]
})

/** Two relays that differ in one thing: the second may be at most a tenth slower. */
const compare = Effect.fnUntraced(function* (
  options: Options,
  title: string,
  targets: Readonly<Record<"base" | "other", Target.Target>>,
) {
  const { base, other } = yield* saturate(options, targets)
  yield* print(title, [base, other], [base])
  return [
    atLeast(`${other.target.name}: requests/s of ${base.target.name}`, 0.9, Rounds.ratio(other, base, "rate")),
    complete(other, true),
  ]
})

const kept: Scenario = Effect.fnUntraced(function* (options) {
  const journals = yield* Kept.fill(options)
  const ingest = Effect.gen(function* () {
    const relays = yield* Kept.relays(options, journals)
    const title = `Ingest with ${journals.full.name} in the journal, against an empty one`
    return [
      ...(yield* compare(options, title, { base: relays.empty, other: relays.full })),
      ...(yield* Kept.explain(options, journals, relays)),
    ]
  })
  return [...(yield* Effect.scoped(ingest)), ...(yield* Kept.restart(options, journals))]
})

const memory: Scenario = (options) => Memory.long(options, options.long)

/**
 * Events a second that both journals can take on a small machine. The rate must be equal, because an event costs less
 * at a higher rate.
 */
const sameRate = 4_000

/** Compares PostgreSQL with a file, and a fleet with a single relay. */
const fleet: Scenario = Effect.fnUntraced(function* (options) {
  const database = yield* Fleet.database
  const { file, shared } = yield* saturate(options, {
    file: yield* Target.relayToFile(options, "on SQLite"),
    shared: yield* Fleet.relay(options, database, "on PostgreSQL"),
  })
  yield* print("One relay, database and load on this machine; closed loop", [file, shared], [file])
  const rate = Rounds.of(shared, "rate")
  const paced = yield* Rounds.interleaved(
    { file: file.target, shared: shared.target },
    options.rounds,
    Effect.void,
    ({ port }) => Paced.paced(port, { rate: sameRate, seconds: options.seconds }),
  )
  yield* print(`The same at ${sameRate} events/s`, [paced.file, paced.shared], [paced.file])
  const cpu = "on PostgreSQL: CPU an event of SQLite's"
  const one = yield* Fleet.fleet(options, 1)
  const two = yield* Fleet.fleet(options, 2)
  const four = yield* Fleet.fleet(options, 4)
  const loads: Array<Report.Verdict> = []
  for (const rate of [500, 2_000]) {
    const pace = { rate, seconds: options.seconds }
    loads.push(...fleetVerdicts(rate, ...(yield* Fleet.measure([one, two, four], options.rounds, pace))))
  }
  return [
    {
      requirement: "on PostgreSQL: events/s ≥ 8,000",
      measured: Report.show(rate, 0),
      ok: rate.median >= 8_000,
    },
    atMost(`${cpu} at the same rate`, 1.15, Rounds.ratio(paced.shared, paced.file, "cpu")),
    atMost(`${cpu} where each takes what it can`, 1.15, Rounds.ratio(shared, file, "cpu")),
    complete(shared, true),
    complete(paced.shared, false),
    ...loads,
    ...(yield* far(options)),
  ]
})

/** At the same total load, an event may cost this much more if several relays share the load. */
const fleetVerdicts = (
  rate: number,
  one: Fleet.Measured,
  two: Fleet.Measured,
  four: Fleet.Measured,
): ReadonlyArray<Report.Verdict> => [
  atMost(
    `${rate}/s on two relays: CPU an event with PostgreSQL's, of one relay's`,
    1.25,
    Fleet.ratio(two, one, "both"),
  ),
  atMost(`${rate}/s on four relays: the same`, 1.6, Fleet.ratio(four, one, "both")),
  {
    requirement: `${rate}/s on four relays: p99 ≤ 25 ms`,
    measured: Report.show(Fleet.spread(four, "p99"), 1),
    ok: Fleet.spread(four, "p99").median <= 25,
  },
  ...[one, two, four].map((of) => ({
    requirement: `${rate}/s on ${of.title}: accepted = delivered, none refused`,
    measured: `${of.refused} refused, ${of.lost} lost`,
    ok: of.refused + of.lost === 0,
  })),
]

/**
 * Number of senders. Each waits for a round trip to the database, so 64 senders can't reach the limit of a far relay.
 */
const senders = 256

/** Measures the cost of a database in another place. */
const far: Scenario = Effect.fnUntraced(function* (options) {
  const { near, far } = yield* saturate(
    { ...options, senders },
    {
      near: yield* Fleet.relay(options, yield* Fleet.database, "near"),
      far: yield* Far.relay(options, yield* Fleet.database, "far"),
    },
  )
  const title = `The database beside the relay, and ${Far.delay} ms away each way; closed loop of ${senders}`
  yield* print(title, [near, far], [near])
  return [
    atLeast(`far: events/s of the near one's, ${senders} senders`, 0.5, Rounds.ratio(far, near, "rate")),
    complete(near, true, senders),
    complete(far, true, senders),
    ...(yield* Far.drain(options)),
  ]
})

/** Patterns of all kinds. All of them lead to one sink, and an event arrives there once. */
const patterns = ["**", "appointment.*", "client.updated", "{appointment,client}.created", "service.*", "**.deleted"]

const routes: Scenario = Effect.fnUntraced(function* (options) {
  const many = Array.from({ length: 1000 }, (_, index) => ({
    name: `route ${index}`,
    match: patterns[index % patterns.length] ?? "**",
    to: ["file"],
  }))
  return yield* compare(options, "Ingest with 1,000 routes, against one", {
    base: yield* Target.relayToFile(options, "1 route"),
    other: yield* Target.relayToFile(options, "1,000 routes", many),
  })
})

/** Starts a relay with a sink that gets all events, and sinks that get none. */
type StartWithIdle = (
  setup: Target.Setup,
  name: string,
  idle: ReadonlyArray<string>,
) => Effect.Effect<Target.Target, BenchError, Scope.Scope>

const sinksOn = Effect.fnUntraced(function* (options: Options, journal: string, start: StartWithIdle) {
  const relayTo = (count: number) => {
    const name = `${count.toLocaleString("en")} ${count === 1 ? "sink" : "sinks"} on ${journal}`
    const idle = Array.from({ length: count - 1 }, (_, index) => `idle${index + 1}`)
    return start(options, name, idle)
  }
  const targets = {
    one: yield* relayTo(1),
    ten: yield* relayTo(10),
    hundred: yield* relayTo(100),
    thousand: yield* relayTo(1_000),
  }
  const { one, ten, hundred, thousand } = yield* saturate(options, targets)
  const all = [one, ten, hundred, thousand]
  yield* print(`Ingest on ${journal}, if one of the sinks gets all events`, all, [one])
  return [
    atMost(`1,000 sinks on ${journal}: CPU an event of one`, 1.3, Rounds.ratio(thousand, one, "cpu")),
    ...all.map((subject) => complete(subject, true)),
  ]
}, Effect.scoped)

/** Measures the cost of sinks that get no events. */
const sinks: Scenario = Effect.fnUntraced(function* (options) {
  const onSqlite: StartWithIdle = (setup, name, idle) => Target.relayToFile(setup, name, undefined, undefined, idle)
  return [
    ...(yield* sinksOn(options, "SQLite", onSqlite)),
    ...(yield* sinksOn(options, "PostgreSQL", Fleet.relayToFile)),
  ]
})

const print = (title: string, subjects: ReadonlyArray<Rounds.Subject>, references: ReadonlyArray<Rounds.Subject>) =>
  Effect.sync(() => process.stdout.write(Report.scenario(title, subjects, references)))

export const scenarios: Readonly<Record<string, Scenario>> = {
  kept,
  backtest,
  drain,
  memory,
  routes,
  page,
  fleet,
  far,
  rates,
  sinks,
  start,
  sizing,
  growth: (options) =>
    growth(
      options,
      [2_500, 5_000, 10_000, 20_000, 200_000].filter((size) => size <= options.kept),
    ),
}
