/**
 * Rounds of load over several targets, one after the other in each round, so that other load of the machine affects all
 * of them alike. A ratio compares figures of the same round. The result of several rounds is their median.
 */
import { Duration, Effect } from "effect"
import type { BenchError } from "./BenchError.ts"
import type { Load } from "./Load.ts"
import { awaitDelivered, type Target } from "./Target.ts"
import { cpuMicros, memory, pageFaults } from "./Usage.ts"

export interface Run extends Load {
  /** CPU microseconds a request, until all of them were delivered. */
  readonly cpu: number
  /** Page faults a request. */
  readonly faults: number
  /** Garbage collections in a thousand requests. */
  readonly collections: number
  /** The server's highest memory since its start, in MiB. */
  readonly peak: number
  /** Events that the sink did not have yet when the load ended. */
  readonly behind: number
  /** Events that never arrived, and events that arrived more than once. */
  readonly lost: number
  readonly surplus: number
}

export interface Subject {
  readonly target: Target
  readonly runs: ReadonlyArray<Run>
}

/** Puts one target under load. A `round` below 1 warms up. */
export type Drive = (target: Target, round: number) => Effect.Effect<Load, BenchError>

const measure = Effect.fnUntraced(function* (target: Target, load: Effect.Effect<Load, BenchError>) {
  const before = yield* target.delivered ?? Effect.succeed(0)
  const micros = () => cpuMicros(target.pid) + (target.databaseMicros?.() ?? 0)
  const cpuBefore = micros()
  const faultsBefore = pageFaults(target.pid)
  const collectionsBefore = target.collections()
  const done = yield* load
  yield* target.alive
  const accepted = done.requests - done.refused
  const delivered = (yield* target.delivered ?? Effect.succeed(accepted)) - before
  const drained = (yield* awaitDelivered(target, before + accepted)) - before
  const cpu = (micros() - cpuBefore) / done.requests
  const faults = (pageFaults(target.pid) - faultsBefore) / done.requests
  const collections = ((target.collections() - collectionsBefore) * 1000) / done.requests
  // A duplicate may come after the last event was counted.
  yield* Effect.sleep(Duration.millis(250))
  const final = target.delivered === undefined ? accepted : (yield* target.delivered) - before
  const run: Run = {
    ...done,
    cpu,
    faults,
    collections,
    peak: memory(target.pid).peak,
    behind: Math.max(0, accepted - delivered),
    lost: Math.max(0, accepted - drained),
    surplus: Math.max(0, final - accepted),
  }
  return run
})

/**
 * The number of rounds that aren't counted. A relay runs for months, so the compilation in its first 15 seconds is not
 * part of the cost of an event.
 */
const usualWarmups = 4

/** The order of a round. Over the rounds, each of a few names comes as often first as last, and after each other name. */
const turnOf = <Name>(names: ReadonlyArray<Name>, round: number): ReadonlyArray<Name> => {
  const first = (((round >> 1) % names.length) + names.length) % names.length
  const turn = [...names.slice(first), ...names.slice(0, first)]
  return round % 2 === 0 ? turn : turn.toReversed()
}

/** Runs the warm-up, then `rounds` rounds, and further rounds while `isUndecided` returns true. */
export const interleaved = Effect.fnUntraced(function* <const Name extends string>(
  targets: Readonly<Record<Name, Target>>,
  rounds: number,
  prepare: Effect.Effect<void, BenchError>,
  drive: Drive,
  warmups = usualWarmups,
  isUndecided: (subjects: Readonly<Record<Name, Subject>>) => boolean = () => false,
) {
  const names = Object.keys(targets) as Array<Name>
  const runs = new Map<Name, Array<Run>>(names.map((name) => [name, []]))
  const subjects = Object.fromEntries(
    names.map((name): [Name, Subject] => [name, { target: targets[name], runs: runs.get(name) ?? [] }]),
  ) as Record<Name, Subject>
  for (let round = 1 - warmups; round <= rounds || isUndecided(subjects); round++) {
    yield* prepare
    for (const name of turnOf(names, round)) {
      const run = yield* measure(targets[name], drive(targets[name], round))
      if (round > 0) runs.get(name)?.push(run)
    }
    process.stderr.write(round < 1 ? "warm " : `${round} `)
  }
  process.stderr.write("\n")
  return subjects
})

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export const spread = (values: ReadonlyArray<number>): Spread => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (index: number) => sorted[index] ?? Number.NaN
  return { median: at(sorted.length >> 1), min: at(0), max: at(sorted.length - 1) }
}

/** The 95 % confidence interval of the median. It takes values by their rank, so their distribution is irrelevant. */
export const interval = (values: ReadonlyArray<number>): { readonly low: number; readonly high: number } => {
  const sorted = values.toSorted((a, b) => a - b)
  const last = sorted.length - 1
  const away = Math.sqrt(sorted.length)
  const at = (rank: number) => sorted[Math.min(Math.max(rank, 0), last)] ?? Number.NaN
  return { low: at(Math.floor(last / 2 - away)), high: at(Math.ceil(last / 2 + away)) }
}

export const of = (subject: Subject, field: keyof Run): Spread => spread(subject.runs.map((run) => run[field]))

/** Returns this subject's figure divided by the other's, round by round. */
export const ratio = (subject: Subject, other: Subject, field: keyof Run): Spread =>
  spread(subject.runs.map((run, round) => run[field] / (other.runs[round]?.[field] ?? Number.NaN)))

export const total = (subject: Subject, field: keyof Run): number =>
  subject.runs.reduce((sum, run) => sum + run[field], 0)
