/**
 * The counts of the last hour, for graphs and for the status. Prometheus has older
 * counts.
 *
 * **Guarantee.** Its size is fixed, and it costs nothing per event: every ten
 * seconds it reads the counts of ingest and the lanes. A restart continues it,
 * because the journal keeps it.
 *
 * **Gotcha.** A crash loses the counts of the last ten seconds. A stop loses the
 * counts of attempts that end while the relay drains.
 */

import { Clock, Context, Duration, Effect, Layer, Option, Schedule, Schema } from "effect"
import { sumAll } from "effect/Number"
import type { LaneStatus } from "../../delivery/LaneStatus.ts"
import { Lanes } from "../../delivery/Lanes.ts"
import { durationBuckets, latencyBuckets } from "../../delivery/lane/InFlight.ts"
import type { EpochMillis, Millis } from "../../event/Quantities.ts"
import type { Counters } from "../../ingest/Counters.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import { Archive } from "../../journal/Archive.ts"
import { RelayInfo } from "../RelayInfo.ts"
import { type Bound, type Hour, type LaneHistory, RelayHistory as Report, type Totals } from "./Status.ts"

/**
 * Returns the bound of the bucket with the 99th percentile of durations, or `undefined` without durations. A value within
 * the bucket would be a guess.
 */
export const percentile99 = (counts: ReadonlyArray<number>, buckets: ReadonlyArray<number>): Bound | undefined => {
  const all = sumAll(counts)
  if (all === 0) return undefined
  let below = 0
  for (const [index, bound] of buckets.entries()) {
    below += counts[index] ?? 0
    if (below >= all * 0.99) return { millis: 1_000 * bound }
  }
  return { millis: 1_000 * Math.max(...buckets), isAbove: true }
}

interface LaneStep {
  readonly at: EpochMillis
  readonly delivered: number
  readonly failed: number
  readonly backlog: number
  readonly p99: Millis | null
}

interface Counted {
  readonly delivered: number
  readonly failed: number
  readonly durations: ReadonlyArray<number>
}

/** Returns the increase of a count. If the count was reset, returns its whole value. */
const more = (now: number, before: number): number => (now >= before ? now - before : now)

const increase = (now: ReadonlyArray<number>, before: ReadonlyArray<number> = []): ReadonlyArray<number> =>
  now.map((count, index) => more(count, before[index] ?? 0))

const nothing: Counted = { delivered: 0, failed: 0, durations: [] }

const countedOf = ({ attempts, durations: { counts } }: LaneStatus): Counted => {
  const { delivered = 0, ...failures } = attempts
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  return { delivered, failed, durations: [...counts] }
}

interface Lane {
  since: EpochMillis
  readonly steps: Array<LaneStep>
  last: Counted
}

/**
 * The steps of each lane in the last hour, for its charts. They are kept only in memory, at most 360 for each lane.
 */
class LaneSteps {
  readonly #lanes = new Map<string, Lane>()
  readonly #most: number
  #at: EpochMillis

  /** `start` is the time at which the first step began. */
  constructor(start: EpochMillis, most: number) {
    this.#at = start
    this.#most = most
  }

