import { afterEach, describe, expect, spyOn, test } from "bun:test"
import { existsSync, statSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { type EventQuery, matchOf } from "../../../../src/journal/EventQuery.ts"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import { blockSize, IdBlocks } from "../../../../src/journal/sqlite/search/IdBlocks.ts"
import { enough, Index, step } from "../../../../src/journal/sqlite/search/Index.ts"
import { Search } from "../../../../src/journal/sqlite/search/Search.ts"
import { hashOf, Origin } from "../../../../src/journal/stream/Record.ts"
import { SearchIds } from "../../../../src/journal/stream/SearchIds.ts"
import { event, searchIds } from "../../samples.ts"
import { options } from "../../temporary.ts"

const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close()
})

/** Events of a row. */
const row = 400

const append = (engine: Engine, length: number, id = (n: number) => `evt_${n}`, accountId = "acct_1") => {
  const events = Array.from({ length }, (_, n) => ({ event: event(id(n), { accountId }), sinks: ["lake"] }))
  engine.appendWith(events, Origin.delivered, () => () => {})
}

/** A journal with events for this many steps of the index, and a few more. */
const filled = (steps: number) => {
  const at = options()
  const engine = new Engine(open(at.path), at)
  closing.push(() => {
    engine.stop()
    engine.store.close()
  })
  for (const _ of scan(engine, at, Date.now()));
  for (let first = 1; first <= steps * (step.indexed + row); first += row)
    append(engine, row, (n) => `evt_${first + n}`)
  return engine
}

const indexOf = ({ store }: Engine) => {
  const index = new Index(store.db, store.path, searchIds)
  closing.push(() => index.close())
  return index
}

const everything = { limit: 1 }
/** Returns the events from `highest` down to `lowest` that may match, or `undefined` if they are not indexed. */
const indexed = (index: Index, highest: number, lowest: number, query: EventQuery = everything) => {
  const found: Array<number> = []
  for (let next = highest; next >= lowest; ) {
    const candidates = index.candidates(query, matchOf(query, searchIds), { lowest, highest: next, direction: "down" })
    if (candidates === undefined) return undefined
    found.push(...candidates.sequences)
    next = candidates.end - 1
  }
  const upwards: Array<number> = []
  for (let next = lowest; next <= highest; ) {
    const candidates = index.candidates(query, matchOf(query, searchIds), { lowest: next, highest, direction: "up" })
    if (candidates === undefined) return undefined
    upwards.push(...candidates.sequences)
    next = candidates.end + 1
  }
  expect(upwards.reverse()).toEqual(found)
  return found.length
}
const fileOf = ({ store }: Engine) => `${store.path}-index`
const find = (engine: Engine, index: Index, id: string) =>
  new Search(engine.store.db, searchIds, index).look({ id, limit: 9 }, 10_000).events.map(({ sequence }) => sequence)

