/**
 * The newest entries of the log, in memory, so that lanes that keep up never read the disk.
 *
 * An entry leaves as soon as all lanes that keep up have read it: an entry that is kept longer outlives
 * collections of new garbage, and only a full collection frees it. Bytes and count are limited for lanes that
 * fall behind; the oldest entries leave first. While every lane is behind by more than that count, nothing is
 * kept, because it would leave unread. A lane that waits for its next event reads no entries until then.
 */
import type { Entry } from "../../event/Event.ts"
import type { Backlog } from "./Backlog.ts"

/**
 * Small, because old garbage is expensive to collect, and lanes that keep up read entries that are a few
 * milliseconds old.
 */
const max = { bytes: 4 * 1024 * 1024, entries: 4096 }
/** Approximate memory of an entry. */
const sizeOf = ({ event }: Entry): number => event.body.length + 512

/** The newest entries of one log. */
export class RecentEntries {
  /** Always the same array: a replaced one would keep its entries in memory until a full collection. */
  readonly #entries: Array<Entry> = []
  #bytes = 0
  /** The position of each reader, without those that wait. */
  readonly #positions = new Map<string, number>()
  /** Before the first read the readers aren't known. */
  #hasReaders = false

  /** The lowest sequence, or infinity without entries. */
  get first(): number {
    return this.#entries[0]?.sequence ?? Number.POSITIVE_INFINITY
  }

  /** Adds committed entries. Their sequences must have no gaps. */
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

  /** Replaces an entry if it is in memory. */
  replace(sequence: number, by: (entry: Entry) => Entry): void {
    const index = sequence - this.first
    const entry = index >= 0 ? this.#entries[index] : undefined
    if (entry === undefined) return
    const replaced = by(entry)
    this.#entries[index] = replaced
    this.#bytes += sizeOf(replaced) - sizeOf(entry)
  }

  /** Returns at most `limit` entries above `after`. Only valid if `after + 1 >= first`. */
  read(after: number, limit: number, reader?: string): ReadonlyArray<Entry> {
    const from = after + 1 - this.first
    return this.taken(this.#entries.slice(from, from + limit), reader)
  }

  /**
   * Records that a reader has read these entries, from memory or from the disk. Drops entries that all readers
   * that keep up have read. A reader behind the first entry reads from the disk, and nothing here is kept for
   * it.
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

  /** Records that a reader waits for an event that isn't here yet. */
  waits(reader: string): void {
    this.#hasReaders = true
    this.#positions.delete(reader)
  }

  /** Records that a reader will read the events above `after`. */
  wants(reader: string, after: number): void {
    this.#hasReaders = true
    this.#positions.set(reader, after)
  }

  /** Drops all entries if all readers wait for later ones. */
  dropUnwanted(): void {
    if (this.#hasReaders && this.#positions.size === 0) this.#dropOldest(this.#entries.length)
  }

  /** Reports whether a reader waits for an event, or is close enough to read this entry before it leaves. */
  #isInReach(sequence: number): boolean {
    for (const position of this.#positions.values()) if (sequence - position <= max.entries) return true
    return this.#positions.size === 0
  }

  #dropOldest(count: number): void {
    if (count <= 0) return
    for (const entry of this.#entries.splice(0, count)) this.#bytes -= sizeOf(entry)
  }
}

type Wake = () => void

/** The parts of a log that waiting requires. */
interface WaitedLog {
  /** The highest sequence that is durable. */
  readonly end: () => number
  /** The backlogs are exact above this sequence. Up to it, a lane must read the log to find its events. */
  readonly readFrom: () => number
  readonly backlogs: ReadonlyMap<string, Backlog>
  /** Records which lanes wait, and which will read. */
  readonly recent: () => Pick<RecentEntries, "waits" | "wants">
}

/**
 * Wakes callers that wait for events of a log. Some wait for any event, and each lane waits for its own events. The
 * waiters of one log.
 */
export class HeadWaiters {
  readonly #log: WaitedLog
  readonly #waiters = new Set<{ readonly after: number; readonly wake: Wake }>()
  readonly #lanes = new Map<string, Set<Wake>>()

  constructor(log: WaitedLog) {
    this.#log = log
  }

  /**
   * Calls `reached` when `Log.awaitBeyond` must return, immediately or later. Returns a function that cancels
   * the wait, or `undefined` if `reached` was already called.
   */
  awaitBeyond(after: number, lane: string | undefined, reached: (through: number) => void): (() => void) | undefined {
    const { end, readFrom, backlogs, recent } = this.#log
    if (lane === undefined || after < readFrom()) {
      if (end() <= after) return this.#add(after, () => reached(after))
      reached(after)
      return undefined
    }
    const next = () => backlogs.get(lane)?.nextAbove(after)
    const wake = (): void => {
      const through = (next() ?? after + 1) - 1
      recent().wants(lane, through)
      reached(through)
    }
    if (next() === undefined) {
      recent().waits(lane)
      return this.#addLane(lane, wake)
    }
    wake()
    return undefined
  }

  #add(after: number, wake: Wake): () => void {
    const waiter = { after, wake }
    this.#waiters.add(waiter)
    return () => {
      this.#waiters.delete(waiter)
    }
  }

  #addLane(lane: string, wake: Wake): () => void {
    const waiting = this.#lanes.get(lane) ?? new Set()
    this.#lanes.set(lane, waiting.add(wake))
    return () => {
      waiting.delete(wake)
    }
  }

  /** Call it after events up to the end were committed and routed to these lanes. */
  reached(lanes: Iterable<string>): void {
    const end = this.#log.end()
    for (const waiter of this.#waiters) {
      if (waiter.after >= end) continue
      this.#waiters.delete(waiter)
      waiter.wake()
    }
    for (const lane of lanes) this.#wakeLane(lane)
  }

  #wakeLane(lane: string): void {
    const waiting = this.#lanes.get(lane)
    if (waiting === undefined) return
    this.#lanes.delete(lane)
    for (const wake of waiting) wake()
  }
}
