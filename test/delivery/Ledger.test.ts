import { describe, expect } from "bun:test"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Ledger } from "../../src/delivery/Ledger.ts"
import type { LaneState } from "../../src/journal/Journal.ts"
import { attempts, event, parked } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"

const state = (sequences: ReadonlyArray<number>): LaneState => ({
  name: "lake",
  cursor: { sequence: 10, settled: [] },
  parked: sequences.map((sequence) => parked(sequence, "acct_1")),
  deadLetters: 0,
  deadLetterBytes: 0,
  backlog: sequences.length,
  paused: false,
})

const item = (sequence: number) => ({
  entry: { sequence, event: event(`evt_${sequence}`), sinks: ["lake"], replayed: false },
  key: "acct_1",
})

// Found by the simulation: an event that was first tried while the clock was wrong was given up when it was set right.
it.effect("an event grows older by the time that passes, whatever the wall clock is set to meanwhile", () =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    let ahead = 0
    const wall = () => clock.currentTimeMillisUnsafe() + ahead
    const ledger = new Ledger(state([]), "lake", { ...clock, currentTimeMillisUnsafe: wall }, 1)
    yield* TestClock.adjust("1 minute")
    ahead = -3_600_000
    ledger.park(item(1), attempts, 0)
    ahead = 0
    yield* TestClock.adjust("1 second")
    expect(ledger.steady() - ledger.firstAttemptAt(item(1))).toBe(1_000)
  }),
)

describe("a lane that takes over what was parked in another", () => {
  it.effect("knows what is new to it, once", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([1]), "lake", yield* Clock.Clock, 1)
      ledger.adopt(state([1, 2]).parked)
      ledger.adopt(state([1, 2]).parked)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([1, 2])
    }),
  )

  it.effect("does not take back what it has just delivered or buried, which the journal still has", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([1, 2, 3]), "lake", yield* Clock.Clock, 1)
      ledger.delivered(item(1))
      ledger.bury(item(2), [])
      ledger.adopt(state([1, 2, 3]).parked)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([3])
    }),
  )

  it.effect("goes on with an event that it has in hand itself, and lets the parked one go", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([]), "lake", yield* Clock.Clock, 1)
      ledger.window.take(11)
      ledger.adopt(state([11, 12]).parked)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([12])
      expect(ledger.takeChanges()).toMatchObject({ cursor: { sequence: 10 }, unpark: [11] })
    }),
  )

  // Found by the simulation (`bun run faults --only simulation --seed 196`): the event stood parked in
  // memory alone, and every later one of its key behind it.
  it.effect(
    "may have an event in hand itself, and then parks it for good although it has just ended the other one",
    () =>
      Effect.gen(function* () {
        const ledger = new Ledger(state([1]), "lake", yield* Clock.Clock, 1)
        ledger.delivered(item(1))
        ledger.parkBehind(item(1))
        const settlement = ledger.takeChanges()
        expect(settlement?.park.map(({ sequence }) => sequence)).toEqual([1])
        expect(settlement?.unpark).toEqual([])
      }),
  )
})
