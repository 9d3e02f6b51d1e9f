/**
 * Reads a stream's log for lanes that are behind, a megabyte at a time. While the lanes deliver one part, the
 * next is read. So a read mostly waits for no round trip, wherever the database is.
 *
 * The log changes only when rows that every lane has passed are pruned, so a part in memory stays valid.
 */
import { Effect, type Result } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import type { JournalError } from "../../JournalError.ts"

/** Entries above `after`, up to `to`, in order. There may be gaps. */
export interface Part {
  readonly after: number
  readonly to: number
  readonly entries: ReadonlyArray<Entry>
}

type Reading = Promise<Result.Result<Part, JournalError>>

interface Reader {
  part?: Part
  /** The next part, which is being read. */
  next?: { readonly after: number; readonly read: Reading }
}

const holds = ({ after, to }: Part, at: number): boolean => after <= at && at < to

/** Returns the index of the first entry above `after`. */
const placeOf = (entries: ReadonlyArray<Entry>, after: number): number => {
  let [low, high] = [0, entries.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((entries[middle]?.sequence ?? 0) > after) high = middle
    else low = middle + 1
  }
  return low
}

/** The readers of a stream that are behind, each with its part. */
export class ReadAhead {
  /** Reads a part; it never rejects. */
  readonly #read: (after: number) => Reading
  readonly #readers = new Map<string, Reader>()

  constructor(read: (after: number) => Reading) {
    this.#read = read
  }

  /**
   * Returns at most `limit` entries above `after`, and none at the `end`. It takes a round trip for each
   * megabyte, mostly before the reader asks for it.
   */
  read(reader: string, after: number, limit: number, end: number): Effect.Effect<ReadonlyArray<Entry>, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const own = this.#readers.get(reader) ?? {}
      this.#readers.set(reader, own)
      for (let at = after; at < end; ) {
        const part = own.part !== undefined && holds(own.part, at) ? own.part : yield* this.#part(own, at)
        if (part.to <= at) break
        own.part = part
        const place = placeOf(part.entries, at)
        const entries = part.entries.slice(place, place + limit)
        if (place + limit >= part.entries.length >> 1 && part.to < end) this.#prepare(own, part.to)
        if (entries.length > 0) return entries
        at = part.to
      }
      return []
    })
  }

  /** Drops a reader's part. The reader continues from memory, or stops. */
  forget(reader: string): void {
    this.#readers.delete(reader)
  }

  #part(own: Reader, after: number): Effect.Effect<Part, JournalError> {
    const ready = own.next?.after === after ? own.next.read : this.#read(after)
    delete own.next
    return Effect.flatMap(
      Effect.promise(() => ready),
      Effect.fromResult,
    )
  }

  #prepare(own: Reader, after: number): void {
    if (own.next?.after !== after) own.next = { after, read: this.#read(after) }
  }
}
