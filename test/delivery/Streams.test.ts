/** Lanes over several streams: streams that the relay claims, and streams that another relay then claims. */
import { describe, expect } from "bun:test"
import { Effect, Layer, SubscriptionRef } from "effect"
import { Journal, type Log } from "../../src/journal/Journal.ts"
import { fenced, unavailable } from "../../src/journal/JournalError.ts"
import { servicesOf } from "../../src/journal/JournalType.ts"
import type { Sink } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { append, lanesOf, pass, scripted, spec, statusOf } from "./fixture.ts"

/** A journal of two streams: its own, and another that it may own. */
const two = Effect.gen(function* () {
  const memory = Effect.provide(whole, Layer.fresh(MemoryJournal.layer))
  const own = yield* memory
  const other = yield* memory
  let isOwned = true
  let settlements = 0
  let isClosed = false
  const log: Log = {
    ...other,
    openLane: (...asked) =>
      Effect.suspend(() => (isClosed ? Effect.fail(unavailable("not now")) : other.openLane(...asked))),
    mayStart: () => isOwned,
    settle: (some) => {
      if (isOwned) return other.settle(some)
      settlements += 1
      return Effect.fail(fenced("another relay has it"))
    },
  }
  const owned = yield* SubscriptionRef.make<ReadonlyArray<Log>>([own])
  return {
    journal: { ...own, streams: owned },
    other,
    take: SubscriptionRef.set(owned, [own, log]),
    /** Another relay claims the stream. The journal reports that a moment later. */
    lose: () => {
      isOwned = false
    },
    leave: SubscriptionRef.set(owned, [own]),
    /** Makes the opening of lanes over the stream fail. */
    close: (closed: boolean) => {
      isClosed = closed
    },
    refused: () => settlements,
  }
})

const appendTo = (journal: Journal["Service"], count: number) =>
  Effect.provideService(append(count, ["sink"]), Journal, journal)

describe("lanes over streams", () => {
  it.effect("deliver a stream's events once the relay has taken it, and count them as their own", function* () {
    const { journal, other, take } = yield* two
    const sink = scripted(() => "pass")
    yield* appendTo(other, 3)
    yield* Effect.gen(function* () {
      yield* pass("1 second")
      expect(sink.delivered).toEqual([])
      yield* take
      yield* pass("1 second")
      expect(sink.delivered).toEqual([1, 2, 3])
      yield* appendTo(journal, 2)
      yield* pass("1 second")
      expect(sink.delivered).toEqual([1, 2, 3, 1, 2])
      expect(yield* statusOf("sink")).toMatchObject({ backlog: 0, attempts: { delivered: 5 } })
    }).pipe(
      Effect.provide(
        lanesOf([spec("sink", sink.sink)]).pipe(Layer.provideMerge(Layer.succeedContext(servicesOf(journal)))),
      ),
    )
  })

  it.effect(
    "start nothing of a stream that another relay may have, cut off its attempts, and settle nothing",
    function* () {
      const { journal, other, take, lose, leave, refused } = yield* two
      const sink = scripted(({ sequence }) => (sequence > 2 ? "hang" : "pass"))
      const cutOff: Array<number> = []
      const send: Sink["send"] = (batch) =>
        Effect.onInterrupt(sink.sink.send(batch), () =>
          Effect.sync(() => cutOff.push(...batch.map(({ sequence }) => sequence))),
        )
      yield* Effect.gen(function* () {
        yield* take
        yield* pass("1 second")
        yield* appendTo(other, 3)
        yield* pass("200 millis")
        expect(sink.attempted).toEqual([1, 2, 3])
        lose()
        yield* appendTo(other, 2)
        yield* pass("1 second")
        expect(cutOff).toEqual([3])
        yield* pass("9 seconds")
        expect(sink.attempted).toEqual([1, 2, 3])
        yield* leave
        yield* pass("10 seconds")
        expect(sink.attempted).toEqual([1, 2, 3])
        // The lane doesn't repeat a refused settlement again and again.
        expect(refused()).toBeLessThanOrEqual(2)
        expect((yield* other.lanes).find(({ name }) => name === "sink")?.cursor.sequence).toBe(2)
        yield* appendTo(journal, 1)
        yield* pass("1 second")
        expect(sink.delivered).toEqual([1, 2, 1])
      }).pipe(
        Effect.provide(
          lanesOf([spec("sink", { ...sink.sink, send })]).pipe(
            Layer.provideMerge(Layer.succeedContext(servicesOf(journal))),
          ),
        ),
      )
    },
  )

  it.effect("report a stalled sink if its lane can't be opened over a stream with its events", function* () {
    const { journal, other, take, close } = yield* two
    const sink = scripted(() => "pass")
    yield* Effect.gen(function* () {
      yield* appendTo(other, 3)
      close(true)
      yield* take
      yield* pass("20 seconds")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "" })
      yield* pass("15 seconds")
      const stalled = yield* statusOf("sink")
      expect(stalled?.condition).toBe("stalled")
      expect(stalled?.message).toContain("could not be opened")
      close(false)
      yield* pass("3 seconds")
      expect(sink.delivered).toEqual([1, 2, 3])
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", message: "", backlog: 0 })
    }).pipe(
      Effect.provide(
        lanesOf([spec("sink", sink.sink)]).pipe(Layer.provideMerge(Layer.succeedContext(servicesOf(journal)))),
      ),
    )
  })

  it.effect("pause and resume a sink that an operator pauses at another relay", () => {
    const sink = scripted(() => "pass")
    return Effect.gen(function* () {
      const journal = yield* whole
      yield* journal.setPaused("sink", true)
      yield* pass("2 seconds")
      expect(yield* statusOf("sink")).toMatchObject({ condition: "paused" })
      yield* append(1, ["sink"])
      yield* pass("1 second")
      expect(sink.delivered).toEqual([])
      yield* journal.setPaused("sink", false)
      yield* pass("2 seconds")
      expect(sink.delivered).toEqual([1])
    }).pipe(Effect.provide(lanesOf([spec("sink", sink.sink)]).pipe(Layer.provideMerge(MemoryJournal.layer))))
  })
})
