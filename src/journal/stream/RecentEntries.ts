/**
 * The newest entries of the log, in memory, so that lanes that keep up never
 * touch the disk. Bounded by bytes and by count; the oldest leave first.
 */
import type { Entry } from "../../event/Entry.ts"

/** Few: old garbage is expensive to collect, and a lane that keeps up reads what is a few milliseconds old. */
const max = { bytes: 4 * 1024 * 1024, entries: 4096 }
/** About the memory that an entry takes beside its body. */
const overhead = 512

export class RecentEntries {
  #entries: Array<Entry> = []
  #start = 0
  #bytes = 0

  /** The lowest sequence it holds; infinite when it is empty. */
  get first(): number {
    return this.#entries[this.#start]?.sequence ?? Number.POSITIVE_INFINITY
  }

  /** Takes what was committed: sequences follow on from each other without gaps. */
  push(entries: ReadonlyArray<Entry>): void {
    for (const entry of entries) {
      this.#entries.push(entry)
      this.#bytes += entry.event.body.length + overhead
    }
    while (this.#bytes > max.bytes || this.#entries.length - this.#start > max.entries) {
      const entry = this.#entries[this.#start++]
      if (entry === undefined) break
      this.#bytes -= entry.event.body.length + overhead
    }
    if (this.#start > 1024 && this.#start * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#start)
      this.#start = 0
    }
  }

  get(sequence: number): Entry | undefined {
    return sequence < this.first ? undefined : this.#entries[this.#start + sequence - this.first]
  }

  /** Entries above `after`, at most `limit`; only to be asked when `after + 1 >= first`. */
  read(after: number, limit: number): ReadonlyArray<Entry> {
    const from = this.#start + after + 1 - this.first
    return this.#entries.slice(from, from + limit)
  }
}
