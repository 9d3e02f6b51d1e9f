/**
 * Repairs the end of a file of lines after a crash or a power cut: a line that
 * was cut short, and blocks that were never written, mostly zeros, which may
 * stand between lines that were.
 *
 * **Guarantee.** Only bytes that the relay wrote are changed (`Mark`), and no
 * valid line among them. Garbage after the last valid line is truncated. Garbage
 * before it is overwritten with spaces, line feeds included: the next line then
 * begins with spaces, which JSON allows.
 *
 * Garbage was never synced, so its batch had not succeeded and is sent again.
 */
import { type FileHandle, open, readFile, rename } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { parsedJson } from "../../event/Tolerance.ts"
import { codeOf } from "../../runtime/Errors.ts"

// The mark of a file sink: the hidden file `.NAME.mark` next to the file. It stores the offset from which only the
// relay has written. Only bytes after that offset may be repaired.
// **Guarantee.** The mark is durable before the first byte that it covers.

interface Mark {
  readonly inode: number
  /** All bytes from here on are the relay's. */
  readonly from: number
  /** The end of a batch that begins at `from` and is larger than the part that is read at the end of a file. */
  readonly to: number
}

/** Syncs a directory, which makes a new name in it durable. */
export const syncDirectory = async (path: string): Promise<void> => {
  const handle = await open(path, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const markOf = (path: string): string => join(dirname(path), `.${basename(path)}.mark`)

/** The mark of the file at `path`; `undefined` if there is none. */
export const readMark = async (path: string): Promise<Mark | undefined> => {
  try {
    const { inode, from, to }: Partial<Mark> = JSON.parse(await readFile(markOf(path), "utf8"))
    return [inode, from, to].every(Number.isSafeInteger) ? ({ inode, from, to } as Mark) : undefined
  } catch (error) {
    if (error instanceof SyntaxError || codeOf(error) === "ENOENT" || codeOf(error) === "EACCES") return undefined
    throw error
  }
}

const mayNotWrite = new Set(["EACCES", "EPERM", "EROFS"])

/**
 * Stores the mark, and syncs the directory with it. If the relay may write to the file alone, the mark and the repair
 * are left out.
 */
export const writeMark = async (path: string, mark: Mark): Promise<void> => {
  const [target, draft] = [markOf(path), `${markOf(path)}.new`]
  try {
    const handle = await open(draft, "w", 0o640)
    try {
      await handle.writeFile(`${JSON.stringify(mark)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, target)
    await syncDirectory(dirname(path))
  } catch (error) {
    if (!mayNotWrite.has(codeOf(error))) throw error
  }
}

export const lineFeed = 0x0a
const space = 0x20

/** Maximum bytes read at the end of a file, unless a batch was larger. */
export const maxRead = 1024 * 1024
/** Bytes at the end of a file without a mark that must be whole lines. */
const wholeBytes = 64 * 1024

/** Sizes of the repaired parts, in bytes. */
export interface Repaired {
  /** The part that was truncated at the end of the file. */
  readonly cut: number
  /** The part before the last valid line that was overwritten with spaces. */
  readonly blanked: number
}

export const nothing: Repaired = { cut: 0, blanked: 0 }

/** Whether a line is a JSON object; bytes in it that aren't UTF-8 don't matter. */
const isValid = (line: Buffer): boolean => {
  const hasByteOrderMark = line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf
  const value = parsedJson(line.toString("latin1", hasByteOrderMark ? 3 : 0))
  return typeof value === "object" && value !== null && !Array.isArray(value)
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
  /** The end of the last valid line; the start of the first line if none is valid. */
  readonly end: number
  readonly valid: number
}

/**
 * Returns the lines from `from` on. If no line begins there, the first is left out.
 * Returns `undefined` if no line remains.
 */
const readLines = async (
  handle: FileHandle,
  { from, size, isStart }: { readonly from: number; readonly size: number; readonly isStart: boolean },
): Promise<LastLines | undefined> => {
  const bytes = await readAt(handle, from, size - from)
  const first = isStart ? 0 : bytes.indexOf(lineFeed) + 1
  if (!isStart && first === 0) return undefined
  const garbage: Array<Garbage> = []
  let end = from + first
  let valid = 0
  for (let start = first; start < bytes.length; ) {
    const feed = bytes.indexOf(lineFeed, start)
    const next = feed === -1 ? bytes.length : feed + 1
    if (feed !== -1 && isValid(bytes.subarray(start, feed))) {
      end = from + next
      valid += 1
    } else garbage.push({ from: from + start, to: from + next })
    start = next
  }
  return { garbage, end, valid }
}

/** Reports whether a file of `size` bytes ends in whole lines of JSON objects. */
export const endsInLines = async (handle: FileHandle, size: number): Promise<boolean> => {
  for (const least of [wholeBytes, maxRead]) {
    const from = Math.max(0, size - least)
    const lines = await readLines(handle, { from, size, isStart: from === 0 })
    if (lines !== undefined && lines.garbage.length > 0) return false
    if (lines !== undefined && lines.valid > 0) return true
  }
  return size === 0
}

/**
 * Reports whether the bytes after the mark can be the relay's. Another file may get
 * the same inode number, but it is unlikely to begin like an event's line, or with
 * the zeros of a power cut.
 */
export const isMarked = async (handle: FileHandle, size: number, inode: number, mark: Mark): Promise<boolean> => {
  if (mark.inode !== inode || mark.from > size) return false
  const before = mark.from === 0 ? lineFeed : (await readAt(handle, mark.from - 1, 1))[0]
  if (before !== lineFeed) return false
  const [first] = await readAt(handle, mark.from, 1)
  return first === undefined || first === 0x7b || first === space || first === 0
}

/** Repairs the file at `path`, which is open in append mode. Returns `undefined` if it finds no end of a line. */
export const repair = async (
  handle: FileHandle,
  path: string,
  size: number,
  mark: Mark,
): Promise<Repaired | undefined> => {
  const from = size <= mark.to ? mark.from : Math.max(mark.from, size - maxRead)
  const last = await readLines(handle, { from, size, isStart: from === mark.from })
  if (last === undefined) return undefined
  const { end } = last
  const inner = last.garbage.filter(({ to }) => to <= end)
  for (const { from, to } of inner) await blank(path, from, to)
  if (size > end) await handle.truncate(end)
  return { cut: size - end, blanked: inner.reduce((sum, { from, to }) => sum + to - from, 0) }
}

/** Opens the file a second time: in append mode every write goes to the end. */
const blank = async (path: string, from: number, to: number): Promise<void> => {
  const handle = await open(path, "r+")
  try {
    await handle.write(Buffer.alloc(to - from, space), 0, to - from, from)
    await handle.datasync()
  } finally {
    await handle.close()
  }
}
