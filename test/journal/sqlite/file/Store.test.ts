/** Journals whose files are damaged, look damaged, are truncated or missing. */
import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { basename, dirname } from "node:path"
import process from "node:process"
import { Exit } from "effect"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { causeOf } from "../../../../src/journal/sqlite/file/SqliteFailure.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { event } from "../../samples.ts"
import { options } from "../../temporary.ts"

const session = async (at: SqliteConfig, use: (engine: Engine) => Promise<void> | void): Promise<void> => {
  const engine = new Engine(open(at.path), at)
  try {
    for (const _ of scan(engine, at, Date.now()));
    await use(engine)
  } finally {
    engine.stop()
    engine.checkpoints.run()
    engine.store.close()
  }
}

const fill = (engine: Engine, count: number, name = "evt") =>
  Promise.all(
    Array.from({ length: count }, (_, index) =>
      engine.appendUnsafe(event(`${name}_${index}`, { body: new Uint8Array(2_000).fill(index + 1) }), ["lake"]),
    ),
  )

const aside = (at: SqliteConfig) => readdirSync(dirname(at.path)).filter((name) => /damaged$/.test(name))
const malformed = () => Object.assign(new Error("database disk image is malformed"), { errcode: 11 })

describe("a journal that seemed damaged while it was in use", () => {
  test("is kept if all of it can be read at the next start, and that is reported", async () => {
    const at = options()
    await session(at, async (engine) => {
      await fill(engine, 3)
      engine.failed(malformed())
    })
    await session(at, (engine) => {
      expect(engine.alarm.raised.lines.join("\n")).toContain("is sound: all of it was read again, and nothing is lost")
      expect(engine.read(0, 9).map((entry) => entry.event.id)).toEqual(["evt_0", "evt_1", "evt_2"])
      expect(aside(at)).toEqual([])
      engine.acknowledge()
    })
    await session(at, (engine) => expect(engine.alarm.raised.lines.join("\n")).toBe(""))
  })

  test("is moved aside if any page of it can't be read, even a page that the start doesn't need", async () => {
    const at = options()
    await session(at, async (engine) => {
      for (let turn = 0; turn < 4; turn++) {
        const bodies = Array.from({ length: 30 }, (_, index) =>
          engine.appendUnsafe(event(`evt_${turn}_${index}`, { body: new Uint8Array(3_000).fill(65 + turn) }), ["lake"]),
        )
        await Promise.all(bodies)
      }
      engine.failed(malformed())
    })
    const file = readFileSync(at.path)
    const page = file.readUInt16BE(16)
    // The pointer of an overflow page to the next one.
    const place = Math.floor(file.indexOf(Buffer.alloc(2_000, 66)) / page) * page
    file.writeUInt32BE(0xffffff, place)
    writeFileSync(at.path, file)
    await session(at, (engine) => {
      expect(engine.alarm.raised.lines.join("\n")).toContain("is damaged")
      expect(engine.alarm.raised.lines.join("\n")).toContain("`relay journal import` delivers its undelivered events")
      expect(aside(at)).toHaveLength(1)
      expect(engine.head).toBe(120)
    })
  })
})

describe("another process that opens the journal while the relay runs on it", () => {
  const sqlite = (path: string, sql: string) =>
    spawnSync(process.execPath, [
      "-e",
      `const db = new (require("node:sqlite").DatabaseSync)(${JSON.stringify(path)}); db.prepare(${JSON.stringify(sql)}).get(); db.close()`,
    ])

  for (const [what, sql] of [
    ["reads it", "SELECT count(*) FROM log"],
    ["empties its write-ahead log", "PRAGMA wal_checkpoint(TRUNCATE)"],
    ["starts its write-ahead log over", "PRAGMA wal_checkpoint(RESTART)"],
  ] as const) {
    test(`and ${what} stops nothing and loses nothing`, async () => {
      const at = options()
      await session(at, async (engine) => {
        await fill(engine, 50)
        engine.inspect()
        expect(sqlite(at.path, sql).status).toBe(0)
        engine.inspect()
        if (sql.includes("TRUNCATE")) expect(statSync(`${at.path}-wal`).size).toBe(0)
        expect((await fill(engine, 50, "more")).every(Exit.isSuccess)).toBe(true)
        engine.inspect()
        expect(sqlite(at.path, sql).status).toBe(0)
        engine.inspect()
      })
      await session(at, (engine) => {
        expect(engine.head).toBe(100)
        expect(engine.read(0, 200)).toHaveLength(100)
        expect(engine.alarm.raised.lines.join("\n")).toBe("")
      })
    })
  }

  test("keeps the write-ahead log when it closes an idle journal", async () => {
    const at = options()
    await session(at, async (engine) => {
      await fill(engine, 50)
      const before = statSync(`${at.path}-wal`)
      expect(sqlite(at.path, "SELECT count(*) FROM log").status).toBe(0)
      expect(statSync(`${at.path}-wal`)).toMatchObject({ ino: before.ino, size: before.size })
    })
  })

  test("doesn't hide that the log it has emptied is cut off later", async () => {
    const at = options()
    await session(at, async (engine) => {
      await fill(engine, 50)
      expect(sqlite(at.path, "PRAGMA wal_checkpoint(TRUNCATE)").status).toBe(0)
      await fill(engine, 50, "more")
      truncateSync(`${at.path}-wal`, statSync(`${at.path}-wal`).size - 1)
      expect(() => engine.inspect()).toThrow("was cut off while the relay was running on it")
    })
  })
})

