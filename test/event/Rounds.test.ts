import { describe, expect } from "bun:test"
import { Effect, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import { inSlices, repeating, rounds } from "../../src/event/Rounds.ts"
import { it } from "../lib/effect.ts"

describe("work that is repeated", () => {
  it.effect("continues after a failure and after a bug, and logs both", function* () {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${message}`))])
    let round = 0
    const task = Effect.suspend((): Effect.Effect<void, Error> => {
      round += 1
      if (round === 1) return Effect.die(new TypeError("no such thing"))
      return round === 2 ? Effect.fail(new Error("the disk is away")) : Effect.void
    })
    const fiber = yield* Effect.forkChild(Effect.provide(rounds("counting", task, "1 second"), logger))
    yield* TestClock.adjust("3 seconds")
    expect(round).toBe(4)
    expect(lines.map((line) => line.split(",")[0])).toEqual([
      "Error internal error: counting failed; it is tried again; please report it",
      "Warn counting failed",
    ])
    expect(lines[1]).toContain("the disk is away")
    yield* Fiber.interrupt(fiber)
    yield* TestClock.adjust("4 seconds")
    expect(round).toBe(4)
  })

  it.effect(
    "continues a second after a bug if the task has its own wait, so that an immediate bug is no busy loop",
    function* () {
      let round = 0
      const task = Effect.suspend(() => {
        round += 1
        return round < 3 ? Effect.die(new TypeError("no such thing")) : Effect.never
      })
      const quiet = Logger.layer([Logger.make(() => {})])
      yield* Effect.forkChild(Effect.provide(repeating("counting", task), quiet))
      yield* TestClock.adjust("999 millis")
      expect(round).toBe(1)
      yield* TestClock.adjust("1 minute")
      expect(round).toBe(3)
    },
  )
})

describe("long work in slices", () => {
  it.live("gives its results in order, and lets other work run once a slice", function* () {
    let turns = 0
    let immediate = setImmediate(function turn() {
      turns += 1
      immediate = setImmediate(turn)
    })
    const results = yield* inSlices([..."abcdefghij"], 3, (letter, index) => ({ letter, index, turns }))
    clearImmediate(immediate)
    expect(results.map(({ letter, index }) => `${letter}${index}`).join(" ")).toBe("a0 b1 c2 d3 e4 f5 g6 h7 i8 j9")
    const slices = Map.groupBy(results, (result) => result.turns)
    expect([...slices.values()].map((slice) => slice.map(({ letter }) => letter).join(""))).toEqual([
      "ab",
      "cde",
      "fgh",
      "ij",
    ])
  })
})
