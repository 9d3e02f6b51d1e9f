/** Reads entries wherever they are: recent ones from memory, then the log, and older ones from the pending events. */
import type { Entry } from "../../../event/Entry.ts"
import { sendable } from "../../stream/Erasure.ts"
import { RecentEntries } from "../../stream/RecentEntries.ts"
import type { LogRows } from "../rows/LogRows.ts"
import type { PendingEvents } from "../rows/PendingEvents.ts"

/** Approximate bytes of bodies that one read returns from the disk. */
const readBytes = 8 * 1024 * 1024

/** Finds and reads entries by their sequences. */
export class LogReader {
  readonly #recent = new RecentEntries()
  readonly #log: LogRows
  readonly #pending: PendingEvents

  constructor(log: LogRows, pending: PendingEvents) {
    this.#log = log
    this.#pending = pending
  }

  /** Adds committed entries. */
  push(entries: ReadonlyArray<Entry>): void {
    this.#recent.push(entries)
  }

  /** Records that a lane waits for its next event. */
  waits(lane: string): void {
    this.#recent.waits(lane)
  }

  /** Records that a lane will read the events above `after`. */
  wants(lane: string, after: number): void {
    this.#recent.wants(lane, after)
  }

  /** Call it when all lanes with new events have been woken. */
  dropUnwanted(): void {
    this.#recent.dropUnwanted()
  }

  find(sequence: number): Entry | undefined {
    return this.#recent.get(sequence) ?? this.#pending.find(sequence) ?? this.#log.find(sequence)
  }

  /** Replaces an entry in memory. Its row is read again. */
  erase(sequence: number, by: (entry: Entry) => Entry): void {
    this.#recent.replace(sequence, by)
    this.#log.forget(sequence)
  }

  /** Returns entries above `after` from memory, or `undefined` if they are older. */
  readRecent(after: number, limit: number, reader?: string): ReadonlyArray<Entry> | undefined {
    return after + 1 >= this.#recent.first ? this.#recent.read(after, limit, reader).map(sendable) : undefined
  }

  /** Returns entries above `after` from the disk, some megabytes at a time. */
  read(after: number, limit: number, reader?: string): ReadonlyArray<Entry> {
    return this.#recent.taken(this.#readOld(after, limit).map(sendable), reader)
  }

  #readOld(after: number, limit: number): ReadonlyArray<Entry> {
    if (after >= this.#pending.last) return this.#log.read(after, limit, readBytes)
    const older = this.#pending.read(after, limit, readBytes)
    const room = readBytes - older.reduce((bytes, { event }) => bytes + event.body.length, 0)
    return older.concat(this.#log.read(this.#pending.last, limit - older.length, room))
  }
}
