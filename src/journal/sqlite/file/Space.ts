/**
 * Room: what the journal uses of its `maxSize`, and what its disk has left.
 *
 * **Promise.** Appends are refused before the disk is full, while lanes can
 * still settle: SQLite needs room to move a cursor too. Should another program
 * fill the disk all the same, the ballast, a file of a few megabytes, is given
 * up for the lanes' sake.
 *
 * **Trap.** The file never shrinks: a disk that the journal itself has filled
 * gets no freer when the sinks catch up. What pruning frees in the file is room
 * too.
 */

import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import { Exit } from "effect"
import type { AppendExit, JournalStatus } from "../../Journal.ts"
import { full } from "./SqliteErrors.ts"
import type { Store } from "./Store.ts"

const ballastBytes = 4 * 1024 * 1024
const marks = [95, 80, 50] as const
/** A mark is taken back when use falls this far below it, in percent, so that one boundary warns once. */
const hysteresis = 5

/** Room gets tight above one share of `maxSize`, and is wanted down to the other: there must be some for what comes at once. */
const tightFrom = 0.9
const tightUntil = 0.8

const mebibytes = (bytes: number): string => `${Math.floor(bytes / 1024 / 1024)} MiB`

export class Space {
  /** What appends are answered while there is no room. */
  refusal: AppendExit | undefined
  usedBytes = 0
  freeDiskBytes = Number.POSITIVE_INFINITY
  walBytes = 0
  /** Pages of the file that pruning has freed, and that new events fill first. */
  private reusableBytes = 0
  filling: JournalStatus["filling"] = 0
  /** Room is wanted now, not at the next look: a commit has made it tight. */
  onTight: () => void = () => {}

  private readonly store: Store
  private readonly maxSize: number
  private readonly minFree: number
  private readonly ballast: string
  private hasBallast = false
  private diskWasFull = false
  private wasFilling = false
  /** What the write that failed came to. */
  private failure = ""
  private readonly pages
  private readonly freePages
  private readonly pageSize: number

  constructor(store: Store, options: { readonly maxSize: number; readonly minFree: number }) {
    this.store = store
    this.maxSize = options.maxSize
    this.minFree = options.minFree
    this.ballast = `${store.path}-ballast`
    this.pages = store.db.prepare("PRAGMA page_count")
    this.freePages = store.db.prepare("PRAGMA freelist_count")
    this.pageSize = Number(store.db.prepare("PRAGMA page_size").get()?.page_size ?? 4096)
    this.look()
  }

  /** Bytes of a frame in the write-ahead log. */
  get frameSize(): number {
    return this.pageSize + 24
  }

  /** What prunable rows give way to, although they are younger than the retention. */
  get isTight(): boolean {
    return this.isFilling || this.room < this.minFree * 1.25
  }

  private get isFilling(): boolean {
    const share = this.usedBytes / this.maxSize
    this.wasFilling = share > (this.wasFilling ? tightUntil : tightFrom)
    return this.wasFilling
  }

  /** No more of the file's free pages counts than the disk itself has free: the write-ahead log needs that. */
  private get room(): number {
    return this.freeDiskBytes + Math.min(this.freeDiskBytes, this.reusableBytes)
  }

  /** A commit wrote about this much; `look` corrects it. */
  wrote(bytes: number): void {
    this.usedBytes += bytes
    if (this.isTight) this.onTight()
    if (this.usedBytes >= this.maxSize) this.decide()
  }

  /** Counts used pages, without those that pruning has freed. */
  count(): void {
    const pages = Number(this.pages.get()?.page_count ?? 0)
    const free = Number(this.freePages.get()?.freelist_count ?? 0)
    this.usedBytes = (pages - free) * this.pageSize
    this.reusableBytes = free * this.pageSize
  }

  /** Looks at the file and the disk: a few times a second, not an event. */
  look(): void {
    this.count()
    const disk = statfsSync(dirname(this.store.path))
    this.freeDiskBytes = disk.bavail * disk.bsize
    this.walBytes = statSync(`${this.store.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    if (this.room > this.minFree + ballastBytes) {
      this.diskWasFull = false
      this.keepBallast()
    }
    this.decide()
  }

  /** A write found the disk full, or failed otherwise: the ballast makes room for the lanes, appends wait. */
  foundFull(failure: string): void {
    this.diskWasFull = true
    this.failure = failure
    if (this.hasBallast) {
      rmSync(this.ballast, { force: true })
      this.hasBallast = false
    }
    this.decide()
  }

  private keepBallast(): void {
    if (this.hasBallast) return
    try {
      if (statSync(this.ballast, { throwIfNoEntry: false })?.size !== ballastBytes) {
        const fd = openSync(this.ballast, "w", 0o600)
        // Written, not just sized: a sparse file would hold no room.
        writeSync(fd, Buffer.alloc(ballastBytes, 1))
        fsyncSync(fd)
        closeSync(fd)
      }
      this.hasBallast = true
    } catch {
      rmSync(this.ballast, { force: true })
    }
  }

  private decide(): void {
    const percent = (this.usedBytes / this.maxSize) * 100
    const mark = marks.find((mark) => percent >= mark - (this.filling >= mark ? hysteresis : 0)) ?? 0
    this.filling = mark
    const disk = dirname(this.store.path)
    if (this.usedBytes >= this.maxSize) {
      this.refuse(
        "maxSize",
        `The journal ${this.store.path} holds ${mebibytes(this.usedBytes)} and may hold ${mebibytes(this.maxSize)} ("journal.maxSize"). It empties as the sinks catch up: see \`relay lanes list\`.`,
      )
    } else if (this.diskWasFull || this.room < this.minFree) {
      const left = `The disk of the journal, ${disk}, has ${mebibytes(this.freeDiskBytes)} left, and ${mebibytes(this.minFree)} must stay free ("journal.minFree"). Free some space.`
      this.refuse("disk", this.room < this.minFree ? left : this.failure)
    } else {
      this.refusal = undefined
    }
  }

  private refuse(cause: "maxSize" | "disk", message: string): void {
    this.refusal = Exit.fail(full(cause, message))
  }

  /** Why there is no room, in words; empty when there is. */
  get message(): string {
    return this.refusal === undefined || Exit.isSuccess(this.refusal) ? "" : describe(this.refusal)
  }
}

const describe = (exit: AppendExit): string => {
  const failure = Exit.match(exit, {
    onSuccess: () => undefined,
    onFailure: (cause) => cause.reasons.find((reason) => reason._tag === "Fail"),
  })
  return failure?._tag === "Fail" ? failure.error.message : ""
}
