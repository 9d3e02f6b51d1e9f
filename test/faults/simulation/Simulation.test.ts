import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { tries } from "../../lib/tries.ts"
import type { Planted } from "./Life.ts"
import { simulate } from "./Simulation.ts"

const seeds = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, index) => index + 1)

/** The first broken rule within a few seeds. */
const found = (planted: Planted): string => {
  for (const seed of seeds(30)) {
    const [broken] = simulate(seed, planted).broken
    if (broken !== undefined) return broken
  }
  return "nothing"
}

describe("the simulation", () => {
  test("finds every promise kept, whatever happens in a few seeds", () => {
    const verdicts = seeds(tries(12)).map((seed) => simulate(seed))
    expect(verdicts.flatMap(({ broken }) => broken)).toEqual([])
    expect(verdicts.reduce((sum, { acknowledged }) => sum + acknowledged, 0)).toBeGreaterThan(tries(500))
    // A second or two; a busy machine must not fail it.
  }, 60_000)

  test("runs a seed the same way each time, to the last step", () => {
    for (const seed of seeds(tries(5))) expect(simulate(seed)).toEqual(simulate(seed))
  })

  test("notices a journal that forgets dead letters", () => {
    const forgetful: Planted = (journal) => ({
      ...journal,
      settle: (settlements) => journal.settle(settlements.map((settlement) => ({ ...settlement, deadLetter: [] }))),
    })
    expect(found(forgetful)).toContain("was promised an event that it never got")
  })

  test("notices a journal that says it kept what it did not", () => {
    let count = 0
    const careless: Planted = (journal) => ({
      ...journal,
      append: (event, sinks) => (++count % 50 === 0 ? Effect.succeed("appended") : journal.append(event, sinks)),
    })
    // If a lost event is sent again first, its duplicate is reported instead.
    expect(found(careless)).toMatch(/was promised an event that it never got|a duplicate was kept as an event/)
  })

  test("notices a byte that changed on its way", () => {
    const damaging: Planted = (journal) => ({
      ...journal,
      read: (after, limit) =>
        Effect.map(journal.read(after, limit), (entries) =>
          entries.map((entry) =>
            entry.sequence === 7 ? { ...entry, event: { ...entry.event, body: entry.event.body.slice(1) } } : entry,
          ),
        ),
    })
    expect(found(damaging)).toContain("has a body that nobody sent")
  })
})
