/** Events that were lost before they were delivered can be sent again. */
import { describe, expect } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { JournalError } from "../../../../src/journal/Journal.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { effectOf, it, type Steps } from "../../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { type Service, session } from "../session.ts"

const now = Date.now()
const sent = (id: string) => event(id, { receivedAt: now })
const send = (journal: Service, id: string, sinks = ["lake"]) => journal.append(sent(id), sinks)
const ids = ["a", "b", "c"]

/** Appends three events in one row for two lanes, and runs `use` before the disk fails. */
const three = (at: SqliteConfig, use: (journal: Service) => Steps<unknown, JournalError> = () => Effect.void) =>
  session(at, function* (journal) {
    yield* journal.openLane("lake")
    yield* journal.openLane("audit")
    yield* Effect.forEach(ids, (id) => send(journal, id, ["lake", "audit"]), { concurrency: "unbounded" })
    yield* effectOf(() => use(journal))
  })

const flip = (bytes: Uint8Array, text: string): Uint8Array => {
  const buffer = Buffer.from(bytes)
  const place = buffer.indexOf(text)
  expect(place).toBeGreaterThan(0)
  buffer.writeUInt8((buffer[place] ?? 0) ^ 1, place)
  return buffer
}

/** Alters the body of `b`, wherever it is kept. */
const harm = (at: SqliteConfig, table: "log" | "owed" | "retry_record" | "dead"): void => {
  const column = table === "log" ? "bytes" : "record"
  const db = new DatabaseSync(at.path)
  const rows = db.prepare(`SELECT rowid AS row, ${column} AS bytes FROM ${table}`).all()
  const row = rows.find(({ bytes }) => Buffer.from(bytes as Uint8Array).includes('{"id":"b"}'))
  const altered = flip(row?.bytes as Uint8Array, '{"id":"b"}')
  db.prepare(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`).run(altered, row?.row ?? null)
  db.close()
}

const answers = (journal: Service) => Effect.forEach(ids, (id) => send(journal, id))

describe("an event that is lost on disk", () => {
  it.live("is taken when it is sent again, once a lane has found it to be lost: then once", function* () {
    const at = options()
    yield* three(at, (journal) => journal.settle([settlement("audit", 3)]))
    harm(at, "log")
    yield* session(at, function* (journal) {
      expect((yield* journal.read(0, 10)).map((entry) => entry.event.id)).toEqual(["a", "c"])
      expect(yield* answers(journal)).toEqual(["duplicate", "appended", "duplicate"])
      expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
      expect((yield* journal.read(3, 10)).map((entry) => entry.event)).toEqual([sent("b")])
    })
    yield* session(at, function* (journal) {
      yield* journal.read(0, 10)
      expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
    })
  })

  it.live("is taken after a restart too, when its lane has passed the loss", function* () {
    const at = options()
    yield* three(at)
    harm(at, "log")
    yield* session(at, function* (journal) {
      yield* journal.read(0, 10)
      yield* journal.settle([settlement("lake", 3), settlement("audit", 3)])
      yield* journal.acknowledge
    })
    yield* session(at, function* (journal) {
      expect(yield* answers(journal)).toEqual(["duplicate", "appended", "duplicate"])
    })
  })

  it.live("stays a duplicate if every sink had it, because the loss affected nobody", function* () {
    const at = options()
    yield* three(at, (journal) => journal.settle([settlement("lake", 3), settlement("audit", 3)]))
    harm(at, "log")
    yield* session(at, function* (journal) {
      yield* journal.openLane("idle")
      expect((yield* journal.read(0, 10)).map((entry) => entry.event.id)).toEqual(["a", "c"])
      expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
    })
  })

  for (const [table, kept] of [
    ["retry_record", { retry: [retrying(2)] }],
    ["dead", { deadLetter: [letter(2)] }],
  ] as const) {
    it.live(`is taken when it was ${table} and can't be read`, function* () {
      const at = options()
      yield* three(at, (journal) => journal.settle([settlement("lake", 3, kept), settlement("audit", 3)]))
      harm(at, table)
      yield* session(at, function* (journal) {
        const read = () => Effect.all([journal.readRetries("lake", [2]), journal.deadLetters({ limit: 9 })])
        yield* read()
        expect((yield* journal.status).message).toContain("the sender may send it again")
        expect(yield* answers(journal)).toEqual(["duplicate", "appended", "duplicate"])
        yield* read()
        expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
      })
    })
  }

  it.live("is reported and taken again if its retry can't be read when its lane makes it a dead letter", function* () {
    const at = options()
    yield* three(at, (journal) =>
      journal.settle([settlement("lake", 3, { retry: [retrying(2)] }), settlement("audit", 3)]),
    )
    harm(at, "retry_record")
    yield* session(at, function* (journal) {
      yield* journal.settle([settlement("lake", 3, { delivered: [], deadLetter: [letter(2)] })])
      expect(yield* journal.deadLetters({ limit: 9 })).toEqual([])
      expect((yield* journal.status).message).toContain("the sender may send it again")
      expect(yield* answers(journal)).toEqual(["duplicate", "appended", "duplicate"])
    })
  })

  for (const [table, kept] of [
    ["owed", undefined],
    ["retry_record", { retry: [retrying(2)] }],
    ["dead", { deadLetter: [letter(2)] }],
  ] as const) {
    it.effect(`is taken when the log was pruned of it and it can't be read in ${table}`, function* () {
      const at = options({ retention: Duration.minutes(2) })
      yield* TestClock.setTime(now)
      const read = (journal: Service) =>
        Effect.all([journal.read(0, 3), journal.readRetries("lake", [2]), journal.deadLetters({ limit: 9 })])
      yield* session(at, function* (journal) {
        yield* journal.openLane("lake")
        yield* answers(journal)
        // This event is so large that the memory of recent events drops all events before it.
        yield* journal.append({ ...sent("last"), body: new Uint8Array(5_000_000) }, ["lake"])
        if (kept !== undefined) yield* journal.settle([settlement("lake", 4, kept)])
        yield* TestClock.adjust(Duration.minutes(3))
        expect((yield* journal.status).first).toBe(4)
        harm(at, table)
        expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
        yield* read(journal)
        expect(yield* journal.status).toMatchObject({
          health: "red",
          message: expect.stringContaining("the sender may send"),
        })
        expect(yield* answers(journal)).toEqual(["duplicate", "appended", "duplicate"])
        yield* read(journal)
        expect(yield* answers(journal)).toEqual(["duplicate", "duplicate", "duplicate"])
      })
      yield* session(at, function* (journal) {
        yield* read(journal)
        expect(yield* send(journal, "b")).toBe("duplicate")
      })
    })
  }

  it.live("is taken when its row is missing, or the log ends before it", function* () {
    for (const rows of ["first = 2", "first >= 2"]) {
      const at = options()
      yield* session(at, (journal) => Effect.forEach(ids, (id) => send(journal, id)))
      const db = new DatabaseSync(at.path)
      db.exec(`DELETE FROM log WHERE ${rows}`)
      db.close()
      yield* session(at, function* (journal) {
        const after = rows === "first = 2" ? "duplicate" : "appended"
        expect(yield* answers(journal)).toEqual(["duplicate", "appended", after])
      })
    }
  })
})
