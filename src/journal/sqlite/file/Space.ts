/**
 * Measures the journal's use of its `maxSize`, and the free space of its disk.
 *
 * **Guarantee.** Appends are refused before the disk is full, while lanes can still
 * settle, because SQLite also needs space to move a cursor. If another program fills
 * the disk, the ballast, a file of a few megabytes, is deleted so that lanes can
 * continue.
 *
 * **Gotcha.** The file never shrinks. If the journal has filled a disk, the disk
 * gets no more free space when the sinks catch up. So pages that pruning has freed
 * count as space. Only the write-ahead log can give space back: it is emptied when
 * the disk has little left.
 */
import { fsyncSync, lstatSync, readSync, rmSync, type Stats, statfsSync, statSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import { Exit } from "effect"
import { withFile } from "../../../runtime/Files.ts"
import type { JournalStatus } from "../../Archive.ts"
import { mebibytes, prunesTo, Room } from "../../archive/Room.ts"
import type { AppendExit } from "../../Journal.ts"
import { full } from "../../JournalError.ts"
import { words } from "../rows/SqliteConnection.ts"
import type { Store } from "./Store.ts"

export const ballastBytes = 4 * 1024 * 1024

const isWhole = (found: Stats): boolean => found.isFile() && found.size === ballastBytes

/** Reports whether a file is a ballast that a crash left unfinished: a part of one, or blank. */
const isUnfinished = (file: string, found: Stats): boolean => {
  if (!found.isFile() || found.size > ballastBytes) return false
  const start = Buffer.alloc(4096)
  const read = withFile(file, "r", (fd) => readSync(fd, start, 0, start.length, 0))
  return start.subarray(0, read).every((byte) => byte <= 1)
}

const write = (file: string): void =>
  withFile(file, "wx", (fd) => {
    // It is written in full, because a sparse file would reserve nothing.
    writeSync(fd, Buffer.alloc(ballastBytes, 1))
    fsyncSync(fd)
  })

/**
 * The ballast: a file of a few megabytes next to the journal. It is deleted when the disk is full, so that lanes
 * can settle.
 */
class Ballast {
  /**
   * Why there is nothing to delete on a full disk, for the status. It is empty if there is a ballast, or no
   * space for one.
   */
  problem = ""
  readonly #file: string

  constructor(path: string) {
    this.#file = `${path}-ballast`
  }

  /** Creates the file if it doesn't exist. A file that isn't the relay's is left unchanged. */
  keep(): void {
    this.problem = ""
    try {
      const found = lstatSync(this.#file, { throwIfNoEntry: false })
      if (found !== undefined && isWhole(found)) return
      if (found !== undefined && !isUnfinished(this.#file, found)) {
        this.problem = `The file ${this.#file} is not the relay's, so the relay has nothing to delete if its disk gets full: move it away.`
        return
      }
      rmSync(this.#file, { force: true })
      write(this.#file)
    } catch (error) {
      this.problem = `The file ${this.#file} can't be made (${words(error)}), so the relay has nothing to delete if its disk gets full.`
      this.drop()
    }
  }

  /** Deletes the file to free its space. */
  drop(): void {
    try {
      const found = lstatSync(this.#file, { throwIfNoEntry: false })
      if (found !== undefined && (isWhole(found) || isUnfinished(this.#file, found))) rmSync(this.#file)
    } catch {
      // If the file can't be deleted, its space can't be used. The relay continues without it.
    }
  }
}

/** Measures a journal. Sizes are in bytes. */
export class Space {
  /** The answer to appends while the journal is full. */
  refusal: AppendExit | undefined
  /** Why it is full; empty while it has space. */
  message = ""
  usedBytes = 0
  freeDiskBytes = Number.POSITIVE_INFINITY
  walBytes = 0
  /** Bytes in pages of the file that pruning has freed. New events fill these first. */
  #reusableBytes = 0
  filling: JournalStatus["filling"] = 0
  /** Names what uses most of the space, and what to do, in a sentence. */
  whatFills: () => string = () => ""
  /** Called when a commit has made space tight: prune now. */
  onTight: () => void = () => {}
  /** Called when an append would be refused for lack of space: the callee may prune first. */
  onFull: () => void = () => {}
  readonly ballast: Ballast

  readonly #store: Store
  readonly #size: Room
  readonly #minFree: number
  /** Bytes of the disk that writes may have used since the last `look`. */
  #taken = 0
  #diskWasFull = false
  /** True if something was written since the last append that found no space: more rows may be prunable now. */
  #worthPruning = false
  /** Why the last write failed. */
  #failure = ""
  readonly #pages
  readonly #freePages
  readonly #pageSize: number

  constructor(store: Store, options: { readonly maxSize: number; readonly minFree: number }) {
    this.#store = store
    this.#size = new Room(options.maxSize, prunesTo.file)
    this.#minFree = options.minFree
    this.ballast = new Ballast(store.path)
    this.#pages = store.db.prepare("PRAGMA page_count")
    this.#freePages = store.db.prepare("PRAGMA freelist_count")
    this.#pageSize = Number(store.db.prepare("PRAGMA page_size").get()?.page_size ?? 4096)
    this.look()
  }

  /** Bytes of a frame in the write-ahead log. */
  get frameSize(): number {
    return this.#pageSize + 24
  }

  /** True if rows must be pruned although they are younger than the retention. */
  get isTight(): boolean {
    return this.#size.excess(this.usedBytes) > 0 || this.#isDiskTight
  }

  get #isDiskTight(): boolean {
    return this.#room < this.#minFree * 1.25
  }

  /** True if the disk has little space left, and the write-ahead log has more of it than it needs. */
  get isLogTooLong(): boolean {
    return this.#isDiskTight && this.walBytes > ballastBytes
  }

  /** Free pages of the file count only up to the disk's free space, because the write-ahead log needs as much. */
  get #room(): number {
    const free = Math.max(0, this.freeDiskBytes - this.#taken)
    return free + Math.min(free, this.#reusableBytes)
  }

  /**
   * Reports whether a write found the disk full, and little more than the ballast's size is left. Settlements
   * need that space.
   */
  isDiskFull(): boolean {
    return this.#diskWasFull && this.freeDiskBytes < 2 * ballastBytes
  }

  /** Adds the bytes of a commit, approximately. `look` corrects the sum. */
  wrote(bytes: number): void {
    this.usedBytes += bytes
    // Written twice: to the log and to the file.
    this.#taken += 2 * bytes
    this.#worthPruning = true
    if (this.isTight) this.onTight()
    if (this.#size.isFull(this.usedBytes)) this.#update()
  }

  /** Prunes immediately, at most once per commit, because a burst can fill the journal between two calls of `look`. */
  makeRoom(): void {
    if (!this.#worthPruning) return
    this.#worthPruning = false
    this.onFull()
  }

  /** Counts used pages, without pages that pruning has freed. */
  count(): void {
    const pages = Number(this.#pages.get()?.page_count ?? 0)
    const free = Number(this.#freePages.get()?.freelist_count ?? 0)
    this.usedBytes = (pages - free) * this.#pageSize
    this.#reusableBytes = free * this.#pageSize
  }

  /** Reads the sizes of the file and the disk. It is called a few times a second. */
  look(): void {
    this.count()
    const disk = statfsSync(dirname(this.#store.path))
    this.freeDiskBytes = disk.bavail * disk.bsize
    this.#taken = 0
    this.walBytes = statSync(`${this.#store.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    if (this.#room > this.#minFree + ballastBytes) {
      this.#diskWasFull = false
      this.ballast.keep()
    }
    this.#update()
  }

  /**
   * Handles a write that found the disk full, or failed otherwise: deletes the ballast for the lanes, and
   * refuses appends.
   */
  foundFull(failure: string): void {
    this.#diskWasFull = true
    this.#failure = failure
    this.ballast.drop()
    this.#update()
  }

  #update(): void {
    const { path } = this.#store
    this.filling = this.#size.filling(this.usedBytes)
    const whyFull = this.#size.whyFull(this.usedBytes, `The journal ${path}`, this.whatFills)
    if (whyFull !== "") this.#refuse("maxSize", whyFull)
    else if (this.#diskWasFull || this.#room < this.#minFree) {
      const left = `The disk of the journal, ${dirname(path)}, has ${mebibytes(this.freeDiskBytes)} left, and ${mebibytes(this.#minFree)} must stay free ("journal.minFree"). Free some space.`
      this.#refuse("disk", this.#room < this.#minFree ? left : this.#failure)
    } else {
      this.refusal = undefined
      this.message = ""
    }
  }

  #refuse(cause: "maxSize" | "disk", message: string): void {
    this.refusal = Exit.fail(full(cause, message))
    this.message = message
  }
}
