/** Reads the intact part of a journal whose file SQLite refuses, in part or as a whole. */
import { describe, expect } from "bun:test"
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Duration, Effect } from "effect"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { items, salvage } from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import * as Pages from "../../../../src/journal/sqlite/maintenance/Pages.ts"
import * as Salvage from "../../../../src/journal/sqlite/maintenance/Salvage.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import * as SqliteJournal from "../../../../src/journal/sqlite/SqliteJournal.ts"
import { it } from "../../../lib/effect.ts"
import { sample } from "../../../lib/tries.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { whole } from "../../whole.ts"
import { session } from "../session.ts"

const size = (index: number): number => (index % 10 === 0 ? 70_000 : 900)
const body = (index: number): Uint8Array => new Uint8Array(size(index)).fill(33 + (index % 90))
const count = 600

/**
 * Six hundred events for lake, some of them long. Events 1 to 100 are settled, except for the retry 50 and the dead
 * letter 60.
 */
const filled = Effect.gen(function* () {
  // The events are from 1970, and nothing may be pruned.
  const at = { ...options(), retention: Duration.infinity }
  const live = options()
  yield* Effect.flatMap(whole, (journal) =>
    Effect.gen(function* () {
      yield* journal.openLane("lake")
      for (let from = 1; from <= count; from += 20) {
        const turn = Array.from({ length: 20 }, (_, index) => from + index)
        yield* Effect.forEach(
          turn,
          (index) => journal.append(event(`evt_${index}`, { body: body(index), problem: "none" }), ["lake"]),
          { concurrency: "unbounded", discard: true },
        )
      }
      yield* journal.settle([settlement("lake", 100, { retry: [retrying(50)], deadLetter: [letter(60)] })])
      // `kill -9` leaves the journal like this, with its write-ahead log.
      cpSync(dirname(at.path), dirname(live.path), { recursive: true })
    }),
  ).pipe(Effect.provide(SqliteJournal.layer(at)))
  return { closed: at.path, killed: live.path }
})

/**
 * Returns the files with their sizes, without the files that SQLite makes to read: an index in memory, and an empty
 * log.
 */
const filesBeside = (path: string) =>
  readdirSync(dirname(path))
    .map((name) => `${name} ${statSync(join(dirname(path), name)).size}`)
    .filter((file) => !/-shm|-wal 0$/.test(file))

const read = (path: string) => {
  const before = filesBeside(path)
  const contents = () => (existsSync(path) ? readFileSync(path).toString("base64") : "")
  const bytes = contents()
  const lines = Salvage.lines(path, dirname(path))
  const found: Array<Salvage.SalvagedLine> = []
  let next = lines.next()
  for (; next.done !== true; next = lines.next()) found.push(next.value)
  // The journal and the files beside it are unchanged.
  expect(contents() === bytes).toBe(true)
  expect(filesBeside(path)).toEqual(before)
  const undelivered = found.filter(({ pending }) => pending.length > 0)
  for (const { sequence, bodyBase64, id } of found) {
    expect(id).toBe(`evt_${sequence}`)
    expect(Buffer.from(bodyBase64, "base64").equals(body(sequence))).toBe(true)
  }
  return { found, undelivered, report: next.value }
}

const all = [50, 60, ...Array.from({ length: count - 100 }, (_, index) => 101 + index)]
const sequences = (lines: ReadonlyArray<Salvage.SalvagedLine>) =>
  [...new Set(lines.map(({ sequence }) => sequence))].sort((a, b) => a - b)

