import { describe, expect } from "bun:test"
import { spawn } from "node:child_process"
import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { Journal, type JournalError } from "../../../src/journal/Journal.ts"
import type { SqliteConfig } from "../../../src/journal/sqlite/SqliteConfig.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { journalContract } from "../../contract/journalContract.ts"
import { it } from "../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { createSqlite, options } from "../temporary.ts"

journalContract("SqliteJournal", createSqlite)

type Service = Journal["Service"]

/** Opens the journal, uses it, closes it. */
const session = <A>(at: SqliteConfig, use: (journal: Service) => Effect.Effect<A, JournalError>) =>
  Effect.flatMap(Journal, use).pipe(Effect.provide(SqliteJournal.layer(at)), Effect.scoped)

const appendAll = (journal: Service, ids: ReadonlyArray<string>, sinks: ReadonlyArray<string> = ["lake"]) =>
  Effect.forEach(ids, (id) => journal.append(event(id), sinks), { concurrency: "unbounded", discard: true })

const ids = (count: number, prefix = "evt"): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => `${prefix}_${index}`)

const failure = <A>(effect: Effect.Effect<A, JournalError>) => Effect.orDie(Effect.flip(effect))

const lane = (journal: Service, name: string) =>
  Effect.map(journal.lanes, (lanes) => lanes.find((lane) => lane.name === name))

const read = (journal: Service, after = 0) =>
  Effect.map(journal.read(after, 10_000), (entries) => entries.map((entry) => entry.event.id))

describe("SqliteJournal across restarts", () => {
  it.live("still knows duplicates, but not those older than the window", () =>
    Effect.gen(function* () {
      const at = options()
      const now = Date.now()
      const recent = event("recent", { receivedAt: now - 3_600_000 })
      const old = event("old", { receivedAt: now - 25 * 3_600_000 })
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.append(old, ["lake"])
          yield* journal.append(recent, ["lake"])
        }),
      )
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect(yield* journal.append({ ...recent, receivedAt: now }, ["lake"])).toBe("duplicate")
          expect(yield* journal.append({ ...old, receivedAt: now }, ["lake"])).toBe("appended")
        }),
      )
    }),
  )

  it.live(
    "has every acknowledged event after kill -9, in several rounds",
    () =>
      Effect.gen(function* () {
        const at = options()
        let kept: ReadonlyArray<string> = []
        for (let round = 0; round < 4; round++) {
          const acknowledged = yield* appendUntilKilled(at.path, `r${round}`, 400 + round * 300)
          kept = [...kept, ...acknowledged]
        }
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            const found = new Set(yield* Effect.map(journal.read(0, 1_000_000), (all) => all.map((e) => e.event.id)))
            expect(kept.filter((id) => !found.has(id))).toEqual([])
            expect(found.size).toBeGreaterThanOrEqual(kept.length)
            expect(yield* journal.head).toBe(found.size)
            expect((yield* journal.status).health).toBe("ok")
          }),
        )
      }),
    30_000,
  )
})

/** Runs a process that appends, kills it after so many acknowledgements, and gives what it acknowledged. */
const appendUntilKilled = (path: string, prefix: string, count: number) =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    const child = spawn(process.execPath, [join(import.meta.dir, "../appender.ts"), path, prefix], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    let output = ""
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString()
      if (output.split("\n").length > count) child.kill("SIGKILL")
    })
    child.on("close", () => resume(Effect.succeed(output.split("\n").slice(0, -1))))
  })

