import { expect, test } from "bun:test"
import { heldStatus, laneStates } from "../../../src/journal/stream/SearchResult.ts"
import { attempts } from "../samples.ts"
import { cursorOf, forSeeds, lanes } from "./policies.ts"

const sequence = 7
const why = { sequence, at: 9, note: { by: "ann" } }

test("an event has one state at each lane that it was routed to, holds it, or held it", () => {
  forSeeds(100, (random) => {
    const sinks = random.some(lanes)
    const held = new Map(random.some(lanes).map((lane) => [lane, heldStatus(lane, { due: 5 }, attempts)]))
    const dropped = random.some([...lanes, "gone"])
    const cursors = new Map(random.some(lanes).map((lane) => [lane, cursorOf(random, 12)]))
    const { deliveries } = laneStates(sequence, sinks, {
      held,
      ended: dropped.map((lane) => ({ ...why, lane, outcome: "dropped" })),
      cursorOf: (lane) => cursors.get(lane),
      deliveryOf: () => undefined,
    })
    const names = deliveries.map(({ sink }) => sink)
    expect(names.toSorted()).toEqual([...new Set([...sinks, ...held.keys(), ...dropped])].toSorted())
    for (const { sink, outcome } of deliveries) if (held.has(sink)) expect(outcome).toBe("retrying")
  })
})

test("an event of a renamed lane has the new name, with the records under the former name", () => {
  const { deliveries } = laneStates(sequence, ["lake", "pond"], {
    held: new Map(),
    ended: [],
    cursorOf: (lane) => (lane === "sea" ? { sequence: 9, settled: [] } : undefined),
    deliveryOf: (isName) => (isName("lake") ? { at: 3, took: 2 } : undefined),
    laneOf: (name) => (name === "lake" ? "sea" : ""),
    nameOf: (name) => (name === "lake" ? "sea" : "lagoon"),
  })
  expect(deliveries).toEqual([
    { sink: "sea", outcome: "delivered", tries: 1, at: 3, took: 2, attempts: [] },
    // Its lane was removed, after a rename.
    { sink: "lagoon", outcome: "laneRemoved", attempts: [] },
  ])
})

test("a copy names its original, and doesn't have its outcome", () => {
  const states = laneStates(sequence, ["lake"], {
    held: new Map(),
    ended: [{ ...why, sequence: 2, lane: "lake", outcome: "replayed", copy: sequence }],
    cursorOf: () => ({ sequence: 9, settled: [] }),
    deliveryOf: () => ({ at: 3, took: 2 }),
  })
  expect(states).toEqual({
    deliveries: [{ sink: "lake", outcome: "delivered", tries: 1, at: 3, took: 2, attempts: [] }],
    copyOf: { sequence: 2, at: 9, by: "ann" },
  })
})
