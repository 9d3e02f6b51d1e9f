/**
 * Compares the cost of an event with that in another build. At each sink
 * three relays take turns: this build, and the other one twice. The ratio of the
 * two that are the same is the run's noise, and rounds are added until it is
 * small.
 */
import { Effect, type Scope } from "effect"
import { unavailable } from "../parts/Kafka.ts"
import { missing } from "../parts/Postgres.ts"
import { BenchError } from "./BenchError.ts"
import * as Fleet from "./Fleet.ts"
import * as Kafka from "./Kafka.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import { type Options, saturate } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { atLeast, complete } from "./Verdicts.ts"

/** If a build's ratio to itself is larger, ratios of two builds can't be judged. */
export const mostNoise = 1.02
/** Fewer rounds say nothing about the noise. */
const fewestRounds = 5
/** Rounds at each sink before it is too noisy to measure. */
export const mostRounds = 30
/** The largest ratio of CPU an event that passes for the same cost. */
export const usualBound = 1.03

interface Trio<A> {
  readonly other: A
  readonly again: A
  readonly now: A
}

type Subjects = Trio<Rounds.Subject>

type Make = (setup: Target.Setup, name: string) => Effect.Effect<Target.Target, BenchError, Scope.Scope>

interface Row {
  /** Why this machine can't measure it. */
  readonly lacking: string | undefined
  /** Starts the broker that the three relays share, if they need one. */
  readonly make: Effect.Effect<Make, BenchError, Scope.Scope>
}

const plain = (make: Make): Row => ({ lacking: undefined, make: Effect.succeed(make) })

const rows: Readonly<Record<string, () => Row>> = {
  file: () => plain((setup, name) => Target.relayToFile(setup, name)),
  http: () => plain((setup, name) => Target.relayToHttp(setup, name)),
  kafka: () => ({
    lacking: unavailable(),
    make: Effect.map(Kafka.broker, (broker) => (setup, name) => Kafka.relay(setup, name, broker)),
  }),
  postgres: () => ({ lacking: missing(), make: Effect.succeed(Fleet.relayToHttp) }),
}

const cpus = ({ runs }: Rounds.Subject): ReadonlyArray<number> => runs.map(({ cpu }) => cpu)

const ratios = (of: ReadonlyArray<number>, base: ReadonlyArray<number>): ReadonlyArray<number> =>
  of.map((value, round) => value / (base[round] ?? Number.NaN))

/**
 * How far from 1, in either direction, the ratio of the other build to itself may
 * be. A median by itself would pass by luck: it is 1 sooner or later.
 */
export const noiseOf = ({ other, again }: Subjects): number => {
  const { low, high } = Rounds.interval(ratios(cpus(again), cpus(other)))
  return Math.max(high, 1 / low)
}

/** This build's ratio to the mean of the other's two relays, by round. */
const costOf = ({ now, other, again }: Subjects): Rounds.Spread => {
  const second = cpus(again)
  const base = cpus(other).map((cpu, round) => (cpu + (second[round] ?? Number.NaN)) / 2)
  return Rounds.spread(ratios(cpus(now), base))
}

const isNoisy = (subjects: Subjects): boolean =>
  subjects.now.runs.length < fewestRounds || !(noiseOf(subjects) <= mostNoise)

/** Whether another round is needed. */
export const isUndecided = (subjects: Subjects): boolean => isNoisy(subjects) && subjects.now.runs.length < mostRounds

export const costVerdict = (name: string, subjects: Subjects, bound: number): Report.Verdict => {
  const { median, min, max } = costOf(subjects)
  const isMeasured = !isNoisy(subjects)
  const cost = `${median.toFixed(3)}× [${min.toFixed(2)}..${max.toFixed(2)}]`
  return {
    requirement: `${name}: CPU an event of the other's ≤ ${bound}×`,
    measured: `${cost}; the other of itself within ${noiseOf(subjects).toFixed(3)}×, ${subjects.now.runs.length} rounds`,
    ok: isMeasured && median <= bound,
    unmeasured: !isMeasured,
  }
}

const measure = Effect.fnUntraced(function* (
  options: Options,
  other: Target.Setup,
  name: string,
  row: Row,
  bound: number,
) {
  const make = yield* row.make
  const subjects = yield* saturate(
    options,
    {
      other: yield* make(other, `other, ${name}`),
      again: yield* make(other, `other again, ${name}`),
      now: yield* make(options, `this, ${name}`),
    },
    isUndecided,
  )
  const { other: then, again, now } = subjects
  process.stdout.write(Report.scenario(`Two builds, ${name}; closed loop`, [then, again, now], [then]))
  return [
    costVerdict(name, subjects, bound),
    // A rate differs more between rounds than CPU does.
    {
      ...atLeast(`${name}: events/s of the other's`, 0.9, Rounds.ratio(now, then, "rate")),
      unmeasured: isNoisy(subjects),
    },
    complete(now, true),
  ]
}, Effect.scoped)

/** Returns the verdicts on each sink of `list`, or on all of them. */
export const against = Effect.fnUntraced(function* (
  options: Options,
  command: ReadonlyArray<string>,
  list: string | undefined,
  bound: number,
) {
  const verdicts: Array<Report.Verdict> = []
  for (const name of list?.split(",") ?? Object.keys(rows)) {
    const row = rows[name]?.()
    if (row === undefined) {
      const known = Object.keys(rows).join(", ")
      return yield* new BenchError({ message: `--rows with --against takes ${known}, not ${name}` })
    }
    if (row.lacking === undefined) {
      verdicts.push(...(yield* measure(options, { ...options, command }, name, row, bound)))
    } else {
      verdicts.push({ requirement: `${name}: measured`, measured: row.lacking, ok: false, unmeasured: true })
    }
  }
  return verdicts
})
