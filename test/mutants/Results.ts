/** The results of mutants, as docs/evidence/mutants.json has them. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type Module, type Mutant, modules } from "./Draw.ts"
import { explanationOf } from "./Explained.ts"
import type { Kind } from "./Places.ts"
import type { Reaching } from "./Reach.ts"

export interface Result {
  readonly module: Module
  readonly file: string
  readonly line: number
  readonly column: number
  /** The source's line, without its indent. */
  readonly code: string
  readonly kind: Kind
  readonly was: string
  readonly becomes: string
  /** "stopped" ran into the limit of time or memory, which counts as noticed. */
  readonly verdict: "killed" | "stopped" | "survived" | "unreached"
  /** The failed test. */
  readonly by?: string
  /** The file of that test. */
  readonly byFile?: string
  /** Why `--again` leaves the mutant out. */
  readonly notAgain?: string
  /** Why a survivor changes nothing that a test should notice. */
  readonly why?: string
  /** A hash of the changed source. */
  readonly state: string
  /** A hash of the tests that did not notice it. */
  readonly tests?: string
}

export interface Score {
  readonly mutants: number
  readonly noticed: number
  readonly explained: number
}

export interface Evidence {
  readonly command: string
  readonly seed: number
  readonly scores: Readonly<Partial<Record<Module, Score>>>
  /** Survivors without an explanation. */
  readonly unexplained: number
  readonly mutants: ReadonlyArray<Result>
}

export const isNoticed = ({ verdict }: Pick<Result, "verdict">): boolean =>
  verdict === "killed" || verdict === "stopped"

const hashOf = (texts: ReadonlyArray<string>): string => Bun.hash(texts.join("\0")).toString(36)

export const stateOf = ({ file, text }: Mutant): string => hashOf([file, text])

export const testsOf = (root: string, tests: ReadonlyArray<Reaching>): string =>
  hashOf(
    tests
      .map(({ file }) => file)
      .toSorted()
      .map((file) => readFileSync(join(root, file), "utf8")),
  )

/** The result of an earlier run, if neither the source nor, for a survivor, its tests have changed. */
export const knownOf = (before: Evidence | undefined, state: string, tests: string): Result | undefined =>
  before?.mutants.find((one) => one.state === state && (isNoticed(one) || one.tests === tests))

export const evidenceOf = (seed: number, all: ReadonlyArray<Result>): Evidence => {
  const mutants = all.map((result): Result => {
    const why = isNoticed(result) ? undefined : explanationOf(result)
    const { why: _, ...rest } = result
    return why === undefined ? rest : { ...rest, why }
  })
  const scoreOf = (module: Module): Score => {
    const own = mutants.filter((one) => one.module === module)
    return {
      mutants: own.length,
      noticed: own.filter(isNoticed).length,
      explained: own.filter(({ why }) => why !== undefined).length,
    }
  }
  return {
    command: `bun run mutants --seed ${seed} --count ${mutants.length}`,
    seed,
    scores: Object.fromEntries(modules.map((module) => [module, scoreOf(module)])),
    unexplained: mutants.filter((one) => !isNoticed(one) && one.why === undefined).length,
    mutants,
  }
}
