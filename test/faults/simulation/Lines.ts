/** A thousand seeds, one after the other; the first three that fail are reported. */
import { failures, isEnough, type Line, type Outcome } from "../Line.ts"
import { mutants } from "./Mutants.ts"
import { simulate } from "./Simulation.ts"

const reported = 3

export const simulation: Line = {
  name: "simulation",
  fault: "crashes, torn commits, bad sinks, clock jumps",
  run: async (options): Promise<Outcome> => {
    const { long, seed } = options
    const seeds = long ? 100_000 : 1_000
    const broken: Array<string> = []
    let [rounds, acknowledged, lost, duplicates, bound] = [0, 0, 0, 0, 0]
    const outcome = (): Outcome => ({ rounds, acknowledged, lost, duplicates, bound, broken })
    const isOver = (): boolean => broken.length >= reported || isEnough(options, failures(outcome()).length)
    for (; rounds < seeds && !isOver(); rounds++) {
      const verdict = simulate(seed + rounds)
      acknowledged += verdict.acknowledged
      lost += verdict.lost
      // The worst of all, beside the bound that it was held against.
      if (verdict.duplicates > duplicates) {
        duplicates = verdict.duplicates
        bound = verdict.bound
      }
      for (const text of verdict.broken) broken.push(`seed ${seed + rounds}: ${text}`)
    }
    return outcome()
  },
}

export const lines: ReadonlyArray<Line> = [simulation]
export { mutants }
