/**
 * Events that were lost before they were delivered. They are no duplicates any
 * more, from the moment that the loss is found and across restarts: a sender
 * repairs the loss by sending them again.
 *
 * An event that every sink had stays a duplicate.
 */
import type { DatabaseSync } from "node:sqlite"
import { keyWidth, notDelivered } from "../../stream/CommitBatch.ts"
import type { DuplicateKey } from "../../stream/DuplicateKey.ts"
import { type LogRows, ranges } from "../rows/LogRows.ts"
import type { Duplicates } from "./Duplicates.ts"
import type { LaneStore } from "./LaneStore.ts"

export class Losses {
  /** In words, of events of the log. */
  static ofEvents(path: string, from: number, to: number, why: string): string {
    const events = from === to ? from : `${from} to ${to}`
    return `Events ${events} of the journal ${path} are lost: ${why}. They are not delivered; the sender may send them again.`
  }

  /** In words, of the copy that a lane keeps of an event. */
  static ofCopy(lane: string, sequence: number): string {
    return `Event ${sequence} of lane ${lane} can't be read as it was written: it is not delivered; the sender may send it again.`
  }

  readonly #known: Array<readonly [from: number, to: number]>
  readonly #insert
  readonly #log: LogRows
  readonly #duplicates: Duplicates
  readonly #lanes: LaneStore
  readonly #storeSoon: (work: () => void) => void

  constructor(
    db: DatabaseSync,
    { log, duplicates, lanes }: { readonly log: LogRows; readonly duplicates: Duplicates; readonly lanes: LaneStore },
    storeSoon: (work: () => void) => void,
  ) {
    this.#log = log
    this.#duplicates = duplicates
    this.#lanes = lanes
    this.#storeSoon = storeSoon
    this.#insert = db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)")
    this.#known = db
      .prepare("SELECT first, last FROM hole")
      .all()
      .map(({ first, last }) => [Number(first), Number(last)] as const)
  }

  /** Whether an event is known to be lost. */
  has(sequence: number): boolean {
    return this.#known.some(([from, to]) => from <= sequence && sequence <= to)
  }

  /** Forgets the duplicates of a range that a lane still waits for; all of the range where `isPending` says so. */
  found(from: number, to: number, isPending = false): void {
    const row = this.#log.keysOf(this.#log.rowStart(from) - 1, 1)[0]
    if (row === undefined || row.first > from) return
    const forgotten: Array<number> = []
    for (let sequence = from; sequence <= Math.min(to, row.first + row.count - 1); sequence++) {
      const key = (sequence - row.first) * keyWidth
      if (key + keyWidth > row.keys.length || this.has(sequence)) continue
      const route = row.keys.readUInt32LE(key + 12)
      if ((route & notDelivered) !== 0) continue
      if (!isPending && !this.isPending(sequence, row.routes[route])) continue
      this.#duplicates.forget(
        row.keys.readUInt32LE(key),
        row.keys.readUInt32LE(key + 4),
        row.keys.readUInt32LE(key + 8),
      )
      forgotten.push(sequence)
    }
    if (forgotten.length > 0) this.#remember(ranges(forgotten))
  }

  /**
   * Counts an event as lost that stood outside of the log and that a lane still
   * needs: by the key beside it, since the log may be pruned of its row, or by
   * the row, since an older relay kept none.
   */
  foundCopy(sequence: number, key: DuplicateKey | undefined): void {
    if (key === undefined) this.found(sequence, sequence, true)
    else if (!this.has(sequence)) {
      this.#duplicates.forget(key.hi, key.lo, key.bodyCrc)
      this.#remember([[sequence, sequence]])
    }
  }

  #remember(lost: ReadonlyArray<readonly [from: number, to: number]>): void {
    this.#known.push(...lost)
    this.#storeSoon(() => {
      for (const [first, last] of lost) this.#insert.run(first, last)
    })
  }

  /** Whether a lane waits for an event. Where the route is damaged, every lane that has not passed the event may wait for it. */
  isPending(sequence: number, sinks: ReadonlyArray<string> | undefined): boolean {
    for (const [name, backlog] of this.#lanes.backlogs) {
      if ((sinks === undefined || sinks.includes(name)) && backlog.isPending(sequence)) return true
    }
    return false
  }
}
