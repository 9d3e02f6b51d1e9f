import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Exit } from "effect"
import type { JournalError, SettleExit } from "../../../../src/journal/Journal.ts"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { classify } from "../../../../src/journal/sqlite/file/SqliteFailure.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { prune } from "../../../../src/journal/sqlite/operations/Retention.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { Origin } from "../../../../src/journal/stream/Record.ts"
import { temporaryDirectory } from "../../../lib/temporaryRoot.ts"
import { event, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"

const withEngine = async (at: SqliteConfig, use: (engine: Engine) => Promise<void>): Promise<void> => {
  const engine = new Engine(open(at.path), at)
  try {
    await use(engine)
  } finally {
    engine.stop()
    engine.store.close()
  }
}

const start = (engine: Engine, at: SqliteConfig): void => {
  for (const _ of scan(engine, at, Date.now()));
}

const reason = (exit: Exit.Exit<unknown, JournalError>): string =>
  Exit.match(exit, {
    onSuccess: () => "",
    onFailure: (cause) => cause.reasons.map((one) => (one._tag === "Fail" ? one.error.reason._tag : one._tag)).join(),
  })

const stored = Exit.succeed([])

const settle = (engine: Engine, sequence: number) =>
  new Promise<SettleExit>((resolve) => engine.settle([settlement("lake", sequence)], resolve))

describe("Engine", () => {
  test("refuses appends until it has read the log", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      const exit = await engine.appendUnsafe(event("a"), ["lake"])
      expect(reason(exit)).toBe("JournalUnavailable")
      start(engine, at)
      expect(await engine.appendUnsafe(event("a"), ["lake"])).toEqual(Exit.succeed("appended"))
    })
  })

  test("commits all events of one turn of the event loop together", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      await Promise.all(Array.from({ length: 100 }, (_, index) => engine.appendUnsafe(event(`evt_${index}`), ["lake"])))
      expect(engine.counters).toMatchObject({ appended: 100, commits: 1 })
    })
  })

  test("a settlement that can't be stored affects neither the events nor the settlements of its commit", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      await engine.appendUnsafe(event("a"), ["lake", "chat", "audit"])
      const poisoned = settlement("chat", 1, { retry: [retrying(1), { ...retrying(1), firstAttemptAt: 0.5 }] })
      const settled = new Promise<SettleExit>((resolve) =>
        engine.settle([settlement("lake", 1), poisoned, settlement("audit", 1)], resolve),
      )
      const appended = engine.appendUnsafe(event("b"), ["lake"])
      expect(await appended).toEqual(Exit.succeed("appended"))
      expect(await settled).toMatchObject({
        value: [{ lane: "chat", error: { reason: { _tag: "JournalUnavailable" } } }],
      })
      expect(engine.counters.commits).toBe(2)
      expect(engine.read(0, 10).map((entry) => entry.event.id)).toEqual(["a", "b"])
      const left = [...engine.lanes.backlogs.values()].map(({ lane, size }) => [lane, size])
      expect(left).toEqual([
        ["lake", 1],
        ["chat", 1],
        ["audit", 0],
      ])
      // The failed settlement leaves nothing in memory or on disk.
      expect(engine.lanes.retries.keys()).toEqual([])
      expect(engine.store.db.prepare("SELECT name, cursor FROM lane ORDER BY name").all()).toEqual([
        { name: "audit", cursor: 1 },
        { name: "chat", cursor: 0 },
        { name: "lake", cursor: 1 },
      ])
    })
  })

  test("a settlement that finds the disk full fails with all of its commit", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      await engine.appendUnsafe(event("a", { body: new Uint8Array(500_000) }), ["lake", "chat"])
      const pages = engine.store.db.prepare("PRAGMA page_count").get()?.page_count
      engine.store.db.prepare(`PRAGMA max_page_count = ${pages}`).get()
      const settled = new Promise<SettleExit>((resolve) =>
        engine.settle([settlement("lake", 1), settlement("chat", 1, { retry: [retrying(1)] })], resolve),
      )
      expect(reason(await settled)).toBe("JournalFull")
      expect(engine.store.db.prepare("SELECT max(cursor) AS cursor FROM lane").get()).toEqual({ cursor: 0 })
    })
  })

  test("stores a settlement in the commit of events that arrive with it", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      await engine.appendUnsafe(event("a"), ["lake"])
      const settled = settle(engine, 1)
      const appended = engine.appendUnsafe(event("b"), ["lake"])
      expect(await appended).toEqual(Exit.succeed("appended"))
      expect(await settled).toEqual(stored)
      expect(engine.counters.commits).toBe(2)
      expect(engine.lanes.backlogs.get("lake")?.size).toBe(1)
    })
  })

  test("fails a group that finds the disk full, keeps nothing of it, and still lets lanes settle", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      await engine.appendUnsafe(event("a"), ["lake"])
      const pages = engine.store.db.prepare("PRAGMA page_count").get()?.page_count
      engine.store.db.prepare(`PRAGMA max_page_count = ${pages}`).get()
      const large = event("large", { body: new Uint8Array(500_000) })
      const settled = settle(engine, 1)
      const [first, repeated] = await Promise.all([
        engine.appendUnsafe(large, ["lake", "new"]),
        engine.appendUnsafe(large, ["lake", "new"]),
      ])
      expect([reason(first), reason(repeated)]).toEqual(["JournalFull", "JournalFull"])
      expect(await settled).toEqual(stored)
      expect(engine.head).toBe(1)
      expect(engine.lanes.backlogs.has("new")).toBe(false)

      // There is room again. The same event is not a duplicate, and its sequence was not used up.
      engine.store.db.prepare("PRAGMA max_page_count = 100000").get()
      engine.inspect()
      expect(await engine.appendUnsafe(large, ["lake"])).toEqual(Exit.succeed("appended"))
      expect(engine.read(1, 9).map((entry) => [entry.sequence, entry.event.id])).toEqual([[2, "large"]])
    })
  })

  test("prunes nothing while the disk is full, because settlements need the room", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      for (const id of ["a", "b"]) await engine.appendUnsafe(event(id), ["lake"])
      const pages = engine.store.db.prepare("PRAGMA page_count").get()?.page_count
      engine.store.db.prepare(`PRAGMA max_page_count = ${pages}`).get()
      const large = event("large", { body: new Uint8Array(500_000) })
      expect(reason(await engine.appendUnsafe(large, ["lake"]))).toBe("JournalFull")
      engine.space.freeDiskBytes = 0
      expect(prune(engine, Number.MAX_SAFE_INTEGER)).toBe(false)
      expect(engine.log.oldestRow()?.first).toBe(1)
      engine.store.db.prepare("PRAGMA max_page_count = 100000").get()
      engine.inspect()
      expect(prune(engine, Number.MAX_SAFE_INTEGER)).toBe(false)
      expect(engine.log.oldestRow()?.first).toBe(2)
    })
  })

  test("breaks permanently at an I/O error, and fails all waiting callers", () => {
    const at = options()
    return withEngine(at, async (engine) => {
      start(engine, at)
      let told = ""
      engine.onBroken = (error) => {
        told = error.message
      }
      const waiting = engine.appendUnsafe(event("a"), ["lake"])
      const settling = settle(engine, 1)
      engine.failed(Object.assign(new Error("disk I/O error"), { errcode: 1034 }))
      expect(reason(await waiting)).toBe("JournalBroken")
      expect(reason(await settling)).toBe("JournalBroken")
      expect(reason(await engine.appendUnsafe(event("b"), ["lake"]))).toBe("JournalBroken")
      expect(reason(await settle(engine, 1))).toBe("JournalBroken")
      expect(() => engine.read(0, 1)).toThrow("disk I/O error")
      expect(() => engine.acknowledge()).toThrow("disk I/O error")
      const again = { event: event("c"), sinks: ["lake"] }
      expect(() => engine.appendWith([again], Origin.replayed, () => () => {})).toThrow("disk I/O error")
      expect(told).toContain("code 1034")
    })
  })

  test("distinguishes temporary from permanent errors", () => {
    const tag = (errcode: number) => classify("j.db", Object.assign(new Error("sqlite"), { errcode })).reason._tag
    expect([13, 778].map(tag)).toEqual(["JournalFull", "JournalFull"])
    expect([1034, 10, 522, 11, 26, 267].map(tag)).toEqual(Array.from({ length: 6 }, () => "JournalBroken"))
    expect([5, 6, 1].map(tag)).toEqual(Array.from({ length: 3 }, () => "JournalUnavailable"))
  })

  test("says that a disk is full only if SQLite did, when a write next to the journal succeeds", () => {
    const message = (errcode: number) => {
      const path = join(temporaryDirectory("classified-"), "journal.db")
      writeFileSync(`${path}-mark`, "")
      return classify(path, Object.assign(new Error("sqlite"), { errcode })).message
    }
    expect(message(8)).toContain("passes when it is tried again")
    expect(message(13)).toContain("is full")
  })
})
