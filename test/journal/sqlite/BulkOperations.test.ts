import { describe, expect } from "bun:test"
import { Effect, Fiber } from "effect"
import { Journal } from "../../../src/journal/Journal.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { it } from "../../lib/effect.ts"
import { event, retrying, settlement, waiting } from "../samples.ts"
import { options } from "../temporary.ts"
import { appendAll } from "./session.ts"

describe("a replay", () => {
  it.live("tells how far it has looked, from the log's beginning to its end", () =>
    Effect.gen(function* () {
      const journal = yield* Journal
      // One commit each, and so a row each.
      for (let number = 0; number < 8; number++) yield* journal.append(event(`evt_${number}`), ["lake"])
      const shares: Array<number> = []
      const progress = (share: number) => shares.push(share)
      const count = yield* journal.replay({ since: 0, until: 2_000, types: () => true, sink: "lake", progress })
      expect([count, shares]).toEqual([8, [0, 1, 2, 3, 4, 5, 6, 7].map((row) => row / 8)])
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
