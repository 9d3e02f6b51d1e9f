/**
 * Overwrites the bytes of a database's file that no row uses.
 *
 * SQLite leaves copies of rows there: between the rows of a page when it moves some to another page, in pages
 * on the free list, and behind the end of a row in its last overflow page. `secure_delete` overwrites rows that
 * are deleted while it is on. It reaches neither earlier copies nor the former place of a moved row. `VACUUM`
 * reaches all of them, but no commit is possible while it rewrites the file.
 *
 * **Guarantee.** It writes only zeros, and only to bytes that the file format calls unused. A page that isn't
 * sound, or is used twice, is left unchanged and counted.
 *
 * **Gotcha.** Nothing may write to the file meanwhile. Page caches must be dropped afterwards, because they
 * hold the old bytes. See `Erasing.ts`.
 */
import { fdatasyncSync, readSync, writeSync } from "node:fs"
import { type Chain, layoutOf } from "./PageLayout.ts"

/** The header of the file, on its first page. */
const fileHeader = 100
/** Maximum bytes that are written before a sync, because the event loop waits for the sync. */
const syncAfter = 1024 * 1024

export class FreeSpace {
  /** Number of pages that aren't sound. Their free space is left unchanged. */
  damaged = 0
  readonly #fd: number
  readonly #pageSize: number
  /** Bytes of a page, without those reserved at its end. */
  readonly #usable: number
  #pages = 0
  #unsynced = 0
  readonly #page: Buffer
  readonly #overflow: Buffer
  readonly #zeros: Buffer
  /** Whether something uses a page, by its number. */
  readonly #isUsed: Uint8Array

  /** `fd` is open for writing. It must stay open, because closing it would drop the process's locks. */
  constructor(fd: number) {
    this.#fd = fd
    const header = this.#header()
    const size = header.readUInt16BE(16)
    this.#pageSize = size === 1 ? 65_536 : size
    this.#usable = this.#pageSize - (header[20] ?? 0)
    this.#page = Buffer.alloc(this.#pageSize)
    this.#overflow = Buffer.alloc(this.#pageSize)
    this.#zeros = Buffer.alloc(this.#pageSize)
    this.#isUsed = new Uint8Array(this.#pages + 1)
  }

  /** Reads the present header of the file, which has the number of pages. */
  #header(): Buffer {
    const header = Buffer.alloc(fileHeader)
    readSync(this.#fd, header, 0, fileHeader, 0)
    this.#pages = header.readUInt32BE(28)
    return header
  }

  /**
   * Overwrites all free space. Each step handles a page or a row. `roots` are the root pages of the tables and
   * indexes.
   */
  *overwrite(roots: ReadonlyArray<number>): Generator<void> {
    const open = [1, ...roots]
    for (let number = open.pop(); number !== undefined; number = open.pop()) {
      if (!this.#use(number)) continue
      const layout = this.#clean(number)
      open.push(...(layout?.children ?? []))
      for (const chain of layout?.chains ?? []) {
        this.#cleanEnd(chain)
        yield
      }
      yield
    }
    yield* this.#freeList(true)
    this.#sync()
  }

  /** Overwrites the free space of pages that SQLite has written since {@link overwrite} started. */
  overwriteAgain(numbers: Iterable<number>): void {
    this.#header()
    for (const number of numbers) {
      // Overflow pages and trunks of the free list begin with the number of a page, so their first byte is 0.
      if (number <= this.#pages && this.#read(number, this.#page)[0] !== 0) this.#clean(number)
    }
    for (const _ of this.#freeList(false));
    this.#sync()
  }

  #sync(): void {
    this.#unsynced = 0
    fdatasyncSync(this.#fd)
  }

  #read(number: number, page: Buffer): Buffer {
    page.fill(0)
    readSync(this.#fd, page, 0, this.#pageSize, (number - 1) * this.#pageSize)
    return page
  }

  #clear(number: number, page: Buffer, from: number, to: number): void {
    const length = to - from
    if (length <= 0 || page.compare(this.#zeros, 0, length, from, to) === 0) return
    writeSync(this.#fd, this.#zeros, 0, length, (number - 1) * this.#pageSize + from)
    this.#unsynced += length
    if (this.#unsynced >= syncAfter) this.#sync()
  }

  /** Returns false if the page is used already or doesn't exist. Then something is damaged. */
  #use(number: number): boolean {
    const isNew = number >= 1 && number <= this.#pages && this.#isUsed[number] === 0
    if (isNew) this.#isUsed[number] = 1
    else this.damaged += 1
    return isNew
  }

  #clean(number: number) {
    const page = this.#read(number, this.#page)
    const layout = layoutOf(page, number === 1 ? fileHeader : 0, this.#usable)
    if (layout === undefined) this.damaged += 1
    for (const [from, to] of layout?.free ?? []) this.#clear(number, page, from, to)
    return layout
  }

  /** Overwrites the bytes behind the end of a row in its last overflow page. */
  #cleanEnd({ first, bytes }: Chain): void {
    const room = this.#usable - 4
    let number = first
    let left = bytes
    for (; this.#use(number); left -= room) {
      if (left <= room) {
        this.#clear(number, this.#read(number, this.#overflow), 4 + left, this.#usable)
        return
      }
      readSync(this.#fd, this.#overflow, 0, 4, (number - 1) * this.#pageSize)
      number = this.#overflow.readUInt32BE(0)
    }
  }

  /** Overwrites the unused bytes of the free list's trunks, and with `isWhole` also the pages that the trunks name. */
  *#freeList(isWhole: boolean): Generator<void> {
    const header = this.#read(1, this.#page)
    const trunks = new Set<number>()
    for (let trunk = header.readUInt32BE(32); trunk !== 0; ) {
      if (trunk > this.#pages || trunks.has(trunk) || (isWhole && !this.#use(trunk))) return
      trunks.add(trunk)
      const page = this.#read(trunk, this.#page)
      const count = page.readUInt32BE(4)
      if (count > this.#usable / 4 - 2) {
        this.damaged += 1
        return
      }
      this.#clear(trunk, page, 8 + 4 * count, this.#usable)
      for (let index = 0; isWhole && index < count; index++) {
        const number = page.readUInt32BE(8 + 4 * index)
        if (this.#use(number)) this.#clear(number, this.#read(number, this.#overflow), 0, this.#pageSize)
        yield
      }
      trunk = page.readUInt32BE(0)
    }
  }
}
