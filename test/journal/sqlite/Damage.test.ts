/** The journal's response to damage of its file. */
import { describe, expect } from "bun:test"
import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import type { SqliteConfig } from "../../../src/journal/sqlite/SqliteConfig.ts"
import { it } from "../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { options } from "../temporary.ts"
import { appendAll, ids, read, session } from "./session.ts"

describe("SqliteJournal and damage", () => {
  const aside = (at: SqliteConfig) => readdirSync(dirname(at.path)).filter((name) => name.endsWith(".damaged"))

  for (const [what, harm, keeps] of [
    ["damaged", (path: string) => writeFileSync(path, Buffer.alloc(20_000, "garbage")), true],
    ["emptied", (path: string) => truncateSync(path, 0), true],
    ["deleted", (path: string) => rmSync(path), false],
  ] as const) {
    it.live(`begins a new file if the old one is ${what}, and stays red until acknowledged`, function* () {
      const at = options()
      yield* session(at, (journal) => appendAll(journal, ids(10)))
      harm(at.path)
      for (const suffix of ["-wal", "-shm"]) rmSync(at.path + suffix, { force: true })
      yield* session(at, function* (journal) {
        const status = yield* journal.status
        expect(status.health).toBe("red")
        expect(status.message).toContain(at.path)
        expect(status.alarm.lines.join("\n")).toBe(status.message)
        expect(Math.abs(Date.now() - status.alarm.since)).toBeLessThan(60_000)
        expect(aside(at).length).toBe(keeps ? 1 : 0)
        // Others may have seen the old sequences, so the new ones continue after them.
        yield* journal.append(event("new"), ["lake"])
        expect((yield* journal.read(0, 10)).map((entry) => entry.sequence)).toEqual([11])
      })
      yield* session(at, function* (journal) {
        const { health, alarm } = yield* journal.status
        expect(health).toBe("red")
        yield* journal.acknowledge
        expect((yield* journal.status).health).toBe("ok")
        const records = yield* journal.audit.list({ limit: 10 })
        expect(records.map(({ who, what, note }) => [who, what, note])).toEqual(
          alarm.lines.map((line) => ["relay", "loss", line]),
        )
      })
      yield* session(at, function* (journal) {
        expect((yield* journal.status).health).toBe("ok")
        expect(yield* read(journal)).toEqual(["new"])
      })
    })
  }

  it.live("notices that an older copy of the file was put in its place", function* () {
    const at = options()
    yield* session(at, (journal) => appendAll(journal, ids(10)))
    copyFileSync(at.path, `${at.path}.old`)
    yield* session(at, (journal) => appendAll(journal, ids(5, "late")))
    copyFileSync(`${at.path}.old`, at.path)
    yield* session(at, function* (journal) {
      const status = yield* journal.status
      expect(status.health).toBe("red")
      expect(status.message).toContain("events 11 to 15 are lost")
      yield* appendAll(journal, ["next"])
      expect(yield* journal.head).toBe(16)
      yield* journal.acknowledge
    })
    yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.message).toBe("")))
  })

  it.live("never delivers altered bytes: passes over the event and names it", function* () {
    const at = options()
    const marked = event("evt_marked", { body: new TextEncoder().encode("the bytes that will be altered on disk") })
    yield* session(at, function* (journal) {
      yield* Effect.all(
        [journal.append(event("a"), ["lake"]), journal.append(marked, ["lake"]), journal.append(event("b"), ["lake"])],
        {
          concurrency: "unbounded",
        },
      )
      yield* appendAll(journal, ["c"])
    })
    const file = readFileSync(at.path)
    const place = file.indexOf("will be altered")
    expect(place).toBeGreaterThan(0)
    file.writeUInt8((file[place] ?? 0) ^ 1, place)
    writeFileSync(at.path, file)
    yield* session(at, function* (journal) {
      expect(yield* read(journal)).toEqual(["a", "b", "c"])
      const status = yield* journal.status
      expect(status.health).toBe("red")
      expect(status.message).toContain("Event 2 of the journal")
      yield* journal.openLane("lake")
    })
    yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("red")))
  })

  it.live("names the lost events if a row of the log is missing", function* () {
    const at = options()
    yield* session(at, (journal) => Effect.forEach(ids(3), (id) => journal.append(event(id), ["lake"])))
    const db = new DatabaseSync(at.path)
    db.exec("DELETE FROM log WHERE first = 2")
    db.close()
    yield* session(at, function* (journal) {
      expect((yield* journal.status).message).toContain("Event 2 of the journal")
      expect(yield* read(journal)).toEqual(["evt_0", "evt_2"])
      yield* journal.acknowledge
    })
    yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("ok")))
  })

  it.live("names the lost events if the oldest pending rows are missing", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* Effect.forEach(ids(3), (id) => journal.append(event(id), ["lake"]))
      yield* journal.settle([settlement("lake", 1)])
    })
    const db = new DatabaseSync(at.path)
    db.exec("DELETE FROM log WHERE first <= 2")
    db.close()
    yield* session(at, (journal) =>
      Effect.map(journal.status, (status) => expect(status.message).toContain("Event 2 of the journal")),
    )
  })

  for (const [what, harm] of [
    ["another cursor", "UPDATE lane SET cursor = 3 WHERE name = 'lake'"],
    ["other ranges", "UPDATE lane SET settled = '[[2,3]]' WHERE name = 'lake'"],
    ["ranges that are none", "UPDATE lane SET settled = '[[2,' WHERE name = 'lake'"],
    ["another name", "UPDATE lane SET name = 'lane' WHERE name = 'lake'"],
    ["nothing", "DELETE FROM lane WHERE name = 'lake'"],
  ] as const) {
    it.live(`restarts a lane and reports it if the disk has ${what} for it`, function* () {
      const at = options()
      yield* session(at, function* (journal) {
        yield* journal.openLane("lake")
        yield* journal.openLane("other")
        yield* appendAll(journal, ids(4))
        yield* journal.settle([settlement("lake", 1, { retry: [retrying(1)] })])
      })
      const db = new DatabaseSync(at.path)
      db.exec(harm)
      db.close()
      const look = session(at, function* (journal) {
        const { message } = yield* journal.status
        const lanes = yield* journal.lanes
        return { message, lanes: lanes.map(({ name, cursor, retrying }) => [name, cursor.sequence, retrying]) }
      })
      const { message, lanes } = yield* look
      expect(message).toContain("The place of lane lake in the journal was damaged")
      expect(lanes).toEqual([
        ["lake", 0, 1],
        // This lane waits for none of these events.
        ["other", 4, 0],
      ])
      expect((yield* look).lanes).toEqual(lanes)
    })
  }

  it.live("has a lane read events whose routes on disk were altered to leave it out", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      for (const name of ["lake", "other"]) yield* journal.openLane(name)
      yield* appendAll(journal, ids(3))
    })
    const db = new DatabaseSync(at.path)
    db.exec("UPDATE log SET routes = '[[\"other\"]]'")
    db.close()
    yield* session(at, function* (journal) {
      expect((yield* journal.openLane("lake")).cursor.sequence).toBe(0)
      expect(yield* journal.awaitBeyond(0, "lake")).toBe(0)
      expect(yield* read(journal)).toEqual([...ids(3)])
    })
  })

  it.live("skips damaged events at the end of the log, and no others", function* () {
    const at = options()
    yield* session(at, (journal) =>
      Effect.forEach(ids(4), (id) => Effect.andThen(journal.openLane("lake"), journal.append(event(id), ["lake"]))),
    )
    const db = new DatabaseSync(at.path)
    db.exec("UPDATE log SET bytes = zeroblob(length(bytes)) WHERE first = 2 OR first = 4")
    db.close()
    yield* session(at, function* (journal) {
      expect(yield* read(journal)).toEqual(["evt_0", "evt_2"])
      const places = yield* Effect.forEach([0, 1, 2, 3, 4], (after) => journal.pastLost(after))
      expect(places).toEqual([0, 1, 2, 4, 4])
      expect(yield* journal.append(event("new"), ["lake"])).toBe("appended")
      expect(yield* journal.pastLost(3)).toBe(3)
    })
  })

  it.live("rebuilds an index that the disk has damaged, and reports it", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ids(3))
      yield* journal.settle([settlement("lake", 3, { retry: [retrying(1), retrying(2)], deadLetter: [letter(3)] })])
    })
    const db = new DatabaseSync(at.path, { readOnly: true })
    const size = Number(db.prepare("PRAGMA page_size").get()?.page_size)
    const roots = db.prepare(
      "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex_%' OR type = 'index'",
    )
    const pages = roots.all().map(({ rootpage }) => Number(rootpage) - 1)
    db.close()
    const file = readFileSync(at.path)
    for (const page of pages) {
      const place = file.indexOf("lake", page * size)
      if (place >= 0 && place < (page + 1) * size) file.write("lbke", place)
    }
    writeFileSync(at.path, file)
    yield* session(at, function* (journal) {
      const { retries, deadLetters } = yield* journal.openLane("lake")
      expect([retries.map(({ sequence }) => sequence), deadLetters]).toEqual([[1, 2], 1])
      expect((yield* journal.deadLetters({ lane: "lake", limit: 9 })).length).toBe(1)
      const { message } = yield* journal.status
      expect(message).toContain("was damaged (table retry_record)")
      expect(message).toContain("was damaged (table dead)")
    })
  })

  it.live("gives up a retrying event that can't be read, and names it", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* appendAll(journal, ids(3))
      yield* journal.settle([settlement("lake", 3, { retry: [retrying(1), retrying(2)] })])
    })
    const db = new DatabaseSync(at.path)
    db.exec("UPDATE retry_record SET record = zeroblob(length(record)) WHERE sequence = 1")
    db.exec("UPDATE retry SET attempts = '[{'")
    db.close()
    yield* session(at, function* (journal) {
      expect(yield* journal.openLane("lake")).toMatchObject({ retrying: 2, backlog: 2 })
      const { entries, lost } = yield* journal.readRetries("lake", [1, 2])
      expect([entries.map(({ sequence }) => sequence), lost]).toEqual([[2], [1]])
      expect(yield* journal.openLane("lake")).toMatchObject({ retrying: 1, backlog: 1 })
      expect((yield* journal.status).message).toContain("Event 1 of lane lake can't be read")
    })
    yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("red")))
  })
})
