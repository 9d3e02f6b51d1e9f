import { expect, test } from "bun:test"
import { chooseImports, importedLetters } from "../../../src/journal/archive/Imports.ts"
import { attempts, event } from "../samples.ts"
import { forSeeds, lanes } from "../stream/policies.ts"

test("imports each event once for each lane, however often and in whatever parts", () => {
  forSeeds(100, (random) => {
    const events = Array.from({ length: 12 }, (_, index) => ({
      sequence: 1 + random.below(8),
      event: event(`evt_${index}`, random.below(4) === 0 ? { problem: "no route" } : {}),
      replayed: random.below(4) === 0,
      pending: random.some(lanes),
      ...(random.below(3) === 0 && { dead: { at: 5, attempts } }),
    }))
    const received = new Set(random.some(events))
    const notes = new Map<number, ReadonlySet<string>>()
    const imported: Array<string> = []
    let known = 0
    for (const part of [events.slice(0, 5), events.slice(5), events]) {
      const choice = chooseImports(
        part,
        (sequence) => notes.get(sequence) ?? [],
        (one) => received.has(one as (typeof events)[number]),
      )
      const { chosen } = choice
      for (const [sequence, lanes] of choice.lanesOf) notes.set(sequence, lanes)
      imported.push(...chosen.flatMap(({ sequence, pending }) => pending.map((lane) => `${lane}:${sequence}`)))
      for (const { dead, pending, sinks } of chosen) expect(sinks).toEqual(dead === undefined ? pending : [])
      known += choice.known
    }
    const isWanted = ({ dead, replayed, event }: (typeof events)[number], one: (typeof events)[number]) =>
      dead !== undefined || replayed || event.problem !== undefined || !received.has(one)
    const wanted = events.flatMap((one) =>
      isWanted(one, one) ? one.pending.map((lane) => `${lane}:${one.sequence}`) : [],
    )
    expect(imported.toSorted()).toEqual([...new Set(wanted)].toSorted())
    const asked = events.reduce((sum, { pending }) => sum + pending.length, 0)
    expect(imported.length + known).toBe(2 * asked)
  })
})

test("a dead letter takes its copy's place, once for each lane", () => {
  const dead = { at: 5, attempts }
  const one = { sequence: 3, event: event("evt_1"), replayed: false }
  const chosen = [
    { ...one, pending: ["lake"], sinks: ["lake"] },
    { ...one, pending: ["lake", "mail"], sinks: [], dead },
  ]
  expect(importedLetters(chosen, 7)).toEqual(
    ["lake", "mail"].map((lane) => ({
      ...{ lane, ...dead },
      entry: { sequence: 8, event: one.event, sinks: [lane], replayed: false },
    })),
  )
})
