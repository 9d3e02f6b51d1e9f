/**
 * Mends a file of lines at its end, after a power cut or a crash: a line that
 * was cut short, and what a file system leaves of blocks that were never
 * written, zeros above all, also between lines that were.
 *
 * **Guarantee.** No valid line is touched. What stands behind the last one is cut
 * off. What stands before it becomes spaces, its line feed too, so that the next
 * line merely begins with them, which no reader of JSON minds.
 *
 * What is garbage was never synced, so its batch never passed and comes again.
 */
import { closeSync, fdatasyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs"

const lineFeed = 0x0a
const space = 0x20

/** How much of the end is read after a start: twice what a batch writes before it is synced. */
const startBytes = 8 * 1024 * 1024
/** As much later on, when a write that failed can have left no more than half a batch at the end. */
const laterBytes = 64 * 1024

/** What was mended, in bytes. */
export interface Mended {
  /** Cut off the end. */
  readonly cut: number
  /** Made spaces, before the last valid line. */
  readonly blanked: number
}

/** Whether a line is a JSON object, or blank. Bytes that are no UTF-8 inside of it are not for us to judge. */
const isValid = (line: Buffer): boolean => {
  if (line.every((byte) => byte === space || byte === 0x09 || byte === 0x0d)) return true
  const hasMark = line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf
  try {
    const value: unknown = JSON.parse(line.toString("latin1", hasMark ? 3 : 0))
    return typeof value === "object" && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

const readAt = (fd: number, from: number, length: number): Buffer => {
  const bytes = Buffer.alloc(length)
  let read = 0
  for (let more = -1; more !== 0 && read < length; read += more)
    more = readSync(fd, bytes, read, length - read, from + read)
  return bytes.subarray(0, read)
}

interface Garbage {
  readonly from: number
  readonly to: number
}

/** The end of the file as lines; the first of a part begins after a line feed. */
interface Tail {
  readonly garbage: ReadonlyArray<Garbage>
  /** Where the last valid line ends; undefined when there is none. */
  readonly end: number | undefined
}

const tailOf = (bytes: Buffer, at: number): Tail => {
  const garbage: Array<Garbage> = []
  let end: number | undefined
  for (let start = 0; start < bytes.length; ) {
    const feed = bytes.indexOf(lineFeed, start)
    const next = feed === -1 ? bytes.length : feed + 1
    if (feed !== -1 && isValid(bytes.subarray(start, feed))) end = at + next
    else garbage.push({ from: at + start, to: at + next })
    start = next
  }
  return { garbage, end }
}

/** Reads the end, and further back until there is a valid line in it. */
const findTail = (fd: number, size: number, least: number): Tail => {
  for (let window = least; ; window *= 2) {
    const from = Math.max(0, size - window)
    const bytes = readAt(fd, from, size - from)
    // A part that does not begin the file begins somewhere in a line.
    const skip = from === 0 ? 0 : bytes.indexOf(lineFeed) + 1
    const tail = from === 0 || skip > 0 ? tailOf(bytes.subarray(skip), from + skip) : undefined
    if (tail !== undefined && (from === 0 || tail.end !== undefined)) return tail
  }
}

/** The first line, as far as it is looked at. */
const firstLine = (fd: number, size: number): Buffer => {
  const bytes = readAt(fd, 0, Math.min(size, startBytes))
  const feed = bytes.indexOf(lineFeed)
  return feed === -1 ? bytes : bytes.subarray(0, feed)
}

/**
 * A path that was mistaken for ours must not cost a file of something else its
 * lines: ours begins with a line of an event, or with what a crash made of one.
 */
const isOurs = (fd: number, size: number, tail: Tail): boolean => {
  const first = firstLine(fd, size)
  if (isValid(first)) return true
  const begins = first[0] === 0x7b || first[0] === space || first[0] === 0x09
  if (tail.end !== undefined) return first.includes(0)
  const isOne = first.length === size
  return begins ? isOne || first.includes(0) : isOne && first.every((byte) => byte === 0)
}

/**
 * Mends the file open at `fd`, in append mode, and found at `path`; `undefined`
 * when it holds something else, and its last line has no end: it is left as it is.
 */
export const mend = (fd: number, path: string, size: number, isStart: boolean): Mended | undefined => {
  const tail = findTail(fd, size, isStart ? startBytes : laterBytes)
  if (tail.garbage.length === 0) return { cut: 0, blanked: 0 }
  // What ends in a whole line can be appended to, whatever it is.
  if (!isOurs(fd, size, tail)) return readAt(fd, size - 1, 1)[0] === lineFeed ? { cut: 0, blanked: 0 } : undefined
  const end = tail.end ?? 0
  const inner = tail.garbage.filter(({ to }) => to <= end)
  for (const { from, to } of inner) blank(path, from, to)
  if (size > end) ftruncateSync(fd, end)
  return { cut: size - end, blanked: inner.reduce((sum, { from, to }) => sum + to - from, 0) }
}

/** In append mode the system writes at the end, wherever it is told to. */
const blank = (path: string, from: number, to: number): void => {
  const fd = openSync(path, "r+")
  try {
    writeSync(fd, Buffer.alloc(to - from, space), 0, to - from, from)
    fdatasyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
