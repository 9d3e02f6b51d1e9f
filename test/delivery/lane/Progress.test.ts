import { describe, expect } from "bun:test"
import { Clock } from "effect"
import { TestClock } from "effect/testing"
import { LaneClock } from "../../../src/delivery/lane/LaneClock.ts"
import { Progress } from "../../../src/delivery/lane/Progress.ts"
import type { OpenedLane } from "../../../src/journal/Journal.ts"
import * as WallClock from "../../../src/journal/WallClock.ts"
import { event, waiting } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"

const state = (sequences: ReadonlyArray<number>): OpenedLane => ({
  name: "lake",
  cursor: { sequence: 10, settled: [] },
  retrying: sequences.length,
  pausedFor: 0,
  retries: sequences.map((sequence) => waiting(sequence, "acct_1")),
  deadLetters: 0,
  deadLetterBytes: 0,
  returned: 0,
  backlog: sequences.length,
  oldest: Math.min(...sequences),
  paused: false,
})

const progressOf = (sequences: ReadonlyArray<number>, clock: Clock.Clock) =>
  new Progress(state(sequences), "lake", new LaneClock(clock, 0), 1)

const delivery = { at: 6, took: 1 }
const failed = { at: 5, reason: "DeliveryFailed", message: "the sink answered 500" }

const item = (sequence: number) => ({
  entry: { sequence, event: event(`evt_${sequence}`), sinks: ["lake"], replayed: false },
  key: "acct_1",
})

// Found by the simulation: an event whose first attempt was at a wrong time was abandoned when the clock was corrected.
it.effect("an event ages by the monotonic clock, whatever the wall clock is set to", function* () {
  const clock = yield* Clock.Clock
  let ahead = 0
  const wall = () => clock.currentTimeMillisUnsafe() + ahead
  const progress = progressOf([], { ...clock, currentTimeMillisUnsafe: wall })
  yield* TestClock.adjust("1 minute")
  ahead = -3_600_000
  progress.retry(item(1), failed, 0)
  ahead = 0
  yield* TestClock.adjust("1 second")
  expect(progress.age(item(1))).toBe(1_000)
})

// Found by the simulation: after a reload at a wrong time, the new lanes added the clock's error to the age of each
// retry.
it.effect("a reload doesn't change ages either: the new lane continues them", function* () {
  const clock = yield* Clock.Clock
  const ahead = { ...clock, currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + 3_600_000 }
  const { start } = WallClock.make(clock)
  const before = new LaneClock(clock, 0, start)
  const reloaded = new LaneClock(ahead, 0, start)
  yield* TestClock.adjust("1 second")
  expect(reloaded.steady()).toBe(before.steady())
})

describe("a lane that takes over what was retrying in another", () => {
  it.effect("recognizes the events that are new to it, once", function* () {
    const progress = progressOf([1], yield* Clock.Clock)
    progress.adopt(state([1, 2]).retries)
    progress.adopt(state([1, 2]).retries)
    expect([...progress.retries.all()].map(({ sequence }) => sequence)).toEqual([1, 2])
  })

  it.effect("doesn't read again the events that it has just settled, which the journal still has", function* () {
    const progress = progressOf([1, 2, 3], yield* Clock.Clock)
    progress.delivered(item(1), delivery)
    progress.deadLetter(item(2), failed)
    progress.adopt(state([1, 2, 3]).retries)
    expect([...progress.retries.all()].map(({ sequence }) => sequence)).toEqual([3])
  })

  // Found by the simulation (seed 900000663): the retry was stored again although the journal no longer had the event.
  it.effect("doesn't read them while they are being stored, and reads them again if that failed", function* () {
    const progress = progressOf([1, 2, 3], yield* Clock.Clock)
    progress.delivered(item(1), delivery)
    progress.deadLetter(item(2), failed)
    const settlement = progress.takeChanges()
    progress.adopt(state([1, 2, 3]).retries)
    expect([...progress.retries.all()].map(({ sequence }) => sequence)).toEqual([3])
    if (settlement !== undefined) progress.restore(settlement)
    progress.adopt(state([1, 2, 3]).retries)
    expect([...progress.retries.all()].map(({ sequence }) => sequence)).toEqual([3])
  })

  it.effect("keeps an event that it has taken from the log itself, and lets the retrying one go", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.take(item(11).entry)
    progress.adopt(state([11, 12]).retries)
    expect([...progress.retries.all()].map(({ sequence }) => sequence)).toEqual([12])
    expect(progress.takeChanges()).toMatchObject({ cursor: { sequence: 10 }, endRetry: [11] })
  })

  it.effect("keeps its own retry of such an event if the end of the other could not be stored", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.take(item(11).entry)
    progress.adopt(state([11]).retries)
    const lost = progress.takeChanges()
    expect(lost?.endRetry).toEqual([11])
    progress.retry(item(11), failed, 0)
    if (lost !== undefined) progress.restore(lost)
    const settlement = progress.takeChanges()
    expect(settlement?.retry.map(({ sequence }) => sequence)).toEqual([11])
    expect(settlement?.endRetry).toEqual([])
  })

  // Found by the simulation (`bun run faults --only simulation --seed 196`): the event's retry was only in memory, and
  // all later events of its key waited behind it.
  it.effect(
    "may have read an event from the log itself, and stores its retry although the other one ended",
    function* () {
      const progress = progressOf([1], yield* Clock.Clock)
      progress.delivered(item(1), delivery)
      progress.retryBehind(item(1))
      const settlement = progress.takeChanges()
      expect(settlement?.retry.map(({ sequence }) => sequence)).toEqual([1])
      expect(settlement?.endRetry).toEqual([])
    },
  )
})

