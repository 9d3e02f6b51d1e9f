import { afterEach, describe, expect, test } from "bun:test"
import { existsSync, statSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import * as Match from "../../../../src/journal/EventMatch.ts"
import type { EventQuery } from "../../../../src/journal/Journal.ts"
import { Engine } from "../../../../src/journal/sqlite/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { Origin } from "../../../../src/journal/sqlite/Record.ts"
import { recover } from "../../../../src/journal/sqlite/Restore.ts"
import { Index } from "../../../../src/journal/sqlite/search/Index.ts"
import * as Span from "../../../../src/journal/sqlite/search/IndexBlock.ts"
import { Search } from "../../../../src/journal/sqlite/search/Search.ts"
import { event } from "../../samples.ts"
import { options } from "../../temporary.ts"

const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close()
})

/** A journal of so many spans, and a bit. */
const filled = (spans: number) => {
  const at = options()
  const engine = new Engine(open(at.path), at)
  closing.push(() => {
    engine.stop()
    engine.store.close()
  })
  for (const _ of recover(engine, at, Date.now()));
  const row = 400
  for (let first = 1; first <= spans * Span.size; first += row) {
    const events = Array.from({ length: row }, (_, index) => ({
      event: event(`evt_${first + index}`),
      sinks: ["lake"],
    }))
    engine.appendWith(events, Origin.delivered, () => () => {})
  }
  return engine
}

const indexOf = ({ store }: Engine) => {
  const index = new Index(store.db, store.path)
  closing.push(() => index.close())
  return index
}

const everything = { limit: 1 }
/** How many of a span's events the index leads to; `undefined` where it is not indexed. */
const indexed = (index: Index, number: number, query: EventQuery = everything) =>
  index.candidates(number, query, Match.make(query), Number.MAX_SAFE_INTEGER)?.sequences.length
const fileOf = ({ store }: Engine) => `${store.path}-index`
const find = (engine: Engine, index: Index, id: string) =>
  new Search(engine.store.db, index).look({ id, limit: 9 }, 10_000).events.map(({ sequence }) => sequence)

describe("an index", () => {
  test("is made of whole spans, the newest first, and kept", () => {
    const engine = filled(2)
    const index = indexOf(engine)
    expect(indexed(index, 0)).toBeUndefined()
    expect([index.grow(), indexed(index, 0), indexed(index, 1)]).toEqual([true, undefined, Span.size])
    expect([index.grow(), index.grow()]).toEqual([true, false])
    index.close()
    closing.pop()
    const again = indexOf(engine)
    expect(again.grow()).toBe(false)
    expect(find(engine, again, "evt_17")).toEqual([17])
    expect(statSync(fileOf(engine)).mode & 0o777).toBe(0o600)
  })

  test("goes on where the log has got to, and forgets what the log has pruned", () => {
    const engine = filled(2)
    const index = indexOf(engine)
    while (index.grow());
    let oldest = engine.log.oldestRow()
    while (oldest !== undefined && oldest.first <= Span.size) {
      engine.log.delete(oldest.first)
      oldest = engine.log.oldestRow()
    }
    const events = Array.from({ length: 500 }, (_, n) => ({ event: event(`more_${n}`), sinks: [] }))
    for (let n = 0; n < 9; n++) engine.appendWith(events, Origin.delivered, () => () => {})
    expect(index.grow()).toBe(true)
    expect([indexed(index, 0), indexed(index, 2)]).toEqual([undefined, Span.size])
    expect(indexed(index, 2, { outcome: "unrouted", limit: 1 })).toBeLessThan(Span.size)
  })

  test("of another journal, of another format, or that is damaged is begun again", () => {
    const engine = filled(1)
    const change = (statement: string) => () => {
      const db = new DatabaseSync(fileOf(engine))
      db.prepare(statement).run()
      db.close()
    }
    const harms = [
      change("UPDATE journal SET identity = 'another'"),
      change("PRAGMA user_version = 99"),
      () => writeFileSync(fileOf(engine), "this is no database, and long enough to be taken for one".repeat(20)),
    ]
    for (const harm of harms) {
      const index = new Index(engine.store.db, engine.store.path)
      while (index.grow());
      index.close()
      harm()
      const again = new Index(engine.store.db, engine.store.path)
      expect(again.grow()).toBe(true)
      expect(find(engine, again, "evt_17")).toEqual([17])
      again.close()
    }
  })

  test("that breaks while it is in use is done without", () => {
    const engine = filled(1)
    const index = indexOf(engine)
    index.grow()
    const db = new DatabaseSync(fileOf(engine))
    db.prepare("UPDATE span SET kinds = 'no JSON'").run()
    db.close()
    expect(find(engine, index, "evt_17")).toEqual([17])
    expect(indexed(index, 0)).toBeUndefined()
  })

  test("passes over what is damaged in the log", () => {
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
    expect(() => new Index(engine.store.db, "/nonexistent/journal.db")).toThrow()
    expect(existsSync("/nonexistent")).toBe(false)
  })
})
