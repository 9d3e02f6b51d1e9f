/**
 * `relay journal check`, `backup` and `salvage`, and the last step of `relay events erase --offline`.
 *
 * `check` and `backup` only read, and work while a relay runs on the journal. `salvage` reads a damaged file,
 * and writes the events that it can read as lines of JSON. It changes nothing in the file.
 */
import { closeSync, existsSync, fstatSync, fsyncSync, openSync, readSync, rmSync, statSync, writeSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { Effect } from "effect"
import { orUndefined } from "../../../event/Tolerance.ts"
import { fileIdentity, readDenial, withFile } from "../../../runtime/Files.ts"
import { MaintenanceError } from "../../JournalError.ts"
import { decode, decodeRow } from "../../stream/Record.ts"
import { JournalLock } from "../file/JournalLock.ts"
import * as OwnFiles from "../file/OwnFiles.ts"
import { integrity } from "../file/Reindex.ts"
import { current, refusal, version } from "../rows/Migrations.ts"
import { bytes, int } from "../rows/Rows.ts"
import { connect, isFull, words } from "../rows/SqliteConnection.ts"
import { filesBeside } from "../SqliteConfig.ts"
import { isThere } from "./Repair.ts"
import * as Salvage from "./Salvage.ts"

export interface Item {
  /** The entry that `journal salvage` writes, or `undefined` if a line or a record can't be read. */
  readonly line: unknown
  /** The share of the file that was read, from 0 to 1. */
  readonly share: number
}

const lineFeed = 0x0a
const chunkBytes = 1024 * 1024

/** Reads the lines of a salvaged file. The last may be cut short. */
const fromLines = function* (fd: number): Generator<Item> {
  const { size } = fstatSync(fd)
  const chunk = Buffer.alloc(chunkBytes)
  let rest: Array<Buffer> = []
  let read = 0
  const item = (line: Buffer): Item => ({
    line: orUndefined((): unknown => JSON.parse(line.toString("utf8"))),
    share: read / size,
  })
  for (let more = readSync(fd, chunk, 0, chunkBytes, read); more > 0; more = readSync(fd, chunk, 0, chunkBytes, read)) {
    read += more
    let start = 0
    for (let feed = chunk.indexOf(lineFeed); feed !== -1 && feed < more; feed = chunk.indexOf(lineFeed, start)) {
      yield item(Buffer.concat([...rest, chunk.subarray(start, feed)]))
      rest = []
      start = feed + 1
    }
    if (start < more) rest.push(Buffer.from(chunk.subarray(start, more)))
  }
  if (rest.length > 0) yield item(Buffer.concat(rest))
}

const fromJournal = function* (path: string): Generator<Item, boolean> {
  let share = 0
  const lines = Salvage.lines(path, dirname(path), (now) => {
    share = now
  })
  let next = lines.next()
  for (; next.done !== true; next = lines.next()) yield { line: next.value, share }
  for (let left = next.value.damaged.length; left > 0; left--) yield { line: undefined, share: 1 }
  return !next.value.repaired
}

/** Returns true for a journal that SQLite could open, even without events. Throws the system's errors. */
export const items = function* (path: string): Generator<Item, boolean> {
  if (!existsSync(path) && isThere(path)) return yield* fromJournal(path)
  const fd = openSync(path, "r")
  let isText: boolean
  try {
    const first = Buffer.alloc(1)
    readSync(fd, first, 0, 1, 0)
    isText = first.toString("latin1") === "{"
    if (isText) yield* fromLines(fd)
  } finally {
    closeSync(fd)
  }
  return isText ? false : yield* fromJournal(path)
}

type Range = readonly [from: number, to: number]

/** The findings of `check`. */
export interface CheckReport {
  readonly path: string
  /** True if nothing is damaged, and nothing is missing except reported losses. */
  readonly sound: boolean
  readonly schema: number
  readonly head: number
  readonly events: number
  readonly rows: number
  readonly lanes: number
  readonly retrying: number
  readonly deadLetters: number
  /** Sequences whose bytes differ from the written ones. */
  readonly damaged: ReadonlyArray<number>
  /** Gaps in the log: ranges of sequences without rows, both ends included. */
  readonly missing: ReadonlyArray<Range>
  /** Losses that the relay knows and has reported, for example events that a backup didn't have. */
  readonly lost: ReadonlyArray<Range>
  /** The problems that SQLite's own check found, in its words. */
  readonly sqlite: ReadonlyArray<string>
}

/** The counts of `salvage`. */
export interface SalvageReport extends Salvage.SalvageResult {
  readonly from: string
  readonly to: string
  /** Number of lines written. */
  readonly events: number
}

const noneAt = (path: string): string =>
  `There is no journal at ${path}: the relay makes it when it starts, or it is elsewhere.`

/** Fails if there is something other than a file, or if this user may not read the journal. */
export const requireReadable = (path: string): Effect.Effect<void, MaintenanceError> =>
  Effect.suspend(() => {
    const kind = OwnFiles.notAFile(path)
    if (kind !== undefined) return new MaintenanceError({ message: `${kind}.` })
    for (const file of ["", ...filesBeside].map((suffix) => path + suffix)) {
      const denial = readDenial(file)
      if (denial !== undefined) return new MaintenanceError({ message: `${file} can't be read: ${denial}` })
    }
    return Effect.void
  })

/** Opens a journal for reading. The scope closes it. */
const openReadOnly = (path: string) =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      if (!existsSync(path))
        return new MaintenanceError({
          message: noneAt(path),
        })
      // SQLite would take an empty file for a new database, and delete the write-ahead log next to it.
      if (statSync(path).size === 0) {
        return new MaintenanceError({
          message: `${path} is empty: \`relay journal salvage\` recovers the contents of its write-ahead log.`,
        })
      }
      try {
        const db = connect(path, { readOnly: true })
        db.prepare("PRAGMA busy_timeout = 5000").get()
        const found = version(db)
        if (found >= 1 && found <= current) return Effect.succeed(db)
        const message =
          found === 0
            ? `${path} is not a journal of the relay, or an empty one: correct the path.`
            : `${refusal(db, path)}.`
        db.close()
        return new MaintenanceError({ message })
      } catch (error) {
        return new MaintenanceError({
          message: `${path} can't be read as a journal (${words(error)}): correct the path, or \`relay journal salvage\` it.`,
        })
      }
    }),
    (db) => Effect.sync(() => db.close()),
  )