describe("SqliteJournal and other processes", () => {
  it.live("refuses a second relay at once, and names the lock", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, () =>
        Effect.gen(function* () {
          const refused = yield* failure(session(at, () => Effect.void))
          expect(refused.message).toContain(`${at.path}-lock`)
          expect(refused.message).toContain("Another relay")
        }),
      )
      yield* session(at, () => Effect.void)
    }),
  )

  it.live("refuses a file that a newer relay wrote, and leaves it alone", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, () => Effect.void)
      const db = new DatabaseSync(at.path)
      db.exec("PRAGMA user_version = 99")
      db.close()
      const refused = yield* failure(session(at, () => Effect.void))
      expect(refused.message).toContain("newer relay (schema 99")
      expect(readdirSync(dirname(at.path)).filter((name) => name.endsWith(".damaged"))).toEqual([])
    }),
  )

  for (const [what, harm] of [
    ["deleted", (path: string) => rmSync(path)],
    [
      "replaced",
      (path: string) => {
        copyFileSync(path, `${path}.copy`)
        rmSync(path)
        copyFileSync(`${path}.copy`, path)
      },
    ],
  ] as const) {
    it.live(`breaks when its file is ${what} while it is open, and acknowledges nothing more`, () =>
      Effect.gen(function* () {
        const at = options()
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            yield* appendAll(journal, ["a"])
            const broken = yield* Effect.forkChild(Effect.flip(journal.broken), { startImmediately: true })
            harm(at.path)
            const refused = yield* failure(journal.append(event("b"), ["lake"]))
            expect(refused.reason._tag).toBe("JournalBroken")
            expect(refused.message).toContain(what)
            expect((yield* Fiber.join(broken)).message).toContain(what)
            expect((yield* failure(journal.settle([settlement("lake", 1)]))).reason._tag).toBe("JournalBroken")
            expect((yield* failure(journal.read(0, 1))).reason._tag).toBe("JournalBroken")
            expect((yield* journal.status).health).toBe("broken")
          }),
        )
      }),
    )
  }
})

