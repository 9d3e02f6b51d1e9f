/**
 * Reads rows from a database's pages without SQLite, for files that SQLite refuses
 * to open. A leaf page can be read without the header and the tree above it. A row's
 * long values are in a chain of overflow pages, and are cut off if the chain breaks.
 *
 * **Gotcha.** It also reads pages of the write-ahead log, valid or not. A row may be
 * old or deleted, so callers must check its checksums and its sequence.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs"
import { kinds, localBytes, varint } from "../file/PageLayout.ts"

type Column = number | string | Uint8Array | null

interface PageRow {
  readonly rowid: number
  readonly columns: ReadonlyArray<Column>
}

const usualPage = 32_768
const walHeader = 32
const frameHeader = 24

const isPageSize = (size: number): boolean => size >= 512 && size <= 65_536 && (size & (size - 1)) === 0

const widths = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0]

/** Returns the columns of a row, as far as its bytes go, or `undefined` if the bytes aren't a row. */
const columnsOf = (payload: Buffer): ReadonlyArray<Column> | undefined => {
  const [headerEnd, start] = varint(payload, 0)
  if (headerEnd < 2 || headerEnd > 256 || headerEnd > payload.length) return undefined
  const columns: Array<Column> = []
  let at = headerEnd
  for (let head = start; head < headerEnd; ) {
    const [type, next] = varint(payload, head)
    head = next
    if (type === 10 || type === 11) return undefined
    const width = type < 12 ? (widths[type] ?? 0) : Math.floor((type - 12) / 2)
    const bytes = payload.subarray(at, at + width)
    at += width
    if (type === 0 || type === 7) columns.push(null)
    else if (type === 8 || type === 9) columns.push(type - 8)
    else if (type < 7) columns.push(bytes.length < width ? null : integer(bytes))
    else columns.push(type % 2 === 0 ? bytes : bytes.toString("utf8"))
  }
  return columns
}

const integer = (bytes: Buffer): number =>
  bytes.length === 8 ? Number(bytes.readBigInt64BE()) : bytes.readIntBE(0, bytes.length)

class Source {
  readonly pageSize: number
  readonly #file: number | undefined
  readonly #wal: number | undefined
  readonly filePages: number
  readonly walFrames: number
  /** The frame with the newest copy of each page in the log. */
  readonly #newest = new Map<number, number>()

  constructor(path: string, wal: string) {
    this.#file = existsSync(path) ? openSync(path, "r") : undefined
    this.#wal = existsSync(wal) ? openSync(wal, "r") : undefined
    const inFile = this.#bytes(this.#file, 16, 2).readUInt16BE(0)
    const inWal = this.#bytes(this.#wal, 8, 4).readUInt32BE(0)
    this.pageSize = [inFile === 1 ? 65_536 : inFile, inWal].find(isPageSize) ?? usualPage
    this.filePages = this.#file === undefined ? 0 : Math.ceil(fstatSync(this.#file).size / this.pageSize)
    const walSize = this.#wal === undefined ? 0 : fstatSync(this.#wal).size
    this.walFrames = Math.max(0, Math.ceil((walSize - walHeader) / (this.pageSize + frameHeader)))
    for (let frame = 0; frame < this.walFrames; frame++) {
      this.#newest.set(this.#bytes(this.#wal, this.#frameAt(frame), 4).readUInt32BE(0), frame)
    }
  }

  #frameAt(frame: number): number {
    return walHeader + frame * (this.pageSize + frameHeader)
  }

  /** Returns zeros for bytes that don't exist or that the disk can't read. */
  #bytes(fd: number | undefined, from: number, length: number): Buffer {
    const bytes = Buffer.alloc(length)
    try {
      if (fd !== undefined) readSync(fd, bytes, 0, length, from)
    } catch {
      // A bad sector loses the rows in it.
    }
    return bytes
  }

  inFile(number: number): Buffer {
    return this.#bytes(this.#file, (number - 1) * this.pageSize, this.pageSize)
  }

  inLog(frame: number): Buffer {
    return this.#bytes(this.#wal, this.#frameAt(frame) + frameHeader, this.pageSize)
  }

  /** Returns the newest copy of a page. */
  current(number: number): Buffer {
    const frame = this.#newest.get(number)
    return frame === undefined ? this.inFile(number) : this.inLog(frame)
  }

  has(number: number): boolean {
    return number > 0 && (number <= this.filePages || this.#newest.has(number))
  }

  close(): void {
    for (const fd of [this.#file, this.#wal]) if (fd !== undefined) closeSync(fd)
  }
}

/** Returns a row's bytes. They are cut off where its chain of overflow pages breaks. */
const payloadAt = (
  page: Buffer,
  at: number,
  length: number,
  source: Source,
  read: (page: number) => Buffer,
): Buffer => {
  const { pageSize } = source
  const local = localBytes(length, true, pageSize)
  if (local === length) return page.subarray(at, at + length)
  const parts = [page.subarray(at, at + local)]
  let next = at + local + 4 <= page.length ? page.readUInt32BE(at + local) : 0
  for (let left = length - local; left > 0 && source.has(next); left -= pageSize - 4) {
    const overflow = read(next)
    parts.push(overflow.subarray(4, 4 + Math.min(left, pageSize - 4)))
    next = overflow.readUInt32BE(0)
  }
  return Buffer.concat(parts)
}

const rowsOf = function* (page: Buffer, source: Source, read: (page: number) => Buffer): Generator<PageRow> {
  const mostBytes = (source.filePages + source.walFrames) * source.pageSize
  const cells = page.readUInt16BE(3)
  for (let index = 0; index < cells && 10 + index * 2 <= page.length; index++) {
    const at = page.readUInt16BE(8 + index * 2)
    if (at < 8 || at >= page.length) continue
    const [length, afterLength] = varint(page, at)
    const [rowid, start] = varint(page, afterLength)
    if (length > mostBytes) continue
    const columns = columnsOf(payloadAt(page, start, length, source, read))
    if (columns !== undefined) yield { rowid, columns }
  }
}

/** Returns every row of a table's leaf pages in the file or its write-ahead log. Some are returned more than once. */
export const rows = function* (path: string, wal = `${path}-wal`): Generator<PageRow> {
  const source = new Source(path, wal)
  try {
    const current = (page: number) => source.current(page)
    // The first page holds the schema.
    for (let number = 2; number <= source.filePages; number++) {
      const page = source.inFile(number)
      if (page[0] !== kinds.tableLeaf) continue
      yield* rowsOf(page, source, current)
      yield* rowsOf(page, source, (page) => source.inFile(page))
    }
    for (let frame = 0; frame < source.walFrames; frame++) {
      const page = source.inLog(frame)
      if (page[0] === kinds.tableLeaf) yield* rowsOf(page, source, current)
    }
  } finally {
    source.close()
  }
}
