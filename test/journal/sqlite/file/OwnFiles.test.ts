/** The files of a journal that are not the relay's: refused, named, and left as they are. */
import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:net"
import { basename, dirname } from "node:path"
import { backup, DatabaseSync } from "node:sqlite"
import { Effect, Exit } from "effect"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { source } from "../../../../src/journal/sqlite/copy/SqliteCopySource.ts"
import * as OwnFiles from "../../../../src/journal/sqlite/file/OwnFiles.ts"
import { ballastBytes } from "../../../../src/journal/sqlite/file/Space.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import * as Maintenance from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import { Sqlite } from "../../../../src/journal/sqlite/Sqlite.ts"
import { hourOf, lockOf, type SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { statusOf } from "../../../../src/journal/sqlite/service/SqliteArchive.ts"
import { event } from "../../samples.ts"
import { options } from "../../temporary.ts"

/** A config whose directory exists and is empty. */
const prepared = (): SqliteConfig => {
  const at = options()
  mkdirSync(dirname(at.path), { recursive: true })
  return at
}

const used = (): SqliteConfig => {
  const at = options()
  open(at.path).close()
  return at
}

const beside = ({ path }: SqliteConfig) => readdirSync(dirname(path)).toSorted()

const database = (path: string, sql = "CREATE TABLE log (line TEXT); INSERT INTO log VALUES ('theirs')"): void => {
  const db = new DatabaseSync(path)
  db.exec(sql)
  db.close()
}

/** Another program's database while that program runs: its tables are only in the write-ahead log. */
const running = (path: string): void => {
  const db = new DatabaseSync(path)
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE log (line TEXT)")
  for (const suffix of ["", "-wal"]) writeFileSync(`${path}.copy${suffix}`, readFileSync(path + suffix))
  db.close()
  for (const suffix of ["", "-wal"]) renameSync(`${path}.copy${suffix}`, path + suffix)
}

describe("a path that holds something other than a journal", () => {
  for (const [what, make, told] of [
    ["a directory", (path: string) => mkdirSync(path), "is a directory, not a file"],
    ["a FIFO", (path: string) => spawnSync("mkfifo", [path]), "is a FIFO, not a file"],
    ["a text file", (path: string) => writeFileSync(path, "dear diary"), "is not a journal of the relay"],
    ["another program's database", database, "is another program's SQLite database"],
    ["a database in use by another program", running, "is another program's SQLite database"],
    ["a link to a device", (path: string) => symlinkSync("/dev/null", path), "is a device, not a file"],
    [
      "a link to a text file",
      (path: string) => {
        writeFileSync(`${path}.txt`, "dear diary")
        symlinkSync(`${path}.txt`, path)
      },
      "is not a journal of the relay",
    ],
    [
      "a link to a file that is not there",
      (path: string) => symlinkSync(`${path}.other`, path),
      "and nothing is there; mount its disk, or delete the link",
    ],
  ] as const) {
    test(`is refused, named and left unchanged: ${what}`, async () => {
      const at = prepared()
      make(at.path)
      const before = beside(at)
      const bytes = lstatSync(at.path).isFile() ? readFileSync(at.path) : undefined
      expect(() => open(at.path)).toThrow(told)
      const found = await Effect.runPromise(Sqlite.inspect?.(at) ?? Effect.succeed([]))
      expect(found).toEqual([{ verdict: "wrong", message: expect.stringContaining(told) }])
      expect(beside(at)).toEqual(before)
      if (bytes !== undefined) expect(readFileSync(at.path).equals(bytes)).toBe(true)
    })
  }

  test("is refused if it is a device", () => {
    expect(() => open("/dev/null")).toThrow("/dev/null is a device, not a file")
    expect(existsSync("/dev/null-lock")).toBe(false)
  })

  test("is refused if it is a socket", async () => {
    const at = prepared()
    const server = createServer().listen(at.path)
    try {
      await new Promise((resolve) => server.once("listening", resolve))
      expect(() => open(at.path)).toThrow("is a socket, not a file")
    } finally {
      server.close()
    }
  })

  test("is refused as the source of a copy, which would change it", async () => {
    const at = prepared()
    database(at.path)
    const bytes = readFileSync(at.path)
    const refused = await Effect.runPromise(Effect.flip(Effect.scoped(source(at))))
    expect(refused.message).toContain("is another program's SQLite database")
    expect(readFileSync(at.path).equals(bytes)).toBe(true)
    expect(beside(at)).toEqual([basename(at.path)])
  })

  test("is taken for a damaged journal if the mark of one is beside it", () => {
    const at = used()
    writeFileSync(at.path, Buffer.alloc(20_000, "garbage"))
    expect(OwnFiles.problem(at.path)).toBeUndefined()
    // The tables of another program are not damage.
    rmSync(at.path)
    database(at.path)
    expect(OwnFiles.problem(at.path)).toContain("is another program's SQLite database")
  })
})

describe("a path that holds nothing", () => {
  test("becomes the journal if an empty file was made there in advance, and the file stays the same", () => {
    const at = prepared()
    writeFileSync(at.path, "")
    const { ino } = statSync(at.path)
    const store = open(at.path)
    expect(store.problems).toEqual([])
    store.close()
    expect(statSync(at.path).ino).toBe(ino)
    expect(beside(at)).toEqual([basename(at.path), `${basename(at.path)}-lock`, `${basename(at.path)}-mark`])
  })

  test("becomes the journal if a first start was cut off before it made the tables", () => {
    const at = prepared()
    database(at.path, "PRAGMA journal_mode = WAL")
    const store = open(at.path)
    expect(store.problems).toEqual([])
    store.close()
  })
})

describe("what is beside the journal instead of a file of its own", () => {
  for (const suffix of ["-lock", "-mark", "-ballast", "-hour.new", "-index", "-wal"]) {
    for (const [kind, make] of [
      ["a directory", (path: string) => mkdirSync(path)],
      ["a symbolic link", (path: string) => symlinkSync(`${path}.target`, path)],
    ] as const) {
      if (suffix === "-index" && kind === "a directory") continue
      test(`is refused, named and left as it is: ${kind} at ${suffix}`, () => {
        const at = used()
        rmSync(at.path + suffix, { force: true })
        make(at.path + suffix)
        const before = beside(at)
        expect(() => open(at.path)).toThrow(`${at.path}${suffix} is ${kind}, and the relay has a file of its own there`)
        expect(beside(at)).toEqual(before)
      })
    }
  }

  test("doesn't prevent the start if it is a directory at -index: events are found without the index", () => {
    const at = used()
    rmSync(`${at.path}-index`, { force: true })
    mkdirSync(`${at.path}-index`)
    open(at.path).close()
    expect(statSync(`${at.path}-index`).isDirectory()).toBe(true)
  })

  test("is refused at -mark if it is another file, and is left as it is", () => {
    const at = used()
    const text = "a list of marks that a teacher gave to the pupils of the third form in the summer of 2026"
    writeFileSync(`${at.path}-mark`, text)
    expect(() => open(at.path)).toThrow(`${at.path}-mark is not the relay's`)
    expect(readFileSync(`${at.path}-mark`, "utf8")).toBe(text)
  })
})

describe("a link to a journal", () => {
  test("has every file next to the link's target, and the files there decide", async () => {
    const at = used()
    const link = `${prepared().path}-link`
    symlinkSync(at.path, link)
    expect([hourOf(link), lockOf(link)]).toEqual([hourOf(at.path), lockOf(at.path)])
    mkdirSync(`${at.path}-hour.new`)
    const found = await Effect.runPromise(Sqlite.inspect?.({ ...at, path: link }) ?? Effect.succeed([]))
    expect(found).toEqual([
      { verdict: "wrong", message: expect.stringContaining(`${at.path}-hour.new is a directory`) },
    ])
  })
})

/** Opens a journal, uses it, and closes it. */
const session = async (at: SqliteConfig, use: (engine: Engine) => Promise<void> | void): Promise<void> => {
  const engine = new Engine(open(at.path), at)
  try {
    for (const _ of scan(engine, at, Date.now()));
    await use(engine)
  } finally {
    engine.stop()
    engine.store.close()
  }
}

const replacements = [
  ["a link", (path: string) => symlinkSync(`${path}.target`, path)],
  ["a directory", (path: string) => mkdirSync(path)],
  ["another file", (path: string) => writeFileSync(path, "theirs")],
] as const

const expectLeft = (file: string, what: (typeof replacements)[number][0]): void => {
  const found = lstatSync(file)
  expect([found.isSymbolicLink(), found.isDirectory()]).toEqual([what === "a link", what === "a directory"])
  expect(existsSync(`${file}.target`)).toBe(false)
  if (what === "another file") expect(readFileSync(file, "utf8")).toBe("theirs")
}

/** The status of a journal that works, with its warnings. */
const warningOf = (engine: Engine): string => {
  const { health, message } = statusOf(engine, options(), { start: 0, drift: () => 0, trusted: () => true })
  expect(health).toBe("ok")
  return message
}

describe("the mark", () => {
  test("is made again if it is deleted while the relay runs", () =>
    session(options(), (engine) => {
      const file = `${engine.store.path}-mark`
      const before = readFileSync(file, "utf8")
      rmSync(file)
      engine.inspect()
      expect(readFileSync(file, "utf8")).toBe(before)
      expect(engine.store.mark.problem).toBe("")
    }))

  for (const [what, make] of replacements) {
    test(`is reported as missing in the status if ${what} takes its place while the relay runs, which is left unchanged`, () =>
      session(options(), (engine) => {
        const file = `${engine.store.path}-mark`
        rmSync(file)
        make(file)
        engine.inspect()
        expect(warningOf(engine)).toContain(`The file ${file} was replaced while the relay was running on it`)
        expectLeft(file, what)
      }))
  }

  test("is missed in the log at a start without it, because a loss would not be noticed", async () => {
    const at = options()
    await session(at, (engine) => void engine.appendUnsafe(event("a"), ["lake"]))
    rmSync(`${at.path}-mark`)
    await session(at, ({ store }) => {
      expect(store.notes).toEqual([expect.stringContaining(`The file ${at.path}-mark is missing or damaged`)])
      expect(store.problems).toEqual([])
    })
    await session(at, ({ store }) => expect(store.notes).toEqual([]))
  })
})

describe("the ballast", () => {
  test("is made again if it is missing, or if a crash left a part of it", () =>
    session(options(), (engine) => {
      const file = `${engine.store.path}-ballast`
      for (const left of [undefined, 0, 10_000]) {
        rmSync(file)
        if (left !== undefined) writeFileSync(file, Buffer.alloc(left, 1))
        engine.inspect()
        expect(statSync(file).size).toBe(ballastBytes)
        expect(engine.space.ballast.problem).toBe("")
      }
    }))

  for (const [what, make] of replacements) {
    test(`is reported as missing in the status if ${what} takes its place while the relay runs, which is left unchanged`, () =>
      session(options(), (engine) => {
        const file = `${engine.store.path}-ballast`
        rmSync(file)
        make(file)
        engine.inspect()
        expect(warningOf(engine)).toContain(`The file ${file} is not the relay's`)
        engine.space.foundFull("the disk is full")
        expectLeft(file, what)
      }))
  }
})

describe("sqlite3's .restore over a running journal", () => {
  /** Restores a file as `.restore` does, with the same function of SQLite. */
  const restore = (from: string, to: string) => {
    const source = new DatabaseSync(from)
    return backup(source, to).finally(() => source.close())
  }

  test("stops the relay, which acknowledges nothing more, and the next start names the losses", async () => {
    const at = options()
    await session(at, async (engine) => {
      await engine.appendUnsafe(event("a"), ["lake"])
      await Effect.runPromise(Maintenance.backup(at.path, `${at.path}.backup`))
      await engine.appendUnsafe(event("b"), ["lake"])
      await restore(`${at.path}.backup`, at.path)
      const exit = await engine.appendUnsafe(event("c"), ["lake"])
      expect(JSON.stringify(exit)).toContain("Another program has written to the journal")
      expect(engine.brokenBy?.message).toContain("the journal no longer ends at event 2")
    })
    await session(at, (engine) => {
      expect(engine.alarm.raised.lines.join("\n")).toContain("events 2 to 2 are lost")
      expect(engine.read(0, 9).map((entry) => entry.event.id)).toEqual(["a"])
    })
  })

  test("is noticed by an idle relay too, also if the backup is another program's database", async () => {
    const at = prepared()
    database(`${at.path}.theirs`, "PRAGMA page_size = 32768; CREATE TABLE theirs (a)")
    await session(at, async (engine) => {
      engine.inspect()
      await restore(`${at.path}.theirs`, at.path)
      expect(() => engine.inspect()).toThrow("Another program has written to the journal")
    })
  })

  test("doesn't stop the relay if the other program changed nothing of the log", () =>
    session(options(), async (engine) => {
      await engine.appendUnsafe(event("a"), ["lake"])
      for (const sql of ["PRAGMA wal_checkpoint(TRUNCATE)", "ANALYZE", "VACUUM"]) {
        const other = new DatabaseSync(engine.store.path)
        other.exec(sql)
        other.close()
        engine.inspect()
        expect(await engine.appendUnsafe(event(sql), ["lake"])).toEqual(Exit.succeed("appended"))
      }
    }))
})

describe("a directory that is deleted while the relay runs", () => {
  test("breaks the journal, and is named", () => {
    const at = options()
    const engine = new Engine(open(at.path), at)
    rmSync(dirname(at.path), { recursive: true })
    expect(() => engine.inspect()).toThrow(
      `The directory ${dirname(at.path)} of the journal was deleted while the relay was running on it`,
    )
    engine.store.close()
  })

  test("acknowledges nothing of a commit during which it happened", () =>
    session(options(), async (engine) => {
      engine.onWrite = () => rmSync(dirname(engine.store.path), { recursive: true })
      expect(Exit.isFailure(await engine.appendUnsafe(event("a"), ["lake"]))).toBe(true)
      expect(engine.brokenBy?.message).toContain("was deleted while the relay was running on it")
      engine.onWrite = () => {}
    }))
})
