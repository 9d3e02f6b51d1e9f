/**
 * What was counted over the last hour, in memory: for graphs. What is older is
 * Prometheus's.
 *
 * **Guarantee.** Its size is fixed, and it costs an event nothing: every ten
 * seconds it reads what ingest and the lanes have counted.
 */
import { Clock, Context, Effect, Layer, Schedule } from "effect"
import { type LaneStatus, Lanes } from "../delivery/Lanes.ts"
import { durationBuckets } from "../delivery/lane/AttemptStats.ts"
import type { Counters } from "../ingest/Counters.ts"
import { Ingest } from "../ingest/Ingest.ts"
import type { History as Report, Totals } from "./HistoryApi.ts"

const every = "10 seconds"
/** An hour of steps. */
const steps = 360
/** Steps over which a percentile is taken: five minutes. */
const recent = 30

const sum = (numbers: Iterable<number>): number => {
  let total = 0
  for (const number of numbers) total += number
  return total
}

export const totalsOf = ({ webhooks }: Counters, lanes: ReadonlyArray<LaneStatus>): Totals => {
  const totals = { received: 0, delivered: 0, refused: 0, failed: 0 }
  for (const { answers } of webhooks.values()) {
    for (const [status, count] of answers) totals[status < 300 ? "received" : "refused"] += count
  }
  for (const { attempts } of lanes) {
    for (const [outcome, count] of Object.entries(attempts)) {
      totals[outcome === "delivered" ? "delivered" : "failed"] += count
    }
  }
  return totals
}

/** Milliseconds under which 99 of 100 stayed, linear within the bucket; `undefined` of none. */
export const percentile99 = (counts: ReadonlyArray<number>): number | undefined => {
  const all = sum(counts)
  if (all === 0) return undefined
  let below = 0
  for (const [index, bound] of durationBuckets.entries()) {
    const count = counts[index] ?? 0
    const from = durationBuckets[index - 1] ?? 0
    if (below + count >= all * 0.99) {
      return Math.round(1_000 * (from + ((bound - from) * (all * 0.99 - below)) / count))
    }
    below += count
  }
  return 1_000 * Math.max(...durationBuckets)
}

interface Sample {
  readonly at: number
  readonly totals: Totals
  /** Attempts by duration since the start, by sink. */
  readonly durations: ReadonlyMap<string, ReadonlyArray<number>>
}

/** How much more it is; a count that begins anew counts whole. */
const more = (now: number, before: number): number => (now >= before ? now - before : now)

export class History extends Context.Service<
  History,
  {
    readonly report: Effect.Effect<Report>
    /** Of a sink's attempts within the last minutes, in milliseconds. */
    readonly p99: (lane: LaneStatus) => number | undefined
  }
>()("relay/admin/History") {
  static readonly layer = Layer.effect(
    History,
    Effect.gen(function* () {
      const { counters } = yield* Ingest
      const lanes = yield* Lanes
      const samples: Array<Sample> = []

      const sample = Effect.gen(function* () {
        const now = yield* lanes.status
        const durations = new Map(now.map(({ name, durations: { counts } }) => [name, [...counts]]))
        samples.push({ at: yield* Clock.currentTimeMillis, totals: totalsOf(counters, now), durations })
        if (samples.length > steps + 1) samples.shift()
      })
      // The journal reports its own errors; the next step is longer then.
      yield* Effect.forkScoped(Effect.repeat(Effect.ignore(sample), Schedule.fixed(every)))

      const column = (of: keyof Totals): ReadonlyArray<number> =>
        samples.slice(1).map(({ totals }, index) => more(totals[of], samples[index]?.totals[of] ?? 0))

      return History.of({
        report: Effect.sync(() => ({
          at: samples.slice(1).map(({ at }) => at),
          received: column("received"),
          delivered: column("delivered"),
          refused: column("refused"),
          failed: column("failed"),
        })),
        p99: ({ name, durations: { counts } }) => {
          const before = samples.at(-recent - 1) ?? samples[0]
          const known = before?.durations.get(name)
          return percentile99(counts.map((count, index) => more(count, known?.[index] ?? 0)))
        },
      })
    }),
  )
}
