/** Lanes whose sink gives batches time to fill. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { Sink } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { append, pass, relay, scripted, spec, statusOf } from "./fixture.ts"

/** A sink that lets batches of a hundred fill for two minutes. `sizes` has the sizes of its batches. */
const filling = (maxBytes = 1_000_000) => {
  const { sink, delivered } = scripted(() => "pass")
  const sizes: Array<number> = []
  const patient: Sink = {
    ...sink,
    batch: { maxEvents: 100, maxBytes, linger: 120_000 },
    send: (batch) => {
      sizes.push(batch.length)
      return sink.send(batch)
    },
  }
  return { sink: patient, delivered, sizes }
}

describe("a lane whose sink gives batches time to fill", () => {
  it.effect("sends the events of that time as one batch, in their order, and is not stalled meanwhile", () => {
    const patient = filling()
    return Effect.gen(function* () {
      for (let second = 0; second < 90; second++) {
        if (second % 30 === 0) yield* append(3, ["patient"])
        yield* pass("1 second")
        expect((yield* statusOf("patient"))?.condition).toBe("running")
      }
      expect(patient.delivered).toEqual([])
      yield* pass("31 seconds")
      expect(patient.sizes).toEqual([9])
      expect(patient.delivered).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
      expect(yield* statusOf("patient")).toMatchObject({ condition: "running", backlog: 0, cursor: 9 })
    }).pipe(Effect.provide(relay([spec("patient", patient.sink)])))
  })

  it.effect("sends a batch before its time if it has all events that it may have, and keeps the rest", () => {
    const patient = filling()
    return Effect.gen(function* () {
      yield* append(250, ["patient"])
      yield* pass("2 seconds")
      expect(patient.sizes).toEqual([100, 100])
      yield* pass("2 minutes")
      expect(patient.sizes).toEqual([100, 100, 50])
    }).pipe(Effect.provide(relay([spec("patient", patient.sink)])))
  })

  it.effect("sends a batch before its time if it has all bytes that it may have", () => {
    // The bodies of the first nine events have seven bytes each.
    const patient = filling(21)
    return Effect.gen(function* () {
      yield* append(2, ["patient"])
      yield* pass("2 seconds")
      expect(patient.sizes).toEqual([])
      yield* append(3, ["patient"])
      yield* pass("2 seconds")
      expect(patient.sizes).toEqual([3])
      yield* pass("2 minutes")
      expect(patient.sizes).toEqual([3, 2])
    }).pipe(Effect.provide(relay([spec("patient", patient.sink)])))
  })
})
