/**
 * The scenarios and what each requires. Every one starts its own targets, all
 * at once and before the first round, prints its table and gives its verdicts.
 */
import { Effect, type Scope } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Fleet from "./Fleet.ts"
import * as Load from "./Load.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Requests from "./Requests.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import * as Watchers from "./Watchers.ts"

export interface Options extends Target.Setup {
  /** A file that gets the deliveries of a round; in memory, so that writing it does not meet the journal's fsyncs. */
  readonly requests: string
  readonly rounds: number
  /** Of each run; whole, because wrk takes no others. */
  readonly seconds: number
  /** Events a second where the load is paced. */
  readonly rate: number
  /** Events kept in the journal that is compared with an empty one. */
  readonly kept: number
}

type Scenario = (options: Options) => Effect.Effect<ReadonlyArray<Report.Verdict>, BenchError, Scope.Scope>

const factor = ({ median, min, max }: Rounds.Spread): string =>
  `${median.toFixed(2)}× [${min.toFixed(2)}..${max.toFixed(2)}]`

const atLeast = (requirement: string, bound: number, measured: Rounds.Spread): Report.Verdict => ({
  requirement: `${requirement} ≥ ${bound}×`,
  measured: factor(measured),
  ok: measured.median >= bound,
})

const atMost = (requirement: string, bound: number, measured: Rounds.Spread): Report.Verdict => ({
  requirement: `${requirement} ≤ ${bound}×`,
  measured: factor(measured),
  ok: measured.median <= bound,
})

/** wrk drops what is in flight when it stops: those were accepted and are delivered too, but it does not count them. */
const complete = (subject: Rounds.Subject, uncounted: number): Report.Verdict => {
  const lost = Rounds.total(subject, "lost")
  const refused = Rounds.total(subject, "refused")
  const surplus = Rounds.total(subject, "surplus")
  return {
    requirement: `${subject.target.name}: accepted = delivered, none refused`,
    measured: `${Rounds.total(subject, "requests")} sent, ${refused} refused, ${lost} lost, ${surplus} surplus`,
    ok: lost === 0 && refused === 0 && surplus <= uncounted * subject.runs.length,
  }
}

/** As much as the targets can take, with new deliveries each round. */
const saturate = Effect.fnUntraced(function* <const Name extends string>(
  options: Options,
  targets: Readonly<Record<Name, Target.Target>>,
) {
  // Enough for any round: a relay that met one twice would look too fast.
  let count = 40_000 * options.seconds
  let fastest = 0
  const prepare = Effect.sync(() => {
    count = Math.max(count, Math.ceil(fastest * options.seconds * 2))
    Requests.writeFile(options.requests, count)
  })
  const drive: Rounds.Drive = Effect.fnUntraced(function* (target, round) {
    const load = yield* Load.closed(target.port, options.requests, options.seconds)
    if (target.delivered === undefined) return load
    fastest = Math.max(fastest, load.rate)
    if (round < 1 || load.requests + Load.connections <= count) return load
    return yield* new BenchError({ message: `${target.name} took all ${count} deliveries of a round: make more` })
  })
  return yield* Rounds.interleaved(targets, options.rounds, prepare, drive)
})

/** How much durable ingest costs beside a handler that keeps nothing. */
const ingest: Scenario = Effect.fnUntraced(function* (options) {
  const { empty, ceiling, relay } = yield* saturate(options, {
    empty: yield* Target.server(options, "empty"),
    ceiling: yield* Target.server(options, "ceiling"),
    relay: yield* Target.relayToFile(options, "relay"),
  })
  yield* print("Durable ingest, file lane running; closed loop", [empty, ceiling, relay], [ceiling, empty])
  const rate = Rounds.ratio(relay, ceiling, "rate")
  const cpu = Rounds.ratio(relay, empty, "cpu")
  return [
    atLeast("ingest: requests/s of the ceiling's", 0.5, rate),
    { ...atLeast("ingest: requests/s of the ceiling's", 0.55, rate), stretch: true },
    atMost("ingest: CPU a request of the empty server's", 4, cpu),
    { ...atMost("ingest: CPU a request of the empty server's", 3.5, cpu), stretch: true },
    atMost("ingest: p99 of the ceiling's", 6, Rounds.ratio(relay, ceiling, "p99")),
    complete(relay, Load.connections),
  ]
})

