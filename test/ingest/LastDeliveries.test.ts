/** When a webhook last accepted a delivery, as a relay knows it after a restart. */
import { describe, expect } from "bun:test"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { unavailable } from "../../src/journal/JournalError.ts"
import { servicesOf } from "../../src/journal/JournalType.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event } from "../journal/samples.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { startIngest } from "./lastDeliveries.ts"

const minute = 60_000

describe("the last delivery of a webhook", () => {
  it.effect("is read from the journal at the start, once the journal answers", () =>
    Effect.gen(function* () {
      const memory = yield* whole
      yield* memory.append(event("a", { receivedAt: minute }), [])
      let answers = false
      const events: typeof memory.events = (query) =>
        Effect.suspend(() => (answers ? memory.events(query) : Effect.fail(unavailable("no database answers"))))
      const started = yield* startIngest(Layer.succeedContext(servicesOf({ ...memory, events })))
      yield* TestClock.adjust("5 seconds")
      expect(started.of("scheduling")).toBe(0)
      answers = true
      yield* TestClock.adjust("5 seconds")
      expect(started.of("scheduling")).toBe(minute)
    }).pipe(Effect.provide(MemoryJournal.layer)),
  )

  it.effect("is found by secret, also behind pages of newer deliveries with another secret", () =>
    Effect.gen(function* () {
      const memory = yield* whole
      yield* memory.append(event("first", { secret: "old", receivedAt: minute }), [])
      for (let n = 1; n <= 120; n++)
        yield* memory.append(event(`evt_${n}`, { secret: "main", receivedAt: minute + n }), [])
      const started = yield* startIngest(Layer.succeedContext(servicesOf(memory)))
      yield* started.ready
      expect(started.signed("scheduling")).toEqual({ main: minute + 120, old: minute })
    }).pipe(Effect.provide(MemoryJournal.layer)),
  )
})
