/**
 * Seeded fuzzing in this process: 10,000 rounds of each kind, a million in the long run.
 *
 * **Guarantee.** Nothing throws, everything that an oracle refuses is refused, and the campaign's seed repeats a failed
 * round.
 */
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import { Configs } from "./fuzz/Configs.ts"
import { Deliveries } from "./fuzz/Deliveries.ts"
import { Expressions } from "./fuzz/Expressions.ts"
import { Json } from "./fuzz/Json.ts"
import { Patterns } from "./fuzz/Patterns.ts"
import { type Found, type Fuzz, make } from "./fuzz/Random.ts"
import { Templates } from "./fuzz/Templates.ts"

const enough = 5

const run = async (fuzz: Fuzz, options: Options): Promise<Outcome> => {
  const { long, seed } = options
  const round = await fuzz.open()
  const rounds = long ? 1_000_000 : 10_000
  const sides = new Map<string, number>(fuzz.sides.map((side) => [side, 0]))
  const broken: Array<string> = []
  let done = 0
  for (; done < rounds && broken.length < enough && !isEnough(options, broken.length); done++) {
    // Each round has its own seed, so that it can be run alone.
    const random = make(seed * 1_000_003 + done)
    let found: Found
    try {
      found = await round(random)
    } catch (error) {
      found = { side: "", wrong: `it threw: ${error instanceof Error ? error.stack : error}` }
    }
    sides.set(found.side, (sides.get(found.side) ?? 0) + 1)
    if (found.wrong !== undefined) broken.push(`round ${done}: ${found.wrong}`)
  }
  // A fuzz that hardly ever takes a side would not notice a fault there.
  if (broken.length === 0) {
    for (const side of fuzz.sides) if ((sides.get(side) ?? 0) < rounds / 200) broken.push(`hardly ever: ${side}`)
  }
  const notes = [[...sides].map(([side, count]) => `${side} ${count}`).join(", ")]
  return { rounds: done, acknowledged: 0, lost: 0, duplicates: 0, broken, notes }
}

export const lines: ReadonlyArray<Line> = [Deliveries, Json, Patterns, Templates, Expressions, Configs].map((fuzz) => ({
  name: fuzz.name,
  fault: fuzz.fault,
  run: (options) => run(fuzz, options),
}))
