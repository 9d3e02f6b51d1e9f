/**
 * Measures what grows: replays of more and more events to a file, and reports of
 * single events, each from a journal of its own; and reloads of more and more sinks.
 */
import { Effect, Schedule } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"
import { cpuMicros } from "./Usage.ts"

interface Growth {
  readonly events: number
  /** Events a second, from the start to the end of the replay. */
  readonly rate: number
  /** CPU microseconds an event. */
  readonly cpu: number
  /** Milliseconds for the report of one event, before the replay. */
  readonly report: Rounds.Spread
  readonly lost: number
}

const call = <A>(at: string, init?: RequestInit) =>
  Effect.tryPromise({
    try: async () => (await (await fetch(at, init)).json()) as A,
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

const replay = Effect.fnUntraced(function* (setup: Target.Setup, events: number) {
  const name = `replay of ${events}`
  const path = Target.journalPath(Target.relayDirectory(setup, name))
  const idOf = yield* Fill.run(path, { events, lane: "file", isDelivered: true })
  const relay = yield* Target.relayToFile(setup, name, undefined, { type: "sqlite", path, maxSize: "1 TiB" })
  const api = `http://127.0.0.1:${relay.adminPort}/api/v1`
  const at = `${api}/replays`
  const report = yield* timed((look) => call(`${api}/events/${idOf(Math.floor((look * events) / looks))}`))
  const before = cpuMicros(relay.pid)
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
  const growth: Growth = {
    events,
    rate: count / seconds,
    cpu: (cpuMicros(relay.pid) - before) / count,
    report,
    lost: events - delivered,
  }
  return growth
}, Effect.scoped)

/** Milliseconds of reloads that change nothing, with this many sinks. */
const reload = Effect.fnUntraced(function* (setup: Target.Setup, sinks: number) {
  const idle = Array.from({ length: sinks - 1 }, (_, index) => `idle${index + 1}`)
  const relay = yield* Target.relayToFile(setup, `reload of ${sinks}`, undefined, undefined, idle)
  return yield* timed(() => call(`http://127.0.0.1:${relay.adminPort}/api/v1/reload`, { method: "POST" }))
}, Effect.scoped)

/** The numbers of sinks of the reloads. */
const sinkCounts = [10, 100, 1_000]

/** Replays of more and more events: the last is so large that a cost that grows with their number can't be missed. */
export const growth = Effect.fnUntraced(function* (setup: Target.Setup, sizes: ReadonlyArray<number>) {
  const found: Array<Growth> = []
  for (const size of sizes) {
    found.push(yield* replay(setup, size))
    process.stderr.write(`${size} `)
  }
  process.stderr.write("\n")
  process.stdout.write(
    Report.titled("Replays to the sinks that events were routed to", [
      ["events", "events/s", "CPU µs an event", "report of an event, ms"],
      ...found.map(({ events, rate, cpu, report }) => [
        events.toLocaleString("en"),
        rate.toFixed(0),
        cpu.toFixed(0),
        Report.show(report, 1),
      ]),
    ]),
  )
  const reloads = yield* Effect.forEach(sinkCounts, (sinks) =>
    Effect.map(reload(setup, sinks), (took) => [sinks.toLocaleString("en"), Report.show(took, 0)]),
  )
  process.stdout.write(Report.titled("Reloads that change nothing", [["sinks", "ms"], ...reloads]))
  return found.flatMap(
    ({ events, rate, lost }): ReadonlyArray<Report.Verdict> => [
      {
        requirement: `a replay of ${events.toLocaleString("en")}: events/s ≥ 5,000`,
        measured: rate.toFixed(0),
        ok: rate >= 5_000,
      },
      {
        requirement: `a replay of ${events.toLocaleString("en")}: none lost`,
        measured: `${lost} lost`,
        ok: lost === 0,
      },
    ],
  )
})
