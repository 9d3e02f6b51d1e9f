import { describe, expect } from "bun:test"
import { Effect, Fiber, Latch } from "effect"
import { Work } from "../../src/admin/status/RelayStatus.ts"
import { it } from "../lib/effect.ts"

describe("long work", () => {
  it.effect("is listed with its share as long as it lasts, however it ends", () =>
    Effect.gen(function* () {
      const { track, running } = yield* Work
      const go = yield* Latch.make(false)
      const replay = yield* Effect.forkChild(
        track("replay to lake", (onProgress) => {
          onProgress(0.25)
          return go.await
        }),
        { startImmediately: true },
      )
      const failing = yield* Effect.forkChild(
        track("drop of dead letters", (onProgress) => {
          onProgress(7)
          return Effect.andThen(go.await, Effect.fail("the journal is full"))
        }),
        { startImmediately: true },
      )
      expect(yield* running).toEqual([
        { what: "replay to lake", share: 0.25 },
        { what: "drop of dead letters", share: 1 },
      ])
      yield* go.open
      yield* Fiber.join(replay)
      expect(yield* Effect.flip(Fiber.join(failing))).toBe("the journal is full")
      expect(yield* running).toEqual([])
    }).pipe(Effect.provide(Work.layer)),
  )
})
