import { describe, expect } from "bun:test"
import { Effect, Fiber } from "effect"
import { Journal } from "../../../src/journal/Journal.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { it } from "../../lib/effect.ts"
import { event, retrying, settlement, waiting } from "../samples.ts"
import { options } from "../temporary.ts"
import { appendAll } from "./session.ts"

describe("a replay", () => {
  it.live("takes a slice of what it is given, and reads entries of many rows, in whatever order", () =>
    Effect.gen(function* () {
      const journal = yield* Journal
      const body = new Uint8Array(300_000)
      // One commit each, and so a row each.
      for (let number = 0; number < 8; number++) yield* journal.append(event(`evt_${number}`, { body }), ["lake"])
      const targets = [8, 1, 7, 2, 6].map((sequence) => ({ sequence, sinks: ["lake"] }))
      expect(yield* journal.replay(targets)).toEqual({ done: 4, gone: [] })
      expect((yield* journal.read(8, 9)).map((entry) => entry.event.id)).toEqual(["evt_7", "evt_0", "evt_6", "evt_1"])
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )
})

describe("a lane that moves", () => {
  it.live("has its retries moved before later events of their keys, also when the move is cut short", () =>
    Effect.gen(function* () {
      const journal = yield* Journal
      yield* journal.openLane("new")
      yield* appendAll(journal, ["a", "b", "c"], ["old"])
      yield* journal.settle([settlement("old", 1, { retry: [retrying(1, "acct_1")] })])
      // It ends after its first slice.
      yield* Fiber.interrupt(yield* Effect.forkChild(journal.moveLane("old", "new"), { startImmediately: true }))
      expect((yield* journal.openLane("new")).retries).toEqual([waiting(1, "acct_1")])
      yield* journal.openLane("new", { renamedFrom: "old" })
      expect((yield* journal.read(3, 10)).map((entry) => entry.event.id)).toEqual(["b", "c"])
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )
})
