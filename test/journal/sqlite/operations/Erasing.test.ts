import { describe, expect } from "bun:test"
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect, Exit, Fiber } from "effect"
import { erase } from "../../../../src/admin/api/ErasureApi.ts"
import { erasedAtOnce, eraseEvents } from "../../../../src/journal/archive/Erasure.ts"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { FreeSpace } from "../../../../src/journal/sqlite/file/FreeSpace.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import * as Maintenance from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import * as Erasing from "../../../../src/journal/sqlite/operations/Erasing.ts"
import { scrub } from "../../../../src/journal/sqlite/operations/Erasing.ts"
import { prune } from "../../../../src/journal/sqlite/operations/Retention.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { it } from "../../../lib/effect.ts"
import { sample } from "../../../lib/tries.ts"
import { allEvents, clientOf, play } from "../../histories.ts"
import { markerOf, remainsIn } from "../../markers.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { ids, type Service, session } from "../session.ts"

const pageSize = 32_768

const opened = (at: SqliteConfig): Engine => {
  const engine = new Engine(open(at.path), at)
  for (const _ of scan(engine, at, Date.now()));
  return engine
}

const close = (engine: Engine): void => {
  engine.stop()
  engine.store.close()
}

/** Prunes as much of the log as possible. Pending events are kept beside it. */
const pruneAll = (at: SqliteConfig): void => {
  const engine = opened(at)
  while (prune(engine, Number.MAX_SAFE_INTEGER));
  close(engine)
}

/** Returns all rows of a file, except for the table `ended`: an erasure deletes the outcomes of pruned events. */
const rowsOf = (at: SqliteConfig): ReadonlyArray<unknown> => {
  const db = new DatabaseSync(at.path, { readOnly: true })
  try {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'ended' ORDER BY name")
      .all()
    return tables.map(({ name }) => [name, db.prepare(`SELECT * FROM "${name}"`).all()])
  } finally {
    db.close()
  }
}

const isOf = (accountId: string) => (one: { readonly accountId: string }) => one.accountId === accountId

/** Erases the events of an account, in parts, as a command does. */
const eraseAll = Effect.fnUntraced(function* (journal: Service, accountId: string) {
  const events = (yield* allEvents(journal)).filter(({ event }) => isOf(accountId)(event))
  for (let next = 0; next < events.length; next += 7) {
    yield* journal.erase(
      events.slice(next, next + 7).map(({ sequence }) => sequence),
      true,
    )
  }
  return events.length
})

/** Erases the events of an account's client, as `relay events erase --object` does. */
const eraseClient = (journal: Service, accountId: string) => {
  const request = { object: clientOf(accountId), giveUp: true }
  return erase({ archive: journal, whileStopped: (_, inside) => inside }, request)
}

/** The states of an event that a lane still needs. */
const isHeld: ReadonlySet<string> = new Set(["pending", "retrying", "dead"])

const idsOf = (events: ReadonlyArray<{ readonly id: string }>) => events.map(({ id }) => id)

