/**
 * The newest entries of the log, in memory, so that lanes that keep up never
 * touch the disk. What all of those have read leaves at once: what is kept longer
 * outlives a collection of new garbage, and only a full one finds it then. Bounded
 * by bytes and by count for a lane that falls behind; the oldest leave first.
 * While every lane is further behind than that count nothing is kept: it would
 * leave unread. A lane that waits for its next event reads none of these until then.
 */
import type { Entry } from "../../event/Entry.ts"

/** Few: old garbage is expensive to collect, and a lane that keeps up reads what is a few milliseconds old. */
const max = { bytes: 4 * 1024 * 1024, entries: 4096 }
/** About the memory that an entry takes. */
const sizeOf = ({ event }: Entry): number => event.body.length + 512

/** The newest entries of one log. */
export class RecentEntries {
  /** Always this array: one that was replaced would keep what it held until a full collection. */
  readonly #entries: Array<Entry> = []
  #bytes = 0
  /** Up to where each reader has read; not of those that wait. */
  readonly #positions = new Map<string, number>()
  /** Before the first read nobody knows who will read. */
  #hasReaders = false

  /** The lowest sequence it holds; infinite when it is empty. */
  get first(): number {
    return this.#entries[0]?.sequence ?? Number.POSITIVE_INFINITY
  }

  /** Takes what was committed: sequences follow on from each other without gaps. */
  push(entries: ReadonlyArray<Entry>): void {
    if (!this.#isInReach(entries.at(-1)?.sequence ?? 0)) {
      this.#dropOldest(this.#entries.length)
      return
    }
    for (const entry of entries) {
      this.#entries.push(entry)
      this.#bytes += sizeOf(entry)
    }
    let excess = this.#entries.length - max.entries
    for (let bytes = this.#bytes, index = 0; bytes > max.bytes; index++) {
      const entry = this.#entries[index]
      if (entry === undefined) break
      bytes -= sizeOf(entry)
      excess = Math.max(excess, index + 1)
    }
    this.#dropOldest(excess)
  }

  get(sequence: number): Entry | undefined {
    return sequence < this.first ? undefined : this.#entries[sequence - this.first]
  }

  /** Replaces an entry, if it is here. */
  replace(sequence: number, by: (entry: Entry) => Entry): void {
    const index = sequence - this.first
    const entry = index >= 0 ? this.#entries[index] : undefined
    if (entry === undefined) return
    const replaced = by(entry)
    this.#entries[index] = replaced
    this.#bytes += sizeOf(replaced) - sizeOf(entry)
  }

  /** Entries above `after`, at most `limit`; only to be asked when `after + 1 >= first`. */
  read(after: number, limit: number, reader?: string): ReadonlyArray<Entry> {
    const from = after + 1 - this.first
    return this.taken(this.#entries.slice(from, from + limit), reader)
  }

  /**
   * A reader has taken these, from here or from the disk: drops what every reader
   * has that keeps up. One that is behind the first entry reads from the disk, and
   * waits for nothing here.
   */
  taken(entries: ReadonlyArray<Entry>, reader: string | undefined): ReadonlyArray<Entry> {
    const last = entries.at(-1)
    if (reader === undefined || last === undefined) return entries
    this.wants(reader, last.sequence)
    let common = last.sequence
    for (const position of this.#positions.values()) if (position + 1 >= this.first) common = Math.min(common, position)
    this.#dropOldest(common + 1 - this.first)
    return entries
  }

  /** A reader waits for an event that is not here yet. */
  waits(reader: string): void {
    this.#hasReaders = true
    this.#positions.delete(reader)
  }

  /** A reader will read the events above `after`. */
  wants(reader: string, after: number): void {
    this.#hasReaders = true
    this.#positions.set(reader, after)
  }

  /** Drops all entries if all readers wait for later ones. */
  dropUnwanted(): void {
    if (this.#hasReaders && this.#positions.size === 0) this.#dropOldest(this.#entries.length)
  }

  /** Whether a reader is near enough to come to this entry before it leaves, or waits for one. */
  #isInReach(sequence: number): boolean {
    for (const position of this.#positions.values()) if (sequence - position <= max.entries) return true
    return this.#positions.size === 0
  }

  #dropOldest(count: number): void {
    if (count <= 0) return
    for (const entry of this.#entries.splice(0, count)) this.#bytes -= sizeOf(entry)
  }
}
