import { describe, expect } from "bun:test"
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import type { MaintenanceError } from "../../../../src/journal/JournalError.ts"
import * as Maintenance from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import * as SqliteJournal from "../../../../src/journal/sqlite/SqliteJournal.ts"
import { it } from "../../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { whole } from "../../whole.ts"
import { appendAll, session } from "../session.ts"

const secret = new TextEncoder().encode("bytes that are altered on disk")

/** A journal with six events, each in its own row. The second is a retry, and the third is a dead letter. */
const filled = Effect.gen(function* () {
  const at = options()
  yield* Effect.flatMap(whole, (journal) =>
    Effect.gen(function* () {
      yield* journal.openLane("lake")
      for (const id of ["a", "b", "c", "d", "e"]) yield* journal.append(event(id), ["lake"])
      yield* journal.append(event("f", { body: secret }), ["lake"])
      yield* journal.settle([settlement("lake", 3, { retry: [retrying(2)], deadLetter: [letter(3)] })])
    }),
  ).pipe(Effect.provide(SqliteJournal.layer(at)))
  return at
})

const alter = (path: string): void => {
  const file = readFileSync(path)
  const place = file.indexOf("that are altered")
  file.writeUInt8((file[place] ?? 0) ^ 1, place)
  writeFileSync(path, file)
}

const lines = (path: string): ReadonlyArray<Record<string, unknown>> =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>)

describe("journal check", () => {
  it.live("finds a sound journal sound, also while it is in use", function* () {
    const at = yield* filled
    const report = yield* Effect.flatMap(whole, () => Maintenance.check(at.path)).pipe(
      Effect.provide(SqliteJournal.layer(at)),
    )
    expect(report).toMatchObject({ sound: true, head: 6, events: 6, rows: 6, lanes: 1, retrying: 1, deadLetters: 1 })
  })

  it.live("names altered and missing events", function* () {
    const at = yield* filled
    alter(at.path)
    const db = new DatabaseSync(at.path)
    db.exec("DELETE FROM log WHERE first IN (2, 3)")
    db.close()
    expect(yield* Maintenance.check(at.path)).toMatchObject({ sound: false, damaged: [6], missing: [[2, 3]] })
  })

  it.live("finds a restored backup sound, and shows its lost events, which the relay has reported", function* () {
    const at = yield* filled
    const backup = `${at.path}.backup`
    yield* Maintenance.backup(at.path, backup)
    yield* session(at, (journal) => appendAll(journal, ["g", "h"]))
    rmSync(`${at.path}-wal`, { force: true })
    renameSync(backup, at.path)
    yield* session(at, (journal) => appendAll(journal, ["i"]))
    expect(yield* Maintenance.check(at.path)).toMatchObject({ sound: true, missing: [], lost: [[7, 8]] })
  })

  it.live("says that there is no journal, or that the file isn't one", function* () {
    const at = options()
    expect((yield* Effect.flip(Maintenance.check(at.path))).message).toContain("no journal at")
    const other = yield* filled
    writeFileSync(other.path, "garbage".repeat(1000))
    expect((yield* Effect.flip(Maintenance.check(other.path))).message).toContain("can't be read as a journal")
  })
})

describe("an empty file beside a write-ahead log", () => {
  it.live("is not opened by check and backup: SQLite would delete the log", function* () {
    const at = yield* filled
    writeFileSync(at.path, "")
    writeFileSync(`${at.path}-wal`, "what is left of a journal")
    for (const refused of [Maintenance.check(at.path), Maintenance.backup(at.path, `${at.path}.backup`)]) {
      expect((yield* Effect.flip(refused as Effect.Effect<unknown, MaintenanceError>)).message).toContain(
        "`relay journal salvage` recovers the contents of its write-ahead log",
      )
    }
    expect(readFileSync(`${at.path}-wal`, "utf8")).toBe("what is left of a journal")
  })
})

describe("journal backup", () => {
  it.live("makes a copy that is a journal, and never overwrites", function* () {
    const at = yield* filled
    const copy = `${at.path}.backup`
    const report = yield* Effect.flatMap(whole, () => Maintenance.backup(at.path, copy)).pipe(
      Effect.provide(SqliteJournal.layer(at)),
    )
    expect(report.bytes).toBeGreaterThan(0)
    expect(yield* Maintenance.check(copy)).toMatchObject({ sound: true, events: 6 })
    expect((yield* Effect.flip(Maintenance.backup(at.path, copy))).message).toContain(
      "never overwrites: name a new file",
    )
  })

  it.live("refuses the names of the journal's own files, existing or not, and so does salvage", function* () {
    const at = yield* filled
    for (const suffix of ["-journal", "-index-journal"]) {
      const refused = Effect.flip(Maintenance.backup(at.path, `${at.path}${suffix}`))
      expect((yield* refused).message).toContain("is a file of the journal's own: name another")
    }
    writeFileSync(`${at.path}-wal`, "what is left of a journal")
    rmSync(at.path)
    expect((yield* Effect.flip(Maintenance.salvage(at.path, at.path))).message).toContain("of the journal's own")
    expect(existsSync(at.path)).toBe(false)
  })

  it.live("is readable only by its owner, as are the journal, its files and a salvage", function* () {
    const at = yield* filled
    yield* Effect.gen(function* () {
      yield* whole
      yield* Maintenance.backup(at.path, `${at.path}.backup`)
      yield* Maintenance.salvage(at.path, `${at.path}.ndjson`)
      const files = readdirSync(dirname(at.path))
      expect(files.length).toBeGreaterThanOrEqual(8)
      const open = files.filter((file) => (statSync(join(dirname(at.path), file)).mode & 0o077) !== 0)
      expect(open).toEqual([])
    }).pipe(Effect.provide(SqliteJournal.layer(at)))
  })
})

describe("journal salvage", () => {
  it.live("writes every event that can be read, and which lanes still wait for it", function* () {
    const at = yield* filled
    alter(at.path)
    const to = `${at.path}.ndjson`
    expect(yield* Maintenance.salvage(at.path, to)).toMatchObject({ events: 7, damaged: [6], unreadable: 0 })
    expect(lines(to).map((line) => [line.in, line.sequence, line.pending])).toEqual([
      ["dead", 3, ["lake"]],
      ["retrying", 2, ["lake"]],
      ["log", 1, []],
      ["log", 2, []],
      ["log", 3, []],
      ["log", 4, ["lake"]],
      ["log", 5, ["lake"]],
    ])
    const first = lines(to).find((line) => line.sequence === 1)
    expect(Buffer.from(String(first?.bodyBase64), "base64").toString()).toBe('{"id":"a"}')
  })

  it.live("reads on past a page that is destroyed", function* () {
    const at = options()
    yield* Effect.flatMap(whole, (journal) =>
      Effect.gen(function* () {
        for (let index = 0; index < 240; index++) {
          yield* journal.append(event(`evt_${index}`, { body: new Uint8Array(1_000).fill(index + 1) }), ["lake"])
        }
      }),
    ).pipe(Effect.provide(SqliteJournal.layer(at)))
    const file = readFileSync(at.path)
    const pageSize = file.readUInt16BE(16)
    const page = Math.floor(file.indexOf(Buffer.alloc(100, 100)) / pageSize)
    file.fill(0xff, page * pageSize, page * pageSize + 200)
    writeFileSync(at.path, file)
    const to = `${at.path}.ndjson`
    const report = yield* Maintenance.salvage(at.path, to)
    expect(report.unreadable).toBe(1)
    expect(report.events).toBeGreaterThan(180)
    expect(lines(to).map(({ id }) => id)).toContain("evt_239")
  })
})