describe("a dead letter that waits for a retry again", () => {
  it.effect("is stored as a retry alone, also if the settlement that had it as dead could not be stored", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.take(item(11).entry)
    const refused = progress.refused(item(11))
    progress.deadLetter(item(11), failed)
    const lost = progress.takeChanges()
    expect(lost?.deadLetter).toMatchObject([{ sequence: 11 }])
    progress.takeBack(refused)
    if (lost !== undefined) progress.restore(lost)
    expect(progress.takeChanges()).toMatchObject({
      retry: [{ sequence: 11, failed: [{ message: failed.message }] }],
      deadLetter: [],
      takeBack: [],
    })
  })

  it.effect("is taken back by the next settlement if it could not be stored", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.take(item(11).entry)
    const refused = progress.refused(item(11))
    progress.deadLetter(item(11), failed)
    progress.takeChanges()
    progress.stored()
    progress.takeBack(refused)
    const lost = progress.takeChanges()
    if (lost !== undefined) progress.restore(lost)
    expect(progress.takeChanges()).toMatchObject({ takeBack: [{ sequence: 11 }], deadLetter: [] })
  })

  // Otherwise, its lane would look for it in the journal too early, and forget it.
  it.effect("counts as taken back, and a digest as whole, only once the journal has stored it", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    for (const sequence of [11, 12]) progress.take(item(sequence).entry)
    const refused = progress.refused(item(11))
    progress.deadLetter(item(11), failed)
    progress.takeChanges()
    progress.stored()
    progress.takeBack(refused)
    progress.collect(item(12), 0)
    const known = () => [progress.isTakenBack(11), progress.isWhole([12])]
    expect(known()).toEqual([false, false])
    progress.takeChanges()
    expect(known()).toEqual([false, false])
    progress.stored()
    expect(known()).toEqual([true, true])
  })
})

describe("an event that has ended", () => {
  it.effect("has its outcome in the next settlement if its own could not be stored", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    for (const sequence of [11, 12, 13]) progress.take(item(sequence).entry)
    progress.delivered(item(11), delivery)
    progress.drop(item(12).entry, "ann")
    progress.count(item(13).entry, 1)
    progress.alert({ key: "disk", state: "open" })
    const lost = progress.takeChanges()
    if (lost !== undefined) progress.restore(lost)
    const outcomes = { delivered: [{ from: 11, to: 11 }], dropped: [{ sequence: 12 }], counted: [{ sequence: 13 }] }
    expect(progress.takeChanges()).toMatchObject({ ...outcomes, alerts: [{ key: "disk", state: "open" }] })
  })

  it.effect("frees the memory of its lane once, also if it waited for a retry before", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    for (const sequence of [11, 12]) progress.take(item(sequence).entry)
    const bytes = item(11).entry.event.body.length
    expect(progress.open).toEqual({ events: 2, bytes: 2 * bytes })
    progress.retry(item(11), failed, 0)
    progress.delivered(item(11), delivery)
    expect(progress.open).toEqual({ events: 1, bytes })
  })

  it.effect(
    "is in no settlement any more if its settlement could not be stored, so that the next is due",
    function* () {
      const progress = progressOf([], yield* Clock.Clock)
      progress.take(item(11).entry)
      progress.delivered(item(11), delivery)
      const counts = () => [progress.unstored, progress.unsubmitted]
      expect(counts()).toEqual([1, 1])
      const lost = progress.takeChanges()
      expect(counts()).toEqual([1, 0])
      if (lost !== undefined) progress.restore(lost)
      expect(counts()).toEqual([1, 1])
      progress.takeChanges()
      progress.stored()
      expect(counts()).toEqual([0, 0])
    },
  )
})

