import { describe, expect } from "bun:test"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Ledger } from "../../src/delivery/Ledger.ts"
import type { OpenedLane } from "../../src/journal/Journal.ts"
import * as WallClock from "../../src/journal/WallClock.ts"
import { event, waiting } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"

const state = (sequences: ReadonlyArray<number>): OpenedLane => ({
  name: "lake",
  cursor: { sequence: 10, settled: [] },
  parked: sequences.length,
  pausedFor: 0,
  waiting: sequences.map((sequence) => waiting(sequence, "acct_1")),
  deadLetters: 0,
  deadLetterBytes: 0,
  backlog: sequences.length,
  paused: false,
})

const failed = { at: 5, reason: "DeliveryFailed", message: "the sink answered 500" }

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
    ledger.park(item(1), failed, 0)
    ahead = 0
    yield* TestClock.adjust("1 second")
    expect(ledger.age(item(1))).toBe(1_000)
  }),
)

// Found by the simulation: a reload while the clock was wrong made lanes that aged what was parked by the error.
it.effect("nor by a reload meanwhile: a lane that it makes tells ages as the one before", () =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const ahead = { ...clock, currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + 3_600_000 }
    const { start } = WallClock.make(clock)
    const before = new Ledger(state([]), "lake", clock, 1, start)
    const reloaded = new Ledger(state([]), "lake", ahead, 1, start)
    yield* TestClock.adjust("1 second")
    expect(reloaded.steady()).toBe(before.steady())
  }),
)

describe("a lane that takes over what was parked in another", () => {
  it.effect("knows what is new to it, once", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([1]), "lake", yield* Clock.Clock, 1)
      ledger.adopt(state([1, 2]).waiting)
      ledger.adopt(state([1, 2]).waiting)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([1, 2])
    }),
  )

  it.effect("does not take back what it has just delivered or buried, which the journal still has", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([1, 2, 3]), "lake", yield* Clock.Clock, 1)
      ledger.delivered(item(1))
      ledger.bury(item(2), failed)
      ledger.adopt(state([1, 2, 3]).waiting)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([3])
    }),
  )

  // Found by the simulation (seed 900000663): it parked the event once more, which the journal no longer had.
  it.effect("nor while that is being stored, and again once it could not be", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([1, 2, 3]), "lake", yield* Clock.Clock, 1)
      ledger.delivered(item(1))
      ledger.bury(item(2), failed)
      const settlement = ledger.takeChanges()
      ledger.adopt(state([1, 2, 3]).waiting)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([3])
      if (settlement !== undefined) ledger.restore(settlement)
      ledger.adopt(state([1, 2, 3]).waiting)
      expect([...ledger.parking.all()].map(({ sequence }) => sequence)).toEqual([3])
    }),
  )

  it.effect("goes on with an event that it has in hand itself, and lets the parked one go", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([]), "lake", yield* Clock.Clock, 1)
      ledger.window.take(11)
      ledger.adopt(state([11, 12]).waiting)
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

describe("a wait", () => {
  // Found by the simulation (seed 477000503): one such event kept every lane's progress from being stored.
  it.effect("of a fraction of a millisecond, as a sink may ask for, is stored as whole ones", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([]), "lake", yield* Clock.Clock, 1)
      ledger.park(item(11), failed, 64.57)
      const [parked] = ledger.takeChanges()?.park ?? []
      expect(parked).toMatchObject({ delay: 65, due: ledger.wall() + 65 })
    }),
  )
})

describe("what the journal is told of failed attempts", () => {
  const attempt = (message: string) => ({ ...failed, message })

  it.effect("is each of them once, also where one settlement could not be stored", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([]), "lake", yield* Clock.Clock, 1)
      ledger.park(item(11), attempt("first"), 0)
      const lost = ledger.takeChanges()
      ledger.park(item(11), attempt("second"), 0)
      if (lost !== undefined) ledger.restore(lost)
      ledger.park(item(11), attempt("third"), 0)
      expect(ledger.takeChanges()?.park).toMatchObject([
        { sequence: 11, tried: 3, failed: [{ message: "first" }, { message: "second" }, { message: "third" }] },
      ])
      ledger.stored()
      ledger.bury(item(11), attempt("last"))
      expect(ledger.takeChanges()?.bury).toMatchObject([{ sequence: 11, failed: [{ message: "last" }] }])
    }),
  )

  it.effect("is no longer than a person reads", () =>
    Effect.gen(function* () {
      const ledger = new Ledger(state([]), "lake", yield* Clock.Clock, 1)
      expect(ledger.failed("DeliveryFailed", "x".repeat(1_000_000)).message.length).toBe(1_000)
    }),
  )
})