const attempt = <A>(what: string, work: () => A): Effect.Effect<A, MaintenanceError> =>
  Effect.try({ try: work, catch: (error) => new MaintenanceError({ message: `${what}: ${words(error)}.` }) })

/** Checks the whole journal: every record's checksum, gaps in the sequences, and SQLite's own check. */
export const check = (path: string): Effect.Effect<CheckReport, MaintenanceError> =>
  Effect.gen(function* () {
    yield* requireReadable(path)
    const db = yield* openReadOnly(path)
    return yield* attempt(`The journal ${path} can't be read to its end`, (): CheckReport => {
      const count = (table: string): number => int(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n)
      const sqlite = integrity(db, "20").filter((text) => text !== "ok")
      const damaged: Array<number> = []
      const missing: Array<Range> = []
      const lost: Array<Range> = []
      const reported = db.prepare("SELECT 1 FROM hole WHERE first <= ? AND last >= ?")
      let events = 0
      let rows = 0
      let next: number | undefined
      for (const row of db.prepare("SELECT first, count, bytes FROM log ORDER BY first").iterate()) {
        const first = int(row.first)
        const decoded = decodeRow(bytes(row.bytes), first, int(row.count))
        if (next !== undefined && first > next) {
          const isKnown = reported.get(next, first - 1) !== undefined
          const ranges = isKnown ? lost : missing
          ranges.push([next, first - 1])
        }
        damaged.push(...decoded.damaged)
        events += decoded.stored.length
        rows++
        next = first + int(row.count)
      }
      const kept = Salvage.tablesOf(db)
      for (const table of kept) {
        for (const row of db.prepare(`SELECT sequence, record FROM ${table}`).iterate()) {
          if (decode(bytes(row.record), int(row.sequence)) === undefined) damaged.push(int(row.sequence))
        }
      }
      return {
        path,
        sound: damaged.length === 0 && missing.length === 0 && sqlite.length === 0,
        schema: version(db),
        head:
          next === undefined
            ? int(db.prepare("SELECT value FROM meta WHERE key = 'base'").get()?.value ?? 0)
            : next - 1,
        events,
        rows,
        lanes: count("lane"),
        retrying: count("retry_record"),
        deadLetters: count("dead"),
        damaged,
        missing,
        lost,
        sqlite,
      }
    })
  }).pipe(Effect.scoped)

