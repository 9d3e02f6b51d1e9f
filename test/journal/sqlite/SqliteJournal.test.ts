import { describe, expect } from "bun:test"
import { spawn } from "node:child_process"
import { copyFileSync, readdirSync, rmSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect, Fiber } from "effect"
import { backup, check, salvage } from "../../../src/journal/sqlite/maintenance/Maintenance.ts"
import { relayVersion } from "../../../src/runtime/Version.ts"
import { upkeepContract } from "../../contract/journal/upkeepContract.ts"
import { journalContract } from "../../contract/journalContract.ts"
import { it } from "../../lib/effect.ts"
import { tries } from "../../lib/tries.ts"
import { event, healthOf, settlement } from "../samples.ts"
import { createOnDisk, createSqlite, options } from "../temporary.ts"
import { appendAll, failure, ids, lane, session } from "./session.ts"

journalContract("SqliteJournal", createSqlite)
upkeepContract("SqliteJournal", createOnDisk)

describe("SqliteJournal's dead letters", () => {
  it.live("take space with the answers to their attempts, and give it back", function* () {
    const answer = "ü".repeat(1_024)
    yield* session(options(), function* (journal) {
      const bytes = Effect.map(journal.lanes, (lanes) => lanes.find(({ name }) => name === "lake")?.deadLetterBytes)
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      const failed = Array.from({ length: 10 }, (_, at) => ({ at, reason: "DeliveryFailed", message: "", answer }))
      const letter = { sequence: 1, at: 9, refunded: 0, failed }
      yield* journal.settle([settlement("lake", 1, { deadLetter: [letter] })])
      expect(yield* bytes).toBeGreaterThan(10 * 2_048)
      yield* journal.dropDeadLetters(["lake:1"])
      expect(yield* bytes).toBe(0)
    })
  })
})

describe("SqliteJournal's lanes", () => {
  it.live("are not woken for the events of others, and begin behind these after a restart", function* () {
    const at = options()
    yield* session(at, function* (journal) {
      for (const name of ["lake", "audit"]) yield* journal.openLane(name)
      const waiting = yield* Effect.forkChild(journal.awaitBeyond(0, "audit"), { startImmediately: true })
      yield* appendAll(journal, ids(3))
      yield* journal.settle([settlement("lake", 3)])
      expect(waiting.pollUnsafe()).toBeUndefined()
      expect((yield* lane(journal, "audit"))?.cursor.sequence).toBe(3)
      yield* journal.append(event("own"), ["audit"])
      expect(yield* Fiber.join(waiting)).toBe(3)
      yield* journal.settle([settlement("audit", 4)])
      yield* appendAll(journal, ids(2, "more"))
    })
    yield* session(at, function* (journal) {
      expect((yield* journal.openLane("audit")).cursor.sequence).toBe(6)
      expect(yield* journal.openLane("lake")).toMatchObject({ cursor: { sequence: 3 }, backlog: 2 })
    })
  })
})

describe("SqliteJournal across restarts", () => {
  it.live("still knows duplicates, but not those older than the window", function* () {
    const at = options()
    const now = Date.now()
    const recent = event("recent", { receivedAt: now - 3_600_000 })
    const old = event("old", { receivedAt: now - 25 * 3_600_000 })
    yield* session(at, function* (journal) {
      yield* journal.append(old, ["lake"])
      yield* journal.append(recent, ["lake"])
    })
    yield* session(at, function* (journal) {
      expect(yield* journal.append({ ...recent, receivedAt: now }, ["lake"])).toBe("duplicate")
      expect(yield* journal.append({ ...old, receivedAt: now }, ["lake"])).toBe("appended")
    })
  })

  it.live(
    "has every acknowledged event after kill -9, in several rounds",
    function* () {
      const at = options()
      let kept: ReadonlyArray<string> = []
      for (let round = 0; round < tries(10); round++) {
        const acknowledged = yield* appendUntilKilled(at.path, `r${round}`, 400 + (round % 4) * 300)
        kept = [...kept, ...acknowledged]
      }
      yield* session(at, function* (journal) {
        const found = new Set(yield* Effect.map(journal.read(0, 1_000_000), (all) => all.map((e) => e.event.id)))
        expect(kept.filter((id) => !found.has(id))).toEqual([])
        expect(found.size).toBeGreaterThanOrEqual(kept.length)
        expect(yield* journal.head).toBe(found.size)
        expect(yield* healthOf(journal)).toBe("ok")
      })
    },
    30_000,
  )
})

/** Runs a process that appends, and kills it after `count` acknowledgements. Returns its acknowledgements. */
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
  it.live("refuses a second relay immediately, and names the lock", function* () {
    const at = options()
    yield* session(at, function* () {
      const refused = yield* failure(session(at, () => Effect.void))
      expect(refused.message).toContain(`${at.path}-lock`)
      expect(refused.message).toContain("Another relay")
    })
    yield* session(at, () => Effect.void)
  })

  it.live("refuses a file of a newer relay, and leaves it unchanged", function* () {
    const at = options()
    yield* session(at, () => Effect.void)
    const write = (sql: string) => {
      const db = new DatabaseSync(at.path)
      db.exec(sql)
      db.close()
    }
    const refusals = Effect.all([
      Effect.flip(session(at, () => Effect.void)),
      Effect.flip(check(at.path)),
      Effect.flip(backup(at.path, `${at.path}.copy`)),
      Effect.flip(salvage(at.path, `${at.path}.ndjson`)),
    ])
    write("PRAGMA user_version = 99; UPDATE meta SET value = '9.9.9-rc.1' WHERE key = 'writer'")
    for (const { message } of yield* refusals) {
      expect(message).toContain(
        `relay 9.9.9-rc.1 wrote the journal ${at.path}, which is too new for this relay (${relayVersion}): run relay 9.9.9-rc.1 or later, or restore a backup from before the upgrade.`,
      )
    }
    // Values that the relay itself never writes there are never shown.
    for (const other of ["SET value = '9 \u001b[2J'", `SET value = '${relayVersion}'`, "SET key = 'author'"]) {
      write(`UPDATE meta ${other} WHERE key = 'writer'`)
      for (const { message } of yield* refusals) {
        expect(message).toContain(`a newer relay wrote the journal ${at.path}, which is too new`)
        expect(message).toContain("run that version, or restore")
      }
    }
    expect(readdirSync(dirname(at.path)).filter((name) => name.endsWith(".damaged"))).toEqual([])
  })

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
    it.live(`breaks if its file is ${what} while it is open, and acknowledges nothing more`, function* () {
      const at = options()
      yield* session(at, function* (journal) {
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
      })
    })
  }
})
