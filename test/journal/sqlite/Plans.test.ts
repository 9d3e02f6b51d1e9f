/** Asks SQLite's query planner which statements of the journal read a whole table. */
import { expect, spyOn, test } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import { allEvents, play } from "../histories.ts"
import { options } from "../temporary.ts"
import { session } from "./session.ts"

/** Statements whose time grows with a table, by the reason why they may. */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  "the first or last row by the primary key": [
    "SELECT first + count - 1 AS last FROM log ORDER BY first DESC LIMIT 1",
    "SELECT first + count - 1 AS head FROM log ORDER BY first DESC LIMIT 1",
    "SELECT first, count, received_to FROM log ORDER BY first LIMIT 1",
    "SELECT first FROM log ORDER BY first LIMIT 1",
  ],
  "one row for each lane": [
    "SELECT name, cursor, settled, paused, paused_for, mute, crc FROM lane ORDER BY name",
    "SELECT name, cursor, settled FROM lane ORDER BY name",
    "SELECT name FROM lane ORDER BY name",
    "SELECT name, id, former, crc FROM lane_name",
  ],
  "once in a start": [
    "SELECT count(*) AS rows FROM retry_record",
    "SELECT count(*) AS rows FROM dead",
    "SELECT lane, sequence, delay FROM retry_record LEFT JOIN retry USING (lane, sequence)",
    "SELECT lane, webhook, count(*) AS count, sum(size) AS size FROM dead GROUP BY lane, webhook",
    "SELECT first, last FROM hole",
  ],
  "a list for an operator, of at most 10,000 rows for each sink": [
    "SELECT lane, key, state FROM alert ORDER BY lane, key",
  ],
  "the audit log has at most 20,000 rows": [
    `DELETE FROM audit WHERE at < ?1 OR (result = 'refused') = ?2 AND id <= ( SELECT id FROM audit WHERE (result = 'refused') = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)`,
  ],
}

const hasPlan = /^(SELECT|INSERT|UPDATE|DELETE|WITH)\b/
/** Matches the planner's words for a scan of a whole table or index, and for a sort of all found rows. */
const isWhole = /^SCAN (?!CONSTANT)|^USE TEMP B-TREE/

test("no statement of the journal reads a whole table but those that may", async () => {
  const whole = new Set<string>()
  const seen = new Set<string>()
  const prepare = DatabaseSync.prototype.prepare
  const spy = spyOn(DatabaseSync.prototype, "prepare").mockImplementation(function (this: DatabaseSync, sql: string) {
    const text = sql.replaceAll(/\s+/g, " ").trim()
    if (hasPlan.test(text) && !seen.has(text)) {
      seen.add(text)
      const plan = prepare.call(this, `EXPLAIN QUERY PLAN ${sql}`).all()
      if (plan.some(({ detail }) => isWhole.test(String(detail)))) whole.add(text)
    }
    return prepare.call(this, sql)
  })
  try {
    const history = session(options(), (journal) => Effect.andThen(play(journal, 7, 200), allEvents(journal)))
    await Effect.runPromise(history)
  } finally {
    spy.mockRestore()
  }
  expect(seen.size).toBeGreaterThan(60)
  expect([...whole].toSorted()).toEqual(Object.values(allowed).flat().toSorted())
})
