/**
 * Measures how a long backlog drains while deliveries arrive: how fast, with how much memory, and how much it delays
 * the deliveries.
 */
import { Duration, Effect } from "effect"
import * as Fill from "./Fill.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Target from "./Target.ts"
import { memory } from "./Usage.ts"
import * as Verdicts from "./Verdicts.ts"

/** Events a second that arrive meanwhile, and for how many seconds. */
const load = { rate: 1_000, seconds: 5 }
/**
 * How long the relay has no load before its memory is read. After that it is as idle as a relay that has just started.
 */
const rest = Duration.seconds(10)

const lanes = { file: Target.relayToFile, http: Target.relayToHttp }

const measure = Effect.fnUntraced(function* (options: Target.Setup, lane: keyof typeof lanes, backlog: number) {
  const name = `backlog to ${lane}`
  const path = Target.journalPath(Target.relayDirectory(options, name))
  yield* Fill.run(path, { events: backlog, lane, isDelivered: false })
  const relay = yield* lanes[lane](options, name)
  const started = performance.now()
  const accepted = yield* Paced.paced(relay.port, load)
  const expected = backlog + accepted.requests - accepted.refused
  const delivered = yield* Target.awaitDelivered(relay, expected)
  const seconds = (performance.now() - started) / 1000
  yield* Effect.sleep(rest)
  const { now, peak } = memory(relay.pid)
  const alone = yield* Paced.paced(relay.port, load)
  const rate = delivered / seconds
  return { name, p99: accepted.p99, alone: alone.p99, rate, lost: expected - delivered, now, peak }
}, Effect.scoped)

export const drain = Effect.fnUntraced(function* (options: Target.Setup & { readonly backlog: number }) {
  const results = []
  for (const lane of ["file", "http"] as const) {
    results.push(yield* measure(options, lane, options.backlog))
    process.stderr.write(`${lane} `)
  }
  process.stderr.write("\n")
  process.stdout.write(
    Report.titled(`${options.backlog.toLocaleString("en")} events wait, and ${load.rate} a second come in`, [
      ["", "delivered/s", "ingest p99 ms", "without", "peak MiB", "settled"],
      ...results.map(({ name, rate, p99, alone, peak, now }) => [
        name,
        rate.toFixed(0),
        p99.toFixed(1),
        alone.toFixed(1),
        peak.toFixed(0),
        now.toFixed(0),
      ]),
    ]),
  )
  return results.flatMap(
    ({ name, p99, alone, peak, now, lost }): ReadonlyArray<Report.Verdict> => [
      ...Verdicts.resident(name, now, peak),
      {
        requirement: `${name}: ingest's p99 ≤ 2× of it without one`,
        measured: `${p99.toFixed(1)} and ${alone.toFixed(1)} ms`,
        ok: p99 <= 2 * alone,
      },
      { requirement: `${name}: all of it is delivered`, measured: `${lost} lost`, ok: lost === 0 },
    ],
  )
})