  /** Ends a step at `at`, and forgets lanes that no longer exist. */
  add(at: EpochMillis, statuses: ReadonlyArray<LaneStatus>): void {
    const names = new Set(statuses.map(({ name }) => name))
    for (const name of this.#lanes.keys()) if (!names.has(name)) this.#lanes.delete(name)
    for (const status of statuses) {
      const now = countedOf(status)
      const lane: Lane = this.#lanes.get(status.name) ?? { since: this.#at, steps: [], last: nothing }
      const { last, steps } = lane
      steps.push({
        at,
        delivered: more(now.delivered, last.delivered),
        failed: more(now.failed, last.failed),
        backlog: status.backlog,
        p99: percentile99(increase(now.durations, last.durations), durationBuckets)?.millis ?? null,
      })
      if (steps.length > this.#most) lane.since = steps.shift()?.at ?? lane.since
      lane.last = now
      this.#lanes.set(status.name, lane)
    }
    this.#at = at
  }

  /** Returns a lane's steps. There are none for a lane that did not exist at the end of a step. */
  report(name: string): LaneHistory {
    const lane = this.#lanes.get(name) ?? { since: this.#at, steps: [] }
    const column = <K extends keyof LaneStep>(of: K) => lane.steps.map((step) => step[of])
    return {
      since: lane.since,
      at: column("at"),
      delivered: column("delivered"),
      failed: column("failed"),
      backlog: column("backlog"),
      p99: column("p99"),
    }
  }
}

const every = Duration.seconds(10)
const hour = 3_600_000
/** Maximum steps that are kept, however the clock is set. */
const most = hour / Duration.toMillis(every)
/** Largest correction of the clock, in milliseconds, that discards no step. */
const tolerance = 60_000
/** Steps over which a percentile is computed: five minutes. */
const recent = 30

const names = ["received", "delivered", "refused", "failed"] as const satisfies ReadonlyArray<keyof Totals>

/** Makes a value for each of the counts. */
const each = <A>(value: (of: keyof Totals) => A): Record<keyof Totals, A> => ({
  received: value("received"),
  delivered: value("delivered"),
  refused: value("refused"),
  failed: value("failed"),
})

export const totalsOf = ({ webhooks }: Counters, attempts: ReadonlyArray<LaneStatus["attempts"]>): Totals => {
  const totals = each(() => 0)
  for (const { answers } of webhooks.values()) {
    for (const [status, count] of answers) totals[status < 300 ? "received" : "refused"] += count
  }
  for (const outcomes of attempts) {
    for (const [outcome, count] of Object.entries(outcomes)) {
      totals[outcome === "delivered" ? "delivered" : "failed"] += count
    }
  }
  return totals
}

/** The counts of a step, and the time when it ended. */
interface Step extends Totals {
  readonly at: EpochMillis
}

const stepOf = (at: EpochMillis, now: Totals, before: Totals): Step => ({ at, ...each((of) => now[of] - before[of]) })

/** The steps of an hour, and the time when they begin. */
class Steps {
  steps: Array<Step> = []
  since: EpochMillis

  constructor(start: EpochMillis, kept?: Report) {
    this.since = start
    // If the clock was set back, the age of the kept steps is unknown.
    if (kept !== undefined && kept.since <= start && kept.at.every((end) => end <= start)) {
      this.since = kept.since
      this.steps = kept.at.map((at, index) => ({ at, ...each((of) => kept[of][index] ?? 0) }))
    }
    this.forget(start)
  }

  add(step: Step): void {
    this.steps.push(step)
    this.forget(step.at)
  }

  forget(now: EpochMillis): void {
    // A step from a clock that was ahead would prevent later steps from being discarded.
    this.steps = this.steps.filter(({ at }) => at <= now + tolerance)
    const first = this.steps.findIndex(({ at }) => at > now - hour)
    const old = Math.max(first === -1 ? this.steps.length : first, this.steps.length - most)
    this.since = Math.min(this.steps[old - 1]?.at ?? this.since, now)
    this.steps.splice(0, old)
  }

  get report(): Report {
    const column = (of: keyof Step) => this.steps.map((step) => step[of])
    return { since: this.since, at: column("at"), ...each(column) }
  }
}

const Stored = Schema.fromJsonString(Report)

/** The counts of each sink's histograms. */
type Counts = ReadonlyMap<string, Record<"durations" | "latencies", ReadonlyArray<number>>>

export class History extends Context.Service<
  History,
  {
    readonly report: Effect.Effect<Report>
    /** The counts of the last hour up to now. */
    readonly hour: Effect.Effect<Hour>
    /** The 99th percentiles of the last five minutes: of the attempts' durations, and of the time until delivery. */
    readonly percentiles: (lane: LaneStatus) => { readonly p99?: Bound; readonly latency?: Bound }
    /** The steps of a lane in the last hour. */
    readonly lane: (name: string) => LaneHistory
  }
>()("relay/admin/History") {
  static readonly layer = Layer.effect(
    History,
    Effect.gen(function* () {
      const { counters } = yield* Ingest
      const lanes = yield* Lanes
      const stored = (yield* Archive).hour
      const known = yield* stored.read
      // All counts start with the process, even before this layer was built.
      const kept = new Steps(
        (yield* RelayInfo).startedAt,
        known === undefined ? undefined : Option.getOrUndefined(Schema.decodeOption(Stored)(known)),
      )
      const total = () => totalsOf(counters, lanes.counted())
      let last: Totals = each(() => 0)
      const counts: Array<Counts> = []
      const laneSteps = new LaneSteps((yield* RelayInfo).startedAt, most)

      const sample = Effect.gen(function* () {
        const now = yield* lanes.status
        const counted = total()
        const step = stepOf(yield* Clock.currentTimeMillis, counted, last)
        last = counted
        kept.add(step)
        laneSteps.add(step.at, now)
        counts.push(
          new Map(
            now.map(({ name, durations, latencies }) => [
              name,
              { durations: [...durations.counts], latencies: [...latencies.counts] },
            ]),
          ),
        )
        if (counts.length > recent + 1) counts.shift()
        if (names.some((of) => step[of] > 0)) yield* stored.replace(Schema.encodeSync(Stored)(kept.report))
      })
      yield* Effect.addFinalizer(() => Effect.ignore(sample))
      // The journal reports its own errors. The next step is then longer.
      yield* Effect.forkScoped(Effect.repeat(Effect.ignore(sample), Schedule.spaced(every)).pipe(Effect.delay(every)))

      return History.of({
        report: Effect.sync(() => kept.report),
        lane: (name) => laneSteps.report(name),
        hour: Effect.gen(function* () {
          const at = yield* Clock.currentTimeMillis
          kept.forget(at)
          const steps = [...kept.steps, stepOf(at, total(), last)]
          const counted = each((of) => sumAll(steps.map((step) => step[of])))
          return { since: Math.max(kept.since, at - hour), ...counted }
        }),
        percentiles: ({ name, durations, latencies }) => {
          const before = (counts.at(-recent - 1) ?? counts[0])?.get(name)
          const p99 = percentile99(increase(durations.counts, before?.durations), durationBuckets)
          const latency = percentile99(increase(latencies.counts, before?.latencies), latencyBuckets)
          return { ...(p99 !== undefined && { p99 }), ...(latency !== undefined && { latency }) }
        },
      })
    }),
  )
}