describe("erasing events of a file", () => {
  for (const seed of sample([11, 12, 13, 14, 15, 16, 17, 18, 19, 20])) {
    it.live(
      `leaves no 16 bytes of them in any file of the journal, while a relay runs on it (history ${seed})`,
      function* () {
        const at = options()
        const played = [...(yield* session(at, (journal) => play(journal, seed, 80)))]
        pruneAll(at)
        yield* session(at, function* (journal) {
          yield* journal.openLane("pond", { renamedFrom: "lake" })
          yield* journal.openLane("lake", { renamedFrom: "pond" })
          played.push(...(yield* play(journal, seed + 1_000, 60)))
          // The journal may delete the other events meanwhile, because they are no longer in the log.
          const held = Effect.map(allEvents(journal), (all) =>
            all.filter(
              ({ event, deliveries }) =>
                event.accountId === "bert" && deliveries.some(({ outcome }) => isHeld.has(outcome)),
            ),
          )
          const kept = yield* held
          const erased = yield* seed % 2 === 0 ? eraseAll(journal, "anna") : eraseClient(journal, "anna")
          expect(typeof erased === "number" ? erased : erased.count).toBeGreaterThan(1)
          const before = rowsOf(at)
          expect((yield* journal.scrub).some((place) => place.includes("damaged"))).toBe(false)
          expect(remainsIn(dirname(at.path), idsOf(played.filter(isOf("anna"))))).toEqual([])
          // All rows are as before.
          expect(rowsOf(at)).toEqual(before)
          expect(yield* held).toEqual(kept)
        })
        expect(remainsIn(dirname(at.path), idsOf(played.filter(isOf("anna"))))).toEqual([])
        expect((yield* Maintenance.check(at.path)).sound).toBe(true)
        // The journal opens again with the same events.
        const after = (yield* session(at, allEvents)).filter(({ event }) => isOf("anna")(event))
        expect(after.every(({ event }) => event.erased !== undefined)).toBe(true)
      },
    )
  }

  it.live("leaves none if pages are written between its steps from a cache with the old bytes", function* () {
    const at = options()
    const played = yield* session(at, function* (journal) {
      const played = yield* play(journal, 33, 80)
      yield* eraseAll(journal, "anna")
      return played
    })
    expect(remainsIn(dirname(at.path), idsOf(played.filter(isOf("anna"))))).not.toEqual([])
    const engine = opened(at)
    const write = (number: number) => {
      engine.append(event(`more_${number}`), ["lake", "audit"], () => {})
      engine.flush(true)
      const lane = number % 2 === 0 ? "lake" : "audit"
      engine.settle([settlement(lane, engine.head, { retry: [retrying(engine.head)] })], () => {})
      engine.flush(true)
    }
    const steps = scrub(engine, 0)
    let count = 0
    for (let step = steps.next(); step.done !== true; step = steps.next()) {
      write(count++)
    }
    write(count)
    expect(count).toBeGreaterThan(20)
    expect(remainsIn(dirname(at.path), idsOf(played.filter(isOf("anna"))))).toEqual([])
    close(engine)
    expect(remainsIn(dirname(at.path), idsOf(played.filter(isOf("anna"))))).toEqual([])
    expect(yield* Maintenance.check(at.path)).toMatchObject({ sound: true })
  })

  it.live("leaves a damaged page unchanged, and reports it", function* () {
    const at = options()
    yield* session(at, (journal) => play(journal, 41, 40))
    const db = new DatabaseSync(at.path)
    const roots = db.prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").all()
    db.close()
    const from = (Number(roots.find(({ name }) => name === "meta")?.rootpage) - 1) * pageSize
    const file = readFileSync(at.path)
    // Damages the page: its rows now start before the end of the list of rows.
    file.writeUInt16BE(9, from + 5)
    writeFileSync(at.path, file)
    const fd = openSync(at.path, "r+")
    const space = new FreeSpace(fd)
    for (const _ of space.overwrite(roots.map(({ rootpage }) => Number(rootpage))));
    closeSync(fd)
    expect(space.damaged).toBe(1)
    const page = (bytes: Buffer) => bytes.subarray(from, from + pageSize)
    expect(page(readFileSync(at.path))).toEqual(page(file))
    expect(Erasing.notReached(space.damaged)[0]).toContain("damaged pages of the journal's file, 1 of them")
  })

  it.live("overwrites while the relay runs, and empties the write-ahead log", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      const body = (id: string) => new TextEncoder().encode(`${markerOf(id)}${"x".repeat(70_000)}${markerOf(id)}`)
      for (const id of ["a", "b"]) yield* journal.append(event(id, { body: body(id) }), ["lake"])
      yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1)] })])
      yield* journal.scrub
      expect(remainsIn(dirname(at.path), ["a"])).toEqual(["journal.db: name of a"])
      yield* journal.erase([1], false)
      yield* journal.scrub
      expect(remainsIn(dirname(at.path), ["a", "b"])).toEqual(["journal.db: name of b"])
    })
  })

  it.live("waits while another process reads from the write-ahead log", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      yield* journal.append(event("a"), [])
      const reader = new DatabaseSync(at.path)
      reader.prepare("BEGIN").run()
      reader.prepare("SELECT count(*) FROM log").get()
      yield* journal.erase([1], false)
      const scrubbing = yield* Effect.forkChild(Effect.exit(journal.scrub))
      yield* Effect.sleep("60 millis")
      expect(scrubbing.pollUnsafe()).toBeUndefined()
      reader.close()
      expect(Exit.isSuccess(yield* Fiber.join(scrubbing))).toBe(true)
    })
  })

  it.live("leaves each event whole or erased after a crash at any point", function* () {
    const at = options()
    const count = erasedAtOnce * 2 + 7
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* Effect.forEach(ids(count), (id) => journal.append(event(id), ["lake"]), { concurrency: "unbounded" })
    })
    const engine = opened(at)
    const sequences = ids(count).map((_, index) => index + 1)
    let erased = 0
    const crashes: Array<{ readonly path: string; readonly erased: number }> = []
    yield* eraseEvents(sequences, (part, why) =>
      Effect.sync(() => {
        const done = Erasing.erase(engine, part, true, why)
        erased += done.erased.length
        // A crash leaves these files: the write-ahead log is not checkpointed, and nothing is closed.
        const path = join(dirname(at.path), `crash-${erased}`, "journal.db")
        mkdirSync(dirname(path))
        for (const suffix of ["", "-wal", "-mark"]) {
          if (existsSync(at.path + suffix)) copyFileSync(at.path + suffix, path + suffix)
        }
        crashes.push({ path, erased })
        return done
      }),
    )
    expect(crashes.map(({ erased }) => erased)).toEqual([erasedAtOnce, erasedAtOnce * 2, count])
    for (const { path, erased } of crashes) {
      const found = yield* session({ ...at, path }, (journal) => Effect.all([allEvents(journal), journal.lanes]))
      const [events, [lake]] = found
      expect(events.map(({ event }) => event.erased !== undefined)).toEqual(sequences.map((at) => at <= erased))
      expect(events.every(({ event, body }) => (event.erased === undefined) === (body?.length ?? 0) > 0)).toBe(true)
      // Erased events are abandoned, and the others are still pending.
      expect(lake?.backlog).toBe(count - erased)
      expect(yield* Maintenance.check(path)).toMatchObject({ sound: true, events: count })
    }
    close(engine)
  })
})