describe("SqliteJournal and damage", () => {
  const aside = (at: SqliteConfig) => readdirSync(dirname(at.path)).filter((name) => name.endsWith(".damaged"))

  for (const [what, harm, keeps] of [
    ["damaged", (path: string) => writeFileSync(path, Buffer.alloc(20_000, "garbage")), true],
    ["emptied", (path: string) => truncateSync(path, 0), true],
    ["deleted", (path: string) => rmSync(path), false],
  ] as const) {
    it.live(`begins a new file when it finds the old one ${what}, and stays red until acknowledged`, () =>
      Effect.gen(function* () {
        const at = options()
        yield* session(at, (journal) => appendAll(journal, ids(10)))
        harm(at.path)
        for (const suffix of ["-wal", "-shm"]) rmSync(at.path + suffix, { force: true })
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            const status = yield* journal.status
            expect(status.health).toBe("red")
            expect(status.message).toContain(at.path)
            expect(status.alarm.lines.join("\n")).toBe(status.message)
            expect(Math.abs(Date.now() - status.alarm.since)).toBeLessThan(60_000)
            expect(aside(at).length).toBe(keeps ? 1 : 0)
            // Sequences go on where the old file ended: they may have been told to others.
            yield* journal.append(event("new"), ["lake"])
            expect((yield* journal.read(0, 10)).map((entry) => entry.sequence)).toEqual([11])
          }),
        )
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            expect((yield* journal.status).health).toBe("red")
            yield* journal.acknowledge
            expect((yield* journal.status).health).toBe("ok")
          }),
        )
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            expect((yield* journal.status).health).toBe("ok")
            expect(yield* read(journal)).toEqual(["new"])
          }),
        )
      }),
    )
  }

  it.live("notices that an older copy of the file was put in its place", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) => appendAll(journal, ids(10)))
      copyFileSync(at.path, `${at.path}.old`)
      yield* session(at, (journal) => appendAll(journal, ids(5, "late")))
      copyFileSync(`${at.path}.old`, at.path)
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          const status = yield* journal.status
          expect(status.health).toBe("red")
          expect(status.message).toContain("events 11 to 15 are lost")
          yield* appendAll(journal, ["next"])
          expect(yield* journal.head).toBe(16)
          yield* journal.acknowledge
        }),
      )
      yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.message).toBe("")))
    }),
  )

  it.live("never delivers altered bytes: passes over the event and names it", () =>
    Effect.gen(function* () {
      const at = options()
      const marked = event("evt_marked", { body: new TextEncoder().encode("the bytes that will be altered on disk") })
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* Effect.all(
            [
              journal.append(event("a"), ["lake"]),
              journal.append(marked, ["lake"]),
              journal.append(event("b"), ["lake"]),
            ],
            {
              concurrency: "unbounded",
            },
          )
          yield* appendAll(journal, ["c"])
        }),
      )
      const file = readFileSync(at.path)
      const place = file.indexOf("will be altered")
      expect(place).toBeGreaterThan(0)
      file.writeUInt8((file[place] ?? 0) ^ 1, place)
      writeFileSync(at.path, file)
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect(yield* read(journal)).toEqual(["a", "b", "c"])
          const status = yield* journal.status
          expect(status.health).toBe("red")
          expect(status.message).toContain("Events 2 of the journal")
          yield* journal.openLane("lake")
        }),
      )
      yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("red")))
    }),
  )

  it.live("says which events are lost when a row of the log is missing", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) => Effect.forEach(ids(3), (id) => journal.append(event(id), ["lake"])))
      const db = new DatabaseSync(at.path)
      db.exec("DELETE FROM log WHERE first = 2")
      db.close()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect((yield* journal.status).message).toContain("Events 2 of the journal")
          expect(yield* read(journal)).toEqual(["evt_0", "evt_2"])
          yield* journal.acknowledge
        }),
      )
      yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("ok")))
    }),
  )

  it.live("says which events are lost when the oldest pending rows are missing", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          yield* Effect.forEach(ids(3), (id) => journal.append(event(id), ["lake"]))
          yield* journal.settle([settlement("lake", 1)])
        }),
      )
      const db = new DatabaseSync(at.path)
      db.exec("DELETE FROM log WHERE first <= 2")
      db.close()
      yield* session(at, (journal) =>
        Effect.map(journal.status, (status) => expect(status.message).toContain("Events 2 of the journal")),
      )
    }),
  )

  for (const [what, harm] of [
    ["another cursor", "UPDATE lane SET cursor = 3 WHERE name = 'lake'"],
    ["other ranges", "UPDATE lane SET settled = '[[2,3]]' WHERE name = 'lake'"],
    ["ranges that are none", "UPDATE lane SET settled = '[[2,' WHERE name = 'lake'"],
    ["another name", "UPDATE lane SET name = 'lane' WHERE name = 'lake'"],
    ["nothing", "DELETE FROM lane WHERE name = 'lake'"],
  ] as const) {
    it.live(`begins a lane again and says so when the disk has ${what} for it`, () =>
      Effect.gen(function* () {
        const at = options()
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            yield* journal.openLane("lake")
            yield* journal.openLane("other")
            yield* appendAll(journal, ids(4))
            yield* journal.settle([settlement("lake", 1, { retry: [retrying(1)] })])
          }),
        )
        const db = new DatabaseSync(at.path)
        db.exec(harm)
        db.close()
        const look = session(at, (journal) =>
          Effect.gen(function* () {
            const { message } = yield* journal.status
            const lanes = yield* journal.lanes
            return { message, lanes: lanes.map(({ name, cursor, retrying }) => [name, cursor.sequence, retrying]) }
          }),
        )
        const { message, lanes } = yield* look
        expect(message).toContain("The place of lane lake in the journal was damaged")
        expect(lanes).toEqual([
          ["lake", 0, 1],
          ["other", 0, 0],
        ])
        expect((yield* look).lanes).toEqual(lanes)
      }),
    )
  }

  it.live("believes a lane that an older relay wrote", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          yield* appendAll(journal, ids(4))
          yield* journal.settle([settlement("lake", 3)])
        }),
      )
      const db = new DatabaseSync(at.path)
      db.exec("UPDATE lane SET crc = NULL")
      db.exec("DELETE FROM meta WHERE key = 'lanes'")
      db.close()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect((yield* journal.openLane("lake")).cursor.sequence).toBe(3)
          expect((yield* journal.status).health).toBe("ok")
        }),
      )
    }),
  )

  it.live("builds an index anew that the disk has damaged, and says so", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          yield* appendAll(journal, ids(3))
          yield* journal.settle([settlement("lake", 3, { retry: [retrying(1), retrying(2)], deadLetter: [letter(3)] })])
        }),
      )
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
        if (place < (page + 1) * size) file.write("lbke", place)
      }
      writeFileSync(at.path, file)
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          const { retries, deadLetters } = yield* journal.openLane("lake")
          expect([retries.map(({ sequence }) => sequence), deadLetters]).toEqual([[1, 2], 1])
          expect((yield* journal.deadLetters({ lane: "lake", limit: 9 })).length).toBe(1)
          const { message } = yield* journal.status
          expect(message).toContain("was damaged (table retry_record)")
          expect(message).toContain("was damaged (table dead)")
        }),
      )
    }),
  )

  it.live("gives up a retrying event that can't be read, and names it", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          yield* appendAll(journal, ids(3))
          yield* journal.settle([settlement("lake", 3, { retry: [retrying(1), retrying(2)] })])
        }),
      )
      const db = new DatabaseSync(at.path)
      db.exec("UPDATE retry_record SET record = zeroblob(length(record)) WHERE sequence = 1")
      db.exec("UPDATE retry SET attempts = '[{'")
      db.close()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect(yield* journal.openLane("lake")).toMatchObject({ retrying: 2, backlog: 2 })
          const { entries, lost } = yield* journal.readRetries("lake", [1, 2])
          expect([entries.map(({ sequence }) => sequence), lost]).toEqual([[2], [1]])
          expect(yield* journal.openLane("lake")).toMatchObject({ retrying: 1, backlog: 1 })
          expect((yield* journal.status).message).toContain("Event 1 of lane lake can't be read")
        }),
      )
      yield* session(at, (journal) => Effect.map(journal.status, (status) => expect(status.health).toBe("red")))
    }),
  )
})