/** Requires that the file is new, and isn't a file of the journal's own: the next start would read it. */
const requireFree = (path: string, to: string, what: string): Effect.Effect<void, MaintenanceError> => {
  if (existsSync(to)) {
    const hint = 'name a new file, such as "relay-$(date +%F).db"'
    return new MaintenanceError({ message: `${to} exists already, and ${what} never overwrites: ${hint}.` })
  }
  const isOwn = ["", ...filesBeside].some((suffix) => fileIdentity(path + suffix) === fileIdentity(to))
  return isOwn ? new MaintenanceError({ message: `${to} is a file of the journal's own: name another.` }) : Effect.void
}

/** Writes a new file. Deletes it if `write` throws. */
const writeNew = <A>(to: string, write: (fd: number) => A): A =>
  withFile(to, "wx", (fd) => {
    try {
      return write(fd)
    } catch (error) {
      rmSync(to, { force: true })
      throw error
    }
  })

/** Writes a consistent copy of the journal to `to`, also while a relay runs on it. Returns its size in bytes. */
export const backup = (path: string, to: string): Effect.Effect<{ readonly bytes: number }, MaintenanceError> =>
  Effect.gen(function* () {
    yield* requireReadable(path)
    const db = yield* openReadOnly(path)
    yield* requireFree(path, to, "a backup")
    return yield* attempt(`The journal ${path} could not be copied to ${to}`, () => {
      // Created first, for its owner only: SQLite would leave the permissions to the umask.
      writeNew(to, (fd) => {
        try {
          db.prepare("VACUUM INTO ?").run(to)
        } catch (error) {
          // The journal is only read.
          throw isFull(error) ? new Error(`the disk of ${dirname(to)} is full`) : error
        }
        fsyncSync(fd)
      })
      const pages = db.prepare("PRAGMA page_count").get()?.page_count
      const free = db.prepare("PRAGMA freelist_count").get()?.freelist_count
      return { bytes: (int(pages) - int(free)) * int(db.prepare("PRAGMA page_size").get()?.page_size) }
    })
  }).pipe(Effect.scoped)

/**
 * Rewrites the journal without unused space, so that no copy of an erased event is left there. No relay may run
 * on it.
 */
export const vacuum = (path: string): Effect.Effect<void, MaintenanceError> =>
  attempt(`The journal ${path} could not be rewritten`, () => {
    const lock = new JournalLock(path)
    try {
      lock.holdFile()
      const db = connect(path)
      try {
        db.prepare("PRAGMA secure_delete = ON").get()
        // It writes the whole journal into a temporary file, which wouldn't fit into memory.
        db.prepare("PRAGMA temp_store = FILE").run()
        db.prepare(`PRAGMA temp_store_directory = '${dirname(resolve(path)).replaceAll("'", "''")}'`).run()
        db.prepare("VACUUM").run()
        db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()
      } finally {
        db.close()
      }
    } finally {
      lock.close()
    }
  })

/** Writes every event that can still be read from the journal at `path` to `to`, one JSON object per line. */
export const salvage = (path: string, to: string): Effect.Effect<SalvageReport, MaintenanceError> =>
  Effect.gen(function* () {
    yield* requireReadable(path)
    if (!isThere(path)) return yield* new MaintenanceError({ message: noneAt(path) })
    yield* requireFree(path, to, "salvage")
    const report = yield* attempt(`The events salvaged from ${path} could not be written to ${to}`, () =>
      writeNew(to, (fd) => {
        const lines = Salvage.lines(path, dirname(to))
        let events = 0
        let next = lines.next()
        for (; next.done !== true; next = lines.next()) {
          writeSync(fd, `${JSON.stringify(next.value)}\n`)
          events++
        }
        fsyncSync(fd)
        return { from: path, to, events, ...next.value }
      }),
    )
    if (report.events > 0 || !report.repaired) return report
    rmSync(to, { force: true })
    return yield* new MaintenanceError({ message: `Nothing in ${path} can be read as a journal of the relay.` })
  })
