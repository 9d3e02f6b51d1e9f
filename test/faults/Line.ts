/** A line of the fault campaign: one fault, its losses and repeats, and the verdict. */

export interface Options {
  /** Hours instead of minutes: the figures of a release. */
  readonly long: boolean
  /** Seed of a line's random draws: the same seed repeats the same run. */
  readonly seed: number
  /** The compiled relay; without it the relay runs from source. */
  readonly binary?: string
  /** The first finding is enough: see `isEnough`. */
  readonly bail?: boolean
}

/** Reports whether a line may end before its last round. */
export const isEnough = ({ bail }: Options, broken: number): boolean => bail === true && broken > 0

/**
 * Lines that measure no time, so others may run beside them: the simulation has its own clock. The simulations of
 * fleets aren't here, because their database answers in real time, and late on a busy machine. `fuzz` stands for all
 * that begin with `fuzz-`.
 */
export const timeless = ["simulation", "fuzz", "damaged-journal"]

export const means = (only: string, name: string): boolean => name === only || name.startsWith(`${only}-`)

export interface Outcome {
  readonly rounds: number
  /** Deliveries that were answered 2xx. */
  readonly acknowledged: number
  /** Acknowledged, and neither at every sink they were routed to nor in its dead letters. */
  readonly lost: number
  /** The most that one fault repeated at a sink. */
  readonly duplicates: number
  /** The most it may repeat, as the relay reports it. `undefined` if the line repeats nothing by design. */
  readonly bound?: number
  /** Other violations, as sentences. A line with any of them fails. */
  readonly broken: ReadonlyArray<string>
  /** Other measurements, for the reader: "p99 12 ms", "WAL 8 MiB". */
  readonly notes?: ReadonlyArray<string>
  /** Why it could not run on this machine; shown, and counted as skipped. */
  readonly skipped?: string
}

export interface Line {
  /** Its name for `--only`: `kill-9`, `disk-full`. */
  readonly name: string
  /** The fault in a few words. */
  readonly fault: string
  readonly run: (options: Options) => Promise<Outcome>
}

/** A guard removed on purpose: its line must fail, or it proves nothing. */
export interface Mutant {
  /** The guard that is gone, as a sentence: "a commit is answered before its fsync". */
  readonly gone: string
  /** Relative to the project. */
  readonly file: string
  /** Occurs in the file exactly once. */
  readonly find: string
  readonly replace: string
  /** The line that must fail, or a file of tests, relative to the project. */
  readonly line: string
  /** A seed that shows the mutant, if few do. A change to the draws of a seed requires another seed here. */
  readonly seed?: number
}

/** The replacements by their line and by the guard that is gone. */
type Replacements = Readonly<
  Record<string, Readonly<Record<string, readonly [file: string, find: string, replace: string, seed?: number]>>>
>

export const mutantsOf = (all: Replacements): ReadonlyArray<Mutant> =>
  Object.entries(all).flatMap(([line, guards]) =>
    Object.entries(guards).map(([gone, [file, find, replace, seed]]) => ({
      line,
      gone,
      file,
      find,
      replace,
      ...(seed === undefined ? {} : { seed }),
    })),
  )

/** The verdict: empty when the line holds. */
export const failures = (outcome: Outcome): ReadonlyArray<string> => [
  ...(outcome.lost > 0 ? [`${outcome.lost} lost`] : []),
  ...(outcome.bound !== undefined && outcome.duplicates > outcome.bound
    ? [`${outcome.duplicates} repeated, over the bound of ${outcome.bound}`]
    : []),
  ...outcome.broken,
]
