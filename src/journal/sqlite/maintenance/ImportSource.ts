/** Reads the events of a file for `journal import`: a journal, or events salvaged from one. */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs"
import { dirname } from "node:path"
import { tolerant } from "../rows/Rows.ts"
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
    line: tolerant((): unknown => JSON.parse(line.toString("utf8"))),
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
