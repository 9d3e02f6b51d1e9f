/** A thousand seeds, one after the other; the first three that fail are reported. */
import { isEnough, type Line, type Outcome } from "../Line.ts"
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
    for (; rounds < seeds && broken.length < reported && !isEnough(options, broken.length); rounds++) {
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
    return { rounds, acknowledged, lost, duplicates, bound, broken }
  },
}

export const lines: ReadonlyArray<Line> = [simulation]
export { mutants }
