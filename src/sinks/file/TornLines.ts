/**
 * Repairs the end of a file of lines after a crash or a power cut: a line that
 * was cut short, and blocks that were never written, mostly zeros, which may
 * stand between lines that were.
 *
 * **Guarantee.** No valid line is touched. Garbage after the last valid line is
 * truncated. Garbage before it is overwritten with spaces, line feeds included:
 * the next line then begins with spaces, which JSON allows.
 *
 * Garbage was never synced, so its batch had not succeeded and is sent again.
 */
import { type FileHandle, open } from "node:fs/promises"

const lineFeed = 0x0a
const space = 0x20

/** Bytes read at the end after a start: twice the largest batch. */
const startBytes = 8 * 1024 * 1024
/** Bytes read later on, when only a failed write of this process can have left garbage. */
const laterBytes = 64 * 1024

/** Sizes of the repaired parts, in bytes. */
export interface Repaired {
  /** Truncated at the end. */
  readonly cut: number
  /** Overwritten with spaces, before the last valid line. */
  readonly blanked: number
}

/** Whether a line is blank or a JSON object; bytes in it that aren't UTF-8 don't matter. */
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

const readAt = async (handle: FileHandle, from: number, length: number): Promise<Buffer> => {
  const bytes = Buffer.alloc(length)
  let read = 0
  for (let more = -1; more !== 0 && read < length; read += more)
    more = (await handle.read(bytes, read, length - read, from + read)).bytesRead
  return bytes.subarray(0, read)
}

interface Garbage {
  readonly from: number
  readonly to: number
}

/** The lines at the end of the file. */
interface LastLines {
  readonly garbage: ReadonlyArray<Garbage>
  /** The end of the last valid line; undefined when there is none. */
  readonly end: number | undefined
}

const parseLines = (bytes: Buffer, at: number): LastLines => {
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
const readLastLines = async (handle: FileHandle, size: number, least: number): Promise<LastLines> => {
  for (let window = least; ; window *= 2) {
    const from = Math.max(0, size - window)
    const bytes = await readAt(handle, from, size - from)
    // Unless it starts at the beginning of the file, the window starts within a line.
    const skip = from === 0 ? 0 : bytes.indexOf(lineFeed) + 1
    const last = from === 0 || skip > 0 ? parseLines(bytes.subarray(skip), from + skip) : undefined
    if (last !== undefined && (from === 0 || last.end !== undefined)) return last
  }
}

/** The first line, cut at the window's size. */
const firstLine = async (handle: FileHandle, size: number): Promise<Buffer> => {
  const bytes = await readAt(handle, 0, Math.min(size, startBytes))
  const feed = bytes.indexOf(lineFeed)
  return feed === -1 ? bytes : bytes.subarray(0, feed)
}

/**
 * Whether the file looks like one of ours: it begins with an event's line, or
 * with what a crash made of one. A path that is set by mistake must not damage
 * another file.
 */
const isOurs = async (handle: FileHandle, size: number, last: LastLines): Promise<boolean> => {
  const first = await firstLine(handle, size)
  if (isValid(first)) return true
  const begins = first[0] === 0x7b || first[0] === space || first[0] === 0x09
  if (last.end !== undefined) return first.includes(0)
  const isOne = first.length === size
  return begins ? isOne || first.includes(0) : isOne && first.every((byte) => byte === 0)
}

/**
 * Repairs the file that is open in append mode and stands at `path`. A file of
 * something else whose last line is incomplete is left as it is: `undefined`.
 */
export const repair = async (
  handle: FileHandle,
  path: string,
  size: number,
  isStart: boolean,
): Promise<Repaired | undefined> => {
  const last = await readLastLines(handle, size, isStart ? startBytes : laterBytes)
  if (last.garbage.length === 0) return { cut: 0, blanked: 0 }
  if (!(await isOurs(handle, size, last))) {
    // Any file that ends in a whole line can be appended to.
    return (await readAt(handle, size - 1, 1))[0] === lineFeed ? { cut: 0, blanked: 0 } : undefined
  }
  const end = last.end ?? 0
  const inner = last.garbage.filter(({ to }) => to <= end)
  for (const { from, to } of inner) await blank(path, from, to)
  if (size > end) await handle.truncate(end)
  return { cut: size - end, blanked: inner.reduce((sum, { from, to }) => sum + to - from, 0) }
}

/** Opens the file anew: in append mode every write goes to the end. */
const blank = async (path: string, from: number, to: number): Promise<void> => {
  const handle = await open(path, "r+")
  try {
    await handle.write(Buffer.alloc(to - from, space), 0, to - from, from)
    await handle.datasync()
  } finally {
    await handle.close()
  }
}
