import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { Journal } from "../../../src/journal/Journal.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { it } from "../../lib/effect.ts"
import { event } from "../samples.ts"
import { options } from "../temporary.ts"

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