describe("salvage", () => {
  it.live("finds everything in a sound journal, closed or killed, and which of it is undelivered", function* () {
    const { closed, killed } = yield* filled
    for (const path of [closed, killed]) {
      const { found, undelivered, report } = read(path)
      expect(report).toEqual({ damaged: [], unreadable: 0, fromPages: 0, repaired: false })
      expect(found).toHaveLength(count + 2)
      expect(sequences(undelivered)).toEqual(all)
      expect(undelivered.find((line) => line.in === "dead")).toMatchObject({ sequence: 60, at: 9, problem: "none" })
      expect(undelivered.find((line) => line.in === "dead")?.attempts).toHaveLength(1)
    }
  })

  it.live(
    "counts nothing as undelivered for a renamed or dropped lane, unless its cursor may be damaged",
    function* () {
      const at = { ...options(), retention: Duration.infinity }
      yield* session(at, function* (journal) {
        for (const name of ["before", "given up"]) yield* journal.openLane(name)
        for (let index = 1; index <= 3; index++) {
          yield* journal.append(event(`evt_${index}`, { body: body(index) }), ["before", "given up"])
        }
        yield* journal.settle([settlement("before", 2)])
        yield* journal.openLane("after", { renamedFrom: "before" })
        yield* journal.dropLane("given up")
      })
      const pending = () => [...Salvage.lines(at.path, dirname(at.path))].map((line) => [line.sequence, line.pending])
      expect(pending()).toEqual([
        [1, []],
        [2, []],
        [3, ["after"]],
      ])
      const db = new DatabaseSync(at.path)
      db.prepare("UPDATE lane SET crc = crc + 1").run()
      db.close()
      const all = ["after", "given up"]
      expect(pending()).toEqual([
        [1, all],
        [2, all],
        [3, all],
      ])
    },
  )

  it.live(
    "reads retries, and dead letters with their attempts, although the roots of their tables are noise",
    function* () {
      const at = options()
      const sequences = Array.from({ length: 200 }, (_, index) => index + 1)
      const [retries, letters] = [sequences.slice(0, 100), sequences.slice(100)]
      yield* session(at, function* (journal) {
        yield* journal.openLane("lake")
        for (const index of sequences) yield* journal.append(event(`evt_${index}`, { body: body(index) }), ["lake"])
        const [retry, deadLetter] = [retries.map((sequence) => retrying(sequence)), letters.map(letter)]
        yield* journal.settle([settlement("lake", 200, { delivered: [], retry, deadLetter })])
      })
      const db = new DatabaseSync(at.path)
      const roots = db.prepare("SELECT rootpage FROM sqlite_master WHERE name IN ('dead', 'retry_record')").all()
      db.close()
      const file = readFileSync(at.path)
      for (const { rootpage } of roots) file.fill(0xa5, (Number(rootpage) - 1) * 32_768, Number(rootpage) * 32_768)
      writeFileSync(at.path, file)
      const { undelivered } = read(at.path)
      const facts = (place: string) =>
        undelivered
          .filter((line) => line.in === place)
          .map(({ sequence, at, attempts }) => [sequence, at, attempts?.length])
          .toSorted(([a = 0], [b = 0]) => a - b)
      expect(facts("retrying")).toEqual(retries.map((sequence) => [sequence, undefined, undefined]))
      expect(facts("dead")).toEqual(letters.map((sequence) => [sequence, 9, 1]))
      expect(undelivered.every(({ pending }) => pending.join() === "lake")).toBe(true)
    },
  )

  for (const [what, harm] of sample<readonly [string, (file: Buffer) => void]>([
    ["header is zeroed", (file: Buffer) => void file.fill(0, 0, 100)],
    ["magic bytes are missing", (file: Buffer) => void file.write("garbage", 0)],
    ["page size is another", (file: Buffer) => void file.writeUInt16BE(4_096, 16)],
    ["version is damaged", (file: Buffer) => void file.writeUInt32BE(1 << 24, 60)],
    ["first page is zeroed", (file: Buffer) => void file.fill(0, 0, 32_768)],
    ["first page is noise", (file: Buffer) => void file.fill(0xa5, 0, 32_768)],
  ])) {
    it.live(`reads everything from a file whose ${what}`, function* () {
      const { closed } = yield* filled
      const file = readFileSync(closed)
      harm(file)
      writeFileSync(closed, file)
      const { undelivered, report } = read(closed)
      expect(report.repaired).toBe(true)
      expect(sequences(undelivered)).toEqual(all)
      expect(undelivered.filter((line) => line.in !== "log").map((line) => [line.in, line.sequence])).toEqual([
        ["dead", 60],
        ["retrying", 50],
      ])
    })
  }

  it.live("leaves out dropped dead letters, whose bytes are still in free pages", function* () {
    const at = options()
    const indexes = Array.from({ length: 90 }, (_, index) => 101 + index)
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* Effect.forEach(indexes, (index) => journal.append(event(`evt_${index}`, { body: body(index) }), ["lake"]))
      yield* journal.settle([settlement("lake", 90, { deadLetter: indexes.map((_, index) => letter(index + 1)) })])
      const letters = yield* journal.deadLetters({ lane: "lake", limit: 100 })
      yield* journal.dropDeadLetters(letters.slice(1).map(({ id }) => id))
    })
    const found = [...Salvage.lines(at.path, dirname(at.path))]
    expect(found.filter(({ in: place }) => place === "dead").length).toBe(1)
  })

  it.live("reads the rest of a file that was cut off anywhere", function* () {
    const { closed } = yield* filled
    const whole = statSync(closed).size
    let before = 0
    for (const share of [0.2, 0.4, 0.6, 0.8, 0.95]) {
      const cut = `${closed}.${share}`
      copyFileSync(closed, cut)
      truncateSync(cut, Math.floor(whole * share))
      const { undelivered } = read(cut)
      const got = sequences(undelivered).length
      expect(got).toBeGreaterThanOrEqual(before)
      before = got
      // Only the cut part is missing, because events are stored in the order of their arrival.
      expect(got).toBeGreaterThan((share - 0.35) * count)
    }
    expect(before).toBeGreaterThan(0.65 * count)
  })

  it.live("reads the log's events from a write-ahead log alone, and past a flipped bit in it", () =>
    Effect.promise(async () => {
      // Without checkpoints, so all events are in the log.
      const at = options()
      const engine = new Engine(open(at.path), at)
      for (const _ of scan(engine, at, Date.now()));
      for (let index = 1; index <= 100; index++) {
        await engine.appendUnsafe(event(`evt_${index}`, { body: body(index) }), ["lake"])
      }
      const killed = options().path
      cpSync(dirname(at.path), dirname(killed), { recursive: true })
      engine.stop()
      engine.store.close()
      const wal = readFileSync(`${killed}-wal`)
      const place = wal.indexOf(Buffer.from(body(51)))
      wal.writeUInt8((wal[place] ?? 0) ^ 4, place)
      writeFileSync(`${killed}-wal`, wal)
      const { undelivered, report } = read(killed)
      expect(report.fromPages).toBeGreaterThan(0)
      expect(sequences(undelivered).length).toBeGreaterThan(75)
      truncateSync(killed, 0)
      expect(sequences(read(killed).undelivered).length).toBeGreaterThan(75)
      rmSync(killed)
      expect(sequences(read(killed).undelivered).length).toBeGreaterThan(75)
      const to = `${killed}.ndjson`
      const { events } = await Effect.runPromise(salvage(killed, to))
      expect(events).toBeGreaterThan(75)
      expect([...items(killed)]).toHaveLength(events)
    }),
  )

  it.live("reads values of every kind from the pages as SQLite has them", () =>
    Effect.sync(() => {
      const { path } = options()
      mkdirSync(dirname(path), { recursive: true })
      const db = new DatabaseSync(path)
      db.exec("CREATE TABLE kinds (a ANY, b ANY) STRICT")
      const insert = db.prepare("INSERT INTO kinds VALUES (?, ?)")
      const integers = [0, 1, -1, 127, -129, 40_000, -9_000_000, 2 ** 31, -(2 ** 40), 2 ** 52].map(BigInt)
      const lengths = [0, 1, 57, 58, 8_185, 100_000]
      const others = [
        null,
        "",
        "ü🙂",
        ...lengths.flatMap((length) => ["x".repeat(length), new Uint8Array(length).fill(7)]),
      ]
      for (const value of [...integers, ...others]) insert.run(value, value)
      insert.run(null, "after nothing")
      const expected = db.prepare("SELECT rowid, a, b FROM kinds").all()
      db.close()
      const found = [...Pages.rows(path)].toSorted((a, b) => a.rowid - b.rowid)
      const plain = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value)
      const rows = new Map(found.map(({ rowid, columns }) => [rowid, columns.map(plain)]))
      expect([...rows]).toEqual(expected.map(({ rowid, a, b }) => [Number(rowid), [plain(a), plain(b)]]))
    }),
  )
})