describe("an index", () => {
  test("is made in steps, the oldest first, and kept", () => {
    const engine = filled(2)
    const index = indexOf(engine)
    expect(indexed(index, 1, 1)).toBeUndefined()
    expect(index.grow()).toBe(true)
    const { through } = index
    expect(through).toBeWithin(step.indexed, step.indexed + row)
    expect([indexed(index, through, 1), indexed(index, through + 1, 1)]).toEqual([through, undefined])
    expect([index.grow(), index.grow(), index.grow()]).toEqual([true, true, false])
    index.close()
    closing.pop()
    const again = indexOf(engine)
    expect([again.grow(), again.through]).toEqual([false, index.through])
    expect(find(engine, again, "evt_17")).toEqual([17])
    expect(statSync(fileOf(engine)).mode & 0o777).toBe(0o600)
  })

  test("continues at the log's position, and forgets pruned events", () => {
    const engine = filled(2)
    const index = indexOf(engine)
    while (index.grow());
    const { through } = index
    let oldest = engine.log.oldestRow()
    while (oldest !== undefined && oldest.first <= step.indexed) {
      engine.log.delete(oldest.first)
      oldest = engine.log.oldestRow()
    }
    const first = oldest?.first ?? 0
    const events = Array.from({ length: 500 }, (_, n) => ({ event: event(`more_${n}`), sinks: [] }))
    for (let n = 0; n < 9; n++) engine.appendWith(events, Origin.delivered, () => () => {})
    expect(index.grow()).toBe(true)
    expect(indexed(index, first - 1, 1)).toBeUndefined()
    expect(indexed(index, index.through, first)).toBe(index.through + 1 - first)
    expect(index.through).toBeGreaterThan(through)
    const unrouted = indexed(index, index.through, first, { outcome: "unrouted", limit: 1 }) ?? 0
    expect(unrouted).toBeGreaterThan(0)
    expect(unrouted).toBeLessThan(index.through - through + 1)
  })

  test("gives candidates in parts, and only those whose kind, id, account and time may match", () => {
    const engine = filled(1)
    const index = indexOf(engine)
    index.grow()
    const { through } = index
    const count = (query: Partial<EventQuery>) => indexed(index, through, 1, { limit: 1, ...query })
    expect(count({})).toBe(through)
    expect([count({ id: "evt_17" }), count({ id: "none" })]).toEqual([1, 0])
    expect([count({ account: "acct_1" }), count({ account: "none" })]).toEqual([through, 0])
    expect([count({ since: 1_000 }), count({ since: 1_001 }), count({ until: 1_000 })]).toEqual([through, 0, 0])
    expect([count({ types: ["appointment.*"] }), count({ types: ["client.*"] })]).toEqual([through, 0])
  })

  test("names all events with an id, however many they are, and no others", () => {
    const engine = filled(0)
    for (const account of ["acct_0", "acct_1", "acct_1", "acct_1", "acct_1", "acct_2"]) {
      append(engine, row, (n) => (n % 2 === 0 ? "same" : `evt_${n}`), account)
    }
    const index = indexOf(engine)
    expect(index.grow()).toBe(true)
    const count = (query: Partial<EventQuery>) => indexed(index, 6 * row, 1, { id: "same", limit: 1, ...query })
    expect([count({}), count({ account: "none" }), count({ types: ["client.*"] })]).toEqual([1200, 0, 0])
    expect(["acct_0", "acct_1", "acct_2"].map((account) => count({ account }))).toEqual([200, 800, 200])
  })

  test("distinguishes ids with equal hashes, and forgets their blocks", () => {
    const engine = filled(0)
    for (let first = 1; first <= blockSize + 2 * row; first += row) append(engine, row, (n) => `evt_${first + n}`)
    const index = indexOf(engine)
    while (index.grow());
    const count = (id: string) => indexed(index, index.through, 1, { id, limit: 1 })
    const byHash = new Map<number, string>()
    const alike: Array<string> = []
    for (let n = 1; n < blockSize; n++) {
      const hash = hashOf(`evt_${n}`) & 0x3fffff
      const other = byHash.get(hash)
      if (other !== undefined) alike.push(`evt_${n}`, other)
      byHash.set(hash, `evt_${n}`)
    }
    expect(alike.length).toBeGreaterThan(20)
    expect(alike.slice(0, 20).map(count)).toEqual(Array.from({ length: 20 }, () => 1))
    const db = new DatabaseSync(fileOf(engine))
    const rows = () => db.prepare("SELECT count(*) AS rows FROM id_tags").get()?.rows
    expect(rows()).toBeGreaterThan(0)
    let oldest = engine.log.oldestRow()
    while (oldest !== undefined && oldest.first <= blockSize) {
      engine.log.delete(oldest.first)
      oldest = engine.log.oldestRow()
    }
    for (let n = 0; n < blockSize; n += step.forgotten) index.grow()
    expect(rows()).toBe(0)
    db.close()
  })

  test("does not wait for a whole step", () => {
    const engine = filled(0)
    const index = indexOf(engine)
    for (let left = enough.busy - 1; left > 0; left -= row) append(engine, Math.min(row, left))
    expect(index.grow()).toBe(false)
    append(engine, 1)
    expect([index.grow(), index.through]).toEqual([true, enough.busy])
  })

  test("waits for fewer events if none arrives", () => {
    const engine = filled(0)
    const index = indexOf(engine)
    append(engine, enough.quiet - 1)
    expect([index.grow(), index.grow()]).toEqual([false, false])
    append(engine, 1)
    expect([index.grow(), index.through]).toEqual([false, 0])
    expect([index.grow(), index.through]).toEqual([true, enough.quiet])
  })

  test("of another journal, of another format, or a damaged one is rebuilt", () => {
    const engine = filled(1)
    const change = (statement: string) => () => {
      const db = new DatabaseSync(fileOf(engine))
      db.prepare(statement).run()
      db.close()
    }
    const harms = [
      change("UPDATE journal SET identity = 'another'"),
      change("PRAGMA user_version = 99"),
      () => writeFileSync(fileOf(engine), "this is not a database, and long enough to be taken for one".repeat(20)),
    ]
    for (const harm of harms) {
      const index = new Index(engine.store.db, engine.store.path, searchIds)
      while (index.grow());
      index.close()
      harm()
      const again = new Index(engine.store.db, engine.store.path, searchIds)
      expect(again.grow()).toBe(true)
      expect(find(engine, again, "evt_17")).toEqual([17])
      again.close()
    }
  })

  test("of the ids at other pointers is rebuilt", () => {
    const engine = filled(0)
    const body = Buffer.from(JSON.stringify({ data: { object: { id: "app_1", provider: { id: "prv_1" } } } }))
    const events = Array.from({ length: enough.busy }, (_, n) => ({ event: event(`evt_${n}`, { body }), sinks: [] }))
    for (let n = 0; n < enough.busy; n += row) {
      engine.appendWith(events.slice(n, n + row), Origin.delivered, () => () => {})
    }
    const providers = new SearchIds(["/data/object/provider/id"])
    for (const [ids, found, missing] of [
      [searchIds, "app_1", "prv_1"],
      [providers, "prv_1", "app_1"],
      [searchIds, "app_1", "prv_1"],
    ] as const) {
      const index = new Index(engine.store.db, engine.store.path, ids)
      expect(index.grow()).toBe(true)
      const count = (object: string) => indexed(index, index.through, 1, { object, limit: 1 })
      expect([count(found), count(missing)]).toEqual([index.through, 0])
      index.close()
      const kept = new Index(engine.store.db, engine.store.path, ids)
      expect(kept.through).toBe(enough.busy)
      kept.close()
    }
  })

  test("that breaks during use is no longer used", () => {
    const engine = filled(1)
    const index = indexOf(engine)
    index.grow()
    const db = new DatabaseSync(fileOf(engine))
    db.prepare("DROP TABLE event").run()
    db.close()
    expect(find(engine, index, "evt_17")).toEqual([17])
    expect(indexed(index, 17, 17)).toBeUndefined()
  })

  test("knows the kinds that are on disk, and not those that a full disk took back", () => {
    const engine = filled(0)
    const append = (type: string) => {
      const events = Array.from({ length: row }, (_, n) => ({
        event: event(`${type}_${n}`, { type }),
        sinks: ["lake"],
      }))
      for (let n = 0; n < step.indexed; n += row) engine.appendWith(events, Origin.delivered, () => () => {})
    }
    append("appointment.created")
    const index = new Index(engine.store.db, engine.store.path, searchIds)
    const add = spyOn(IdBlocks.prototype, "add").mockImplementationOnce(() => {
      throw Object.assign(new Error("database or disk is full"), { errcode: 13 })
    })
    expect([index.grow(), index.grow()]).toEqual([false, true])
    add.mockRestore()
    index.close()
    append("client.created")
    const again = indexOf(engine)
    expect(again.grow()).toBe(true)
    for (const type of ["appointment.*", "client.*"]) {
      expect(indexed(again, again.through, 1, { types: [type], limit: 1 })).toBe(again.through / 2)
    }
  })

  test("skips damaged parts of the log", () => {
    const engine = filled(1)
    const { db } = engine.store
    const row = db.prepare("SELECT bytes FROM log WHERE first = 401").get()
    const bytes = row?.bytes as Uint8Array
    bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 40)
    db.prepare("UPDATE log SET bytes = ?, routes = 'no JSON' WHERE first = 401").run(bytes)
    const index = indexOf(engine)
    expect(index.grow()).toBe(true)
    expect(["evt_17", "evt_402", "evt_900"].map((id) => find(engine, index, id))).toEqual([[17], [402], [900]])
  })

  test("can't be where its directory can't be written, and leaves nothing there", () => {
    const engine = filled(0)
    expect(() => new Index(engine.store.db, "/nonexistent/journal.db", searchIds)).toThrow()
    expect(existsSync("/nonexistent")).toBe(false)
  })
})