describe("SqliteJournal and room", () => {
  const large = (id: string) => event(id, { body: new Uint8Array(100_000) })

  it.effect("refuses appends when maxSize is reached, lets lanes settle, and takes appends again", () =>
    Effect.gen(function* () {
      const at = options({ maxSize: 3_000_000 })
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          let refused: JournalError | undefined
          let count = 0
          while (refused === undefined && count < 100) {
            const result = yield* Effect.result(journal.append(large(`evt_${count}`), ["lake"]))
            if (result._tag === "Failure") refused = result.failure
            else count++
          }
          expect(refused?.reason).toMatchObject({ _tag: "JournalFull", cause: "maxSize" })
          expect(count).toBeGreaterThan(20)
          expect(yield* journal.status).toMatchObject({ health: "full", filling: 95 })
          expect(yield* journal.append(large("evt_0"), ["lake"])).toBe("duplicate")
          yield* journal.settle([settlement("lake", count)])
          yield* TestClock.adjust(Duration.seconds(2))
          expect(yield* journal.append(large("more"), ["lake"])).toBe("appended")
          const status = yield* journal.status
          expect(status.health).toBe("ok")
          expect(status.first).toBeGreaterThan(1)
        }),
      )
    }),
  )

  it.live("refuses appends while the disk has less than minFree, and lets lanes settle", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) => appendAll(journal, ["a", "b"]))
      yield* session({ ...at, minFree: Number.MAX_SAFE_INTEGER }, (journal) =>
        Effect.gen(function* () {
          const refused = yield* failure(journal.append(event("c"), ["lake"]))
          expect(refused.reason).toMatchObject({ _tag: "JournalFull", cause: "disk" })
          yield* journal.settle([settlement("lake", 2)])
          expect((yield* journal.openLane("lake")).backlog).toBe(0)
        }),
      )
    }),
  )

  it.effect("forgets what is older than the retention, but not what a lane still waits for", () =>
    Effect.gen(function* () {
      const at = options({ retention: Duration.hours(1) })
      yield* TestClock.setTime(10 * 3_600_000)
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("slow")
          const old = (id: string) => event(id, { receivedAt: 10 * 3_600_000 })
          for (const id of ids(6)) yield* journal.append(old(id), ["lake", "slow"])
          yield* journal.settle([
            settlement("lake", 6),
            settlement("slow", 3, { retry: [retrying(2)], deadLetter: [letter(3)] }),
          ])
          yield* TestClock.adjust(Duration.minutes(59))
          expect((yield* journal.status).first).toBe(1)
          yield* TestClock.adjust(Duration.minutes(2))
          // The last row stays: it says how far the log had come.
          expect((yield* journal.status).first).toBe(6)
          expect((yield* journal.readRetries("slow", [2])).entries.length).toBe(1)
          expect((yield* journal.deadLetters({ limit: 9 })).length).toBe(1)
          expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 4 })
        }),
      )
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 4, cursor: { sequence: 3 } })
          expect(yield* read(journal, 3)).toEqual(["evt_3", "evt_4", "evt_5"])
          yield* journal.settle([settlement("slow", 6, { deadLetter: [letter(5)] })])
          expect((yield* journal.deadLetters({ limit: 1 })).map(({ entry }) => entry.event.id)).toEqual(["evt_4"])
          yield* TestClock.adjust(Duration.minutes(1))
        }),
      )
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect(yield* read(journal)).toEqual(["evt_5"])
          expect(yield* journal.head).toBe(6)
          expect((yield* journal.status).health).toBe("ok")
        }),
      )
    }),
  )

  // Ten times what the journal may hold, while one lane waits for a few events and one for none.
  it.effect("a sink that is away takes the room of its own events, and nobody else's", () =>
    Effect.gen(function* () {
      const at = options({ maxSize: 4_000_000 })
      const some = (id: string) => event(id, { body: new Uint8Array(20_000) })
      const together = 10
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("away")
          yield* journal.openLane("idle")
          for (let first = 1; first <= 2_000; first += together) {
            yield* Effect.forEach(
              Array.from({ length: together }, (_, index) => first + index),
              (sequence) => journal.append(some(`evt_${sequence}`), sequence % 100 === 7 ? ["lake", "away"] : ["lake"]),
              { concurrency: "unbounded", discard: true },
            )
            yield* journal.settle([settlement("lake", first + together - 1)])
            yield* TestClock.adjust(Duration.millis(250))
          }
          expect((yield* journal.status).usedBytes).toBeLessThan(4_000_000)
          expect(yield* lane(journal, "away")).toMatchObject({ backlog: 20, cursor: { sequence: 0 } })
        }),
      )
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          expect((yield* journal.status).health).toBe("ok")
          const pending = (yield* journal.read(0, 200)).filter(({ sinks }) => sinks.includes("away"))
          expect(pending.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 20 }, (_, n) => n * 100 + 7))
          // Read from anywhere, and settled in pieces, it is the same log as ever.
          expect((yield* journal.read(507, 1)).map(({ sequence }) => sequence)).toEqual([607])
          yield* journal.settle([
            settlement("away", 200, { cursor: { sequence: 200, settled: [[300, 310]] }, retry: [retrying(7)] }),
          ])
          yield* TestClock.adjust(Duration.seconds(1))
          expect((yield* journal.read(0, 3)).map(({ sequence }) => sequence)).toEqual([207, 407, 507])
          expect((yield* journal.readRetries("away", [7])).entries.map(({ event }) => event.id)).toEqual(["evt_7"])
          expect(yield* lane(journal, "away")).toMatchObject({ backlog: 18 })
          expect(yield* journal.moveLane("away", "heir")).toBe(18)
          expect((yield* journal.lanes).map(({ name, backlog }) => [name, backlog])).toEqual([
            ["heir", 18],
            ["idle", 0],
            ["lake", 0],
          ])
        }),
      )
    }),
  )
})