describe("a wait", () => {
  it.effect("behind an earlier event of its key keeps the attempts and the age of a retry", function* () {
    const progress = progressOf([11], yield* Clock.Clock)
    const before = [progress.tried(item(11)), progress.age(item(11))]
    progress.retryBehind(item(11))
    expect(before[0]).toBe(1)
    expect([progress.tried(item(11)), progress.age(item(11))]).toEqual(before)
  })

  // Found by the simulation (seed 477000503): a single such event prevented the progress of all lanes from being
  // stored.
  it.effect("of a fraction of a millisecond, which a sink may ask for, is stored as whole milliseconds", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.retry(item(11), failed, 64.57)
    const [retry] = progress.takeChanges()?.retry ?? []
    expect(retry?.delay).toBe(65)
    expect(Number.isInteger(retry?.due)).toBe(true)
  })
})

describe("what the journal is told of failed attempts", () => {
  const attempt = (message: string) => ({ ...failed, message })

  it.effect("has each of them once, even if a settlement could not be stored", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    progress.retry(item(11), attempt("first"), 0)
    const lost = progress.takeChanges()
    progress.retry(item(11), attempt("second"), 0)
    if (lost !== undefined) progress.restore(lost)
    progress.retry(item(11), attempt("third"), 0)
    expect(progress.takeChanges()?.retry).toMatchObject([
      { sequence: 11, tried: 3, failed: [{ message: "first" }, { message: "second" }, { message: "third" }] },
    ])
    progress.stored()
    progress.deadLetter(item(11), attempt("last"))
    expect(progress.takeChanges()?.deadLetter).toMatchObject([{ sequence: 11, failed: [{ message: "last" }] }])
  })

  for (const [end, what] of [
    ["deadLetter", "a dead letter"],
    ["late", "a late delivery"],
  ] as const) {
    it.effect(`has the attempts of a settlement that could not be stored also in ${what}`, function* () {
      const progress = progressOf([], yield* Clock.Clock)
      progress.take(item(11).entry)
      progress.retry(item(11), attempt("first"), 0)
      const lost = progress.takeChanges()
      if (end === "deadLetter") progress.deadLetter(item(11), attempt("last"))
      else progress.delivered(item(11), delivery)
      if (lost !== undefined) progress.restore(lost)
      const messages = progress.takeChanges()?.[end].map(({ failed }) => failed.map(({ message }) => message))
      expect(messages).toEqual([end === "deadLetter" ? ["first", "last"] : ["first"]])
    })
  }

  it.effect("is no longer than an operator reads", function* () {
    const progress = progressOf([], yield* Clock.Clock)
    expect(progress.failed("DeliveryFailed", "x".repeat(1_000_000)).message.length).toBe(1_000)
  })
})

// Found by the simulation: the journal stored the retry and then its end, and the lane waited for the event forever.
it.effect("an event that was moved here and has just ended is not taken again if it was routed here too", function* () {
  const clock = yield* Clock.Clock
  const progress = progressOf([], clock)
  progress.adopt([waiting(11, "acct_1"), waiting(12, "acct_1")])
  progress.deadLetter(item(11), failed)
  progress.delivered(item(12), delivery)
  expect([11, 12, 13].map((sequence) => progress.take(item(sequence).entry))).toEqual([false, false, true])
  expect(progress.takeChanges()).toMatchObject({ retry: [], endRetry: [12], deadLetter: [{ sequence: 11 }] })
})