describe("a file that is cut off while the relay runs on it", () => {
  // Within the first page, because a write-ahead log that was restarted may be longer than its used part.
  for (const [suffix, what] of [
    ["-wal", "write-ahead log"],
    ["", "journal"],
  ] as const) {
    test(`breaks the journal at the next check (${what})`, async () => {
      const at = options()
      await session(at, async (engine) => {
        await fill(engine, 50)
        engine.inspect()
        truncateSync(at.path + suffix, 4_096)
        expect(() => engine.inspect()).toThrow("was cut off while the relay was running on it")
      })
    })

    test(`acknowledges nothing more, even appends that would make it as long again (${what})`, async () => {
      const at = options()
      await session(at, async (engine) => {
        await fill(engine, 50)
        engine.inspect()
        truncateSync(at.path + suffix, 4_096)
        const [exit] = await fill(engine, 200, "more")
        expect(JSON.stringify(exit)).toContain("was cut off while the relay was running on it")
      })
    })
  }
})

describe("a journal that is missing with its mark", () => {
  const begin = async () => {
    const at = options()
    await session(at, (engine) => void engine.appendUnsafe(event("a"), ["lake"]))
    return at
  }
  const keepOnly = (at: SqliteConfig, suffix: string) => {
    for (const name of readdirSync(dirname(at.path))) {
      if (name !== basename(at.path) + suffix) rmSync(`${dirname(at.path)}/${name}`)
    }
  }

  for (const suffix of ["-lock", "-ballast", "-mark", "-wal", ".2026-11-20T08-00-00-000Z.damaged", ".backup"]) {
    test(`makes the new one red when the ${suffix} is left`, async () => {
      const at = await begin()
      keepOnly(at, "-lock")
      if (suffix !== "-lock") renameSync(`${at.path}-lock`, at.path + suffix)
      writeFileSync(at.path + suffix, "relay journal torn")
      if (suffix === "-lock") rmSync(at.path + suffix)
      if (suffix === "-lock") writeFileSync(at.path + suffix, "")
      await session(at, (engine) => {
        expect(engine.alarm.raised.lines.join("\n")).toContain(basename(at.path) + suffix)
        expect(engine.alarm.raised.lines.join("\n")).toContain("it was there before")
        expect(engine.alarm.raised.lines.join("\n")).toContain(
          "started at event 1: the end of the old one is not known",
        )
      })
    })
  }

  test("is not suspected if no part of it was left, whatever other files are there", async () => {
    const at = options()
    mkdirSync(dirname(at.path), { recursive: true })
    for (const name of ["journal.db.json", "journal.log", "events.ndjson"]) {
      writeFileSync(`${dirname(at.path)}/${name}`, "{}")
    }
    await session(at, (engine) => expect(engine.alarm.raised.lines.join("\n")).toBe(""))
  })
})

describe("a write that fails", () => {
  const source = (module: string) => JSON.stringify(`${import.meta.dir}/../../../../src/journal/sqlite/${module}.ts`)

  test("names the process's file size limit if that is the cause", async () => {
    const at = options()
    await session(at, (engine) => fill(engine, 50).then(() => {}))
    const script = `
      import { Engine } from ${source("commit/Engine")}
      import { open } from ${source("file/Store")}
      const store = open(process.argv[1])
      const engine = new Engine(store, ${JSON.stringify({ ...at, duplicates: { count: 10, age: 1_000 } })})
      console.log(engine.failed(Object.assign(new Error("disk I/O error"), { errcode: 778 })).message)
      console.log(engine.space.message)
      process.exit()`
    // In blocks of 512 bytes. There is room for the writes of the start, but not for a commit.
    const limit = Math.ceil(statSync(at.path).size / 512) + 20
    const run = `ulimit -f ${limit}; exec "$@"`
    const child = spawnSync("sh", ["-c", run, "sh", process.execPath, "-e", script, at.path])
    const said = child.stdout.toString().trimEnd().split("\n")
    expect(said).toHaveLength(2)
    for (const line of said) expect(line).toContain(`${at.path} may grow no further. Raise the file size limit`)
  })

  test("reports that a write succeeds again, and that the disk is full if SQLite said so", async () => {
    const at = options()
    await session(at, (engine) => {
      const said = (errcode: number) => engine.failed(Object.assign(new Error("sqlite"), { errcode })).message
      expect(said(778)).toContain("Look at the kernel's log for a failing disk")
      expect(readdirSync(dirname(at.path)).filter((name) => name.endsWith("-probe"))).toEqual([])
    })
    expect(causeOf(`${at.path}.gone/journal.db`, false)).toContain("ENOENT")
  })
})
