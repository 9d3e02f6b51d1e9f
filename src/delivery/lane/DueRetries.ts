/**
 * Takes up retries that are due: from the retry queue, with their events read
 * back from the journal.
 */
import { Effect } from "effect"
import type { Entry } from "../../journal/Journal.ts"
import type { LaneParts } from "./LaneParts.ts"
import type { Item } from "./Queue.ts"

type Parts = Pick<LaneParts, "config" | "journal" | "clock" | "progress" | "suspects" | "events">

/** Events that are read back at once. */
const readAtOnce = 256
/** Bytes that are read back at most, one answer of the journal more included. */
const maxBytes = 8 * 1024 * 1024
/** Milliseconds after which an event is looked for again that the journal does not have yet. */
const notStoredWait = 100

export class DueRetries {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Up to `limit` events that are due, or one digest. */
  readonly take = Effect.fnUntraced(function* (this: DueRetries, limit: number) {
    const { config, clock, progress, suspects, events } = this.#parts
    const { retries } = progress
    const now = clock.now()
    const isDigest = config.digest !== undefined
    const taken = isDigest
      ? retries.takeGroup(now, suspects.isIsolated)
      : retries.takeDue(now, Math.min(limit, readAtOnce))
    const due = taken.map(({ sequence }) => sequence)
    const giveBack = (sequences: ReadonlyArray<number>, dueAt: number) => {
      for (const sequence of sequences) retries.giveBack(sequence, dueAt)
    }
    // Otherwise a crash would split what was sent as one digest, or join what was sent as two.
    if (isDigest && due.length > 0 && !progress.isWhole(due)) {
      giveBack(due, now)
      events.settle()
      return []
    }
    const entries = yield* this.#read(due).pipe(Effect.onError(() => Effect.sync(() => giveBack(due, now))))
    const read = new Set(entries.map(({ sequence }) => sequence))
    // The settlement that has them wait may not be on disk yet.
    giveBack(
      due.filter((sequence) => !read.has(sequence)),
      now + notStoredWait,
    )
    return entries.flatMap((entry): ReadonlyArray<Item> => {
      const key = retries.get(entry.sequence)?.key
      return key === undefined ? [] : [{ entry, key }]
    })
  })

  readonly #read = Effect.fnUntraced(function* (this: DueRetries, sequences: ReadonlyArray<number>) {
    const { config, journal, progress } = this.#parts
    const read: Array<Entry> = []
    for (let next = 0, bytes = 0; next < sequences.length && bytes < maxBytes; ) {
      const asked = sequences.slice(next, next + readAtOnce)
      const { entries, lost } = yield* journal.readRetries(config.name, asked)
      for (const sequence of lost) progress.lost(sequence)
      for (const entry of entries) bytes += entry.event.body.length
      read.push(...entries)
      // Some may not be stored yet, and a large answer ends early.
      const last = Math.max(...[...entries.map(({ sequence }) => sequence), ...lost].map((one) => asked.indexOf(one)))
      next += last < 0 ? asked.length : last + 1
    }
    return read
  })
}
