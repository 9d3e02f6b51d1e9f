/**
 * Checks that a journal's files are the relay's own before any of them is opened. Anything else at
 * `journal.path`, or next to it, is refused and left unchanged.
 *
 * **Gotcha.** POSIX drops a process's locks on a file when any descriptor of the file is closed. So this runs
 * before the journal is opened, and never while it is open.
 */
import { lstatSync, readFileSync, readlinkSync, readSync, realpathSync, type Stats, statSync } from "node:fs"
import { orUndefined } from "../../../event/Tolerance.ts"
import { withFile } from "../../../runtime/Files.ts"
import { isInSchema } from "../rows/Migrations.ts"
import { filesBeside, followed } from "../SqliteConfig.ts"
import * as HighWaterMark from "./HighWaterMark.ts"

/** Bytes at the start of a file that hold its schema: SQLite's largest page. */
const schemaBytes = 64 * 1024
/** A new database's schema may only be in its write-ahead log, in the first frames. */
const firstFramesBytes = 1024 * 1024

/** Describes something that isn't a file, for a sentence. Returns `undefined` for a file. */
const kindOf = (found: Stats): string | undefined => {
  if (found.isFile()) return undefined
  if (found.isDirectory()) return "a directory"
  if (found.isSymbolicLink()) return "a symbolic link"
  if (found.isFIFO()) return "a FIFO"
  return found.isSocket() ? "a socket" : "a device"
}

/** Returns the first bytes of a file, or `undefined` if it can't be read. */
const startOf = (file: string, length: number): string | undefined =>
  orUndefined(() =>
    withFile(file, "r", (fd) => {
      const bytes = Buffer.alloc(length)
      return bytes.toString("latin1", 0, readSync(fd, bytes, 0, length, 0))
    }),
  )

/**
 * Reports whether a database has no tables, as after a crash during a relay's first start. The two bytes are
 * SQLite's count of cells.
 */
const hasNoTables = (database: string): boolean => database.slice(103, 105) === "\0\0"

const ofContent = (path: string): string | undefined => {
  const start = startOf(path, schemaBytes)
  // SQLite reports why a file can't be read.
  if (start === undefined || start === "") return undefined
  const isDatabase = start.startsWith("SQLite format 3\0")
  const text = isDatabase ? start + (startOf(`${path}-wal`, firstFramesBytes) ?? "") : start
  if (isInSchema(text)) return undefined
  const holdsTables = isDatabase && /CREATE (?:TABLE|INDEX|VIEW|TRIGGER|VIRTUAL) /.test(text)
  // If it has a mark, it was a journal, and is damaged.
  const wasOurs = HighWaterMark.read(`${path}-mark`) !== undefined || (isDatabase && hasNoTables(start))
  if (!holdsTables && wasOurs) return undefined
  const found = isDatabase ? "another program's SQLite database" : "not a journal of the relay"
  return `${path} is ${found}, and is left as it is; correct "journal.path"`
}

/** Why a path holds no regular file, or `undefined` if it holds one, or nothing. */
export const notAFile = (path: string): string | undefined => {
  const found = orUndefined(() => statSync(path, { throwIfNoEntry: false }))
  if (found !== undefined) {
    const kind = kindOf(found)
    return kind === undefined ? undefined : `${path} is ${kind}, not a file; correct "journal.path"`
  }
  const target = orUndefined(() => readlinkSync(path))
  return target === undefined
    ? undefined
    : `${path} is a symbolic link to ${target}, and nothing is there; mount its disk, or delete the link`
}

const beside = (path: string): string | undefined => {
  for (const suffix of filesBeside) {
    const file = path + suffix
    const found = orUndefined(() => lstatSync(file, { throwIfNoEntry: false }))
    const kind = found && kindOf(found)
    // A directory can't be overwritten, and searches work without the index.
    if (suffix === "-index" && found?.isDirectory()) continue
    if (kind !== undefined) return `${file} is ${kind}, and the relay has a file of its own there; move it away`
  }
  const mark = startOf(`${path}-mark`, HighWaterMark.length + 1)
  return mark === undefined || HighWaterMark.mayBe(mark)
    ? undefined
    : `${path}-mark is not the relay's, and the relay has a file of its own there; move it away`
}

/**
 * Why the journal at a path can't be opened without touching something that isn't the relay's; a part of a
 * sentence.
 */
export const problem = (path: string): string | undefined =>
  notAFile(path) ?? beside(followed(path)) ?? ofContent(followed(path))

const escaped = (path: string): string =>
  path.replaceAll(/[\s\\]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`)

/**
 * Describes the problem of a file that is mounted without its directory, as containers can do. Returns `undefined` for
 * any other file. Only Linux reports this.
 */
export const mountedAlone = (path: string): string | undefined => {
  const mounts = orUndefined(() => readFileSync("/proc/self/mountinfo", "utf8")) ?? ""
  const point = escaped(orUndefined(() => realpathSync(path)) ?? path)
  return mounts.split("\n").some((line) => line.split(" ")[4] === point)
    ? `${path} is mounted without its directory, so the write-ahead log beside it would be on another disk; mount the directory`
    : undefined
}
