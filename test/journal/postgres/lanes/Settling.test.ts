/** Whether a lane whose data the database refuses holds up the progress of others. */
import { expect } from "bun:test"
import { Effect } from "effect"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, letter, settlement } from "../../samples.ts"
import { relays } from "../relays.ts"

const names = ["audit", "chat", "lake", "oncall", "shop"]

suiteUnless(reasonToSkip(), "a settlement with a lane whose data the database refuses", () => {
  for (const { what, table, check, settled } of [
    {
      what: "delivered events",
      table: "outcome",
      check: "lane <> 'chat'",
      settled: { delivered: [{ from: 1, to: 1, at: 9, took: 1 }] },
    },
    {
      what: "a dead letter that is too large",
      table: "dead",
      check: "lane <> 'chat' OR octet_length(record) < 10",
      settled: { deadLetter: [letter(1)] },
    },
  ]) {
    it.effect(`stores the settlements of other lanes, and names the reason: ${what}`, function* () {
      const { start, sql } = yield* relays
      const { journal } = yield* start("a")
      for (const name of names) yield* journal.openLane(name)
      yield* journal.append(event("one"), names)
      yield* sql(`ALTER TABLE relay.${table} ADD CONSTRAINT refuses CHECK (${check})`)
      const cursors = Effect.map(journal.lanes, (lanes) => lanes.map(({ name, cursor }) => [name, cursor.sequence]))
      const refused = yield* journal.settle(names.map((name) => settlement(name, 1, settled)))
      expect(refused).toMatchObject([{ lane: "chat", error: { message: expect.stringContaining("(23514)") } }])
      expect(yield* cursors).toEqual(names.map((name) => [name, name === "chat" ? 0 : 1]))
      expect((yield* journal.settle([settlement("chat", 1, settled)])).map(({ lane }) => lane)).toEqual(["chat"])
      yield* sql(`ALTER TABLE relay.${table} DROP CONSTRAINT refuses`)
      expect(yield* journal.settle([settlement("chat", 1, settled)])).toEqual([])
      expect(yield* cursors).toEqual(names.map((name) => [name, 1]))
    })
  }
})