/** What an event costs from its arrival to its sink, at a rate that can go on for ever. */
const endToEnd: Scenario = Effect.fnUntraced(function* (options) {
  const targets = {
    empty: yield* Target.server(options, "empty"),
    ceiling: yield* Target.server(options, "ceiling"),
    forwarder: yield* Target.forwarder(options),
    file: yield* Target.relayToFile(options, "relay to file"),
    http: yield* Target.relayToHttp(options, "relay to http"),
  }
  const drive: Rounds.Drive = (target) => Paced.paced(target.port, options)
  const { empty, ceiling, forwarder, file, http } = yield* Rounds.interleaved(
    targets,
    options.rounds,
    Effect.void,
    drive,
  )
  const all = [empty, ceiling, forwarder, file, http]
  yield* print(`End to end at ${options.rate} events/s`, all, [empty, ceiling, forwarder])
  const cost = (subject: Rounds.Subject, bound: number): Report.Verdict => {
    const cpu = Rounds.of(subject, "cpu")
    return {
      requirement: `${subject.target.name}: CPU an event ≤ ${bound} µs`,
      measured: `${Report.show(cpu, 1)}; the empty server ${Report.show(Rounds.of(empty, "cpu"), 1)}`,
      ok: cpu.median <= bound,
    }
  }
  const keepsUp = (subject: Rounds.Subject): Report.Verdict => {
    const behind = Rounds.of(subject, "behind")
    return {
      requirement: `${subject.target.name}: no growing backlog (behind at the end ≤ half a second's events)`,
      measured: Report.show(behind, 0),
      ok: behind.median <= options.rate / 2,
    }
  }
  return [
    cost(file, 50),
    cost(http, 90),
    ...[file, http].flatMap((subject) => [complete(subject, 0), keepsUp(subject)]),
  ]
})

/** What an event costs more while a page, a tail and Prometheus look at the relay. */
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
    complete(subjects.watched, 0),
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
    complete(other, Load.connections),
  ]
})

const kept: Scenario = Effect.fnUntraced(function* (options) {
  const full = `${options.kept.toLocaleString("en")} kept`
  yield* Fill.run(Target.journalPath(Target.relayDirectory(options, full)), options.kept)
  return yield* compare(options, `Ingest with ${full} in the journal, against an empty one`, {
    base: yield* Target.relayToFile(options, "empty journal"),
    other: yield* Target.relayToFile(options, full),
  })
})

/** What PostgreSQL costs in the place of a file, and what more relays on one database cost each. */
const fleet: Scenario = Effect.fnUntraced(function* (options) {
  const database = yield* Fleet.database
  const { file, shared } = yield* saturate(options, {
    file: yield* Target.relayToFile(options, "on SQLite"),
    shared: yield* Fleet.relay(options, database, "on PostgreSQL"),
  })
  yield* print("One relay, database and load on this machine; closed loop", [file, shared], [file])
  const rate = Rounds.of(shared, "rate")
  const [one, two, four] = yield* Fleet.measure(options, [1, 2, 4])
  return [
    {
      requirement: "on PostgreSQL: events/s ≥ 8,000",
      measured: Report.show(rate, 0),
      ok: rate.median >= 8_000,
    },
    atMost("on PostgreSQL: CPU an event of SQLite's", 1.15, Rounds.ratio(shared, file, "cpu")),
    complete(shared, Load.connections),
    ...[two, four].flatMap((of) => [
      atMost(`${of.title}: CPU an event of one relay's`, 1.1, Fleet.ratio(of, one, "relays")),
      atMost(`${of.title}: PostgreSQL's CPU an event of one relay's`, 1.15, Fleet.ratio(of, one, "database")),
    ]),
    {
      requirement: `${four.title}: p99 ≤ 25 ms`,
      measured: Report.show(Fleet.spread(four, "p99"), 1),
      ok: Fleet.spread(four, "p99").median <= 25,
    },
    ...[one, two, four].map((of) => ({
      requirement: `${of.title}: accepted = delivered, none refused`,
      measured: `${of.refused} refused, ${of.lost} lost`,
      ok: of.refused + of.lost === 0,
    })),
  ]
})

/** Patterns of all kinds; every one of them leads to the same sink, where an event arrives once. */
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

/** This relay and another build of it, in turn: what a change costs. A tenth is noise. */
export const compareWith =
  (command: ReadonlyArray<string>): Scenario =>
  (options) =>
    Effect.gen(function* () {
      const other = { ...options, command }
      const subjects = yield* saturate(options, {
        fileThen: yield* Target.relayToFile(other, "other, to file"),
        fileNow: yield* Target.relayToFile(options, "this, to file"),
        httpThen: yield* Target.relayToHttp(other, "other, to http"),
        httpNow: yield* Target.relayToHttp(options, "this, to http"),
      })
      const { fileThen, fileNow, httpThen, httpNow } = subjects
      yield* print("Two builds; closed loop", [fileThen, fileNow, httpThen, httpNow], [fileThen, httpThen])
      return [
        atMost("to file: CPU an event of the other's", 1.1, Rounds.ratio(fileNow, fileThen, "cpu")),
        atLeast("to file: events/s of the other's", 0.9, Rounds.ratio(fileNow, fileThen, "rate")),
        atMost("to http: CPU an event of the other's", 1.1, Rounds.ratio(httpNow, httpThen, "cpu")),
        atLeast("to http: events/s of the other's", 0.9, Rounds.ratio(httpNow, httpThen, "rate")),
        complete(fileNow, Load.connections),
        complete(httpNow, Load.connections),
      ]
    })

const print = (title: string, subjects: ReadonlyArray<Rounds.Subject>, references: ReadonlyArray<Rounds.Subject>) =>
  Effect.sync(() => process.stdout.write(Report.scenario(title, subjects, references)))

export const scenarios: Readonly<Record<string, Scenario>> = {
  ingest,
  "end-to-end": endToEnd,
  kept,
  routes,
  page,
  fleet,
}
