/**
 * Copies everything in a journal into a journal of another type: undelivered events, retries, dead letters, and
 * the history.
 *
 * A journal is one or several streams. Each has events numbered from 1, and a cursor for each lane. A source
 * returns them unchanged, and nothing writes to it meanwhile. A target stores them so that no reader sees half
 * of a copy.
 */

import { Effect, type Scope } from "effect"
import type { Entry } from "../event/Entry.ts"
import type { AuditRecord, Operation } from "./AuditLog.ts"
import type { MaintenanceError } from "./JournalError.ts"
import type { Pause } from "./LaneInfo.ts"
import type { Attempt, Cursor, Wait } from "./Settlement.ts"
import type { Ended } from "./stream/OutcomeRecord.ts"
import type { Stored } from "./stream/Record.ts"

/** A lane. Its sequences are those in the stream. */
export interface CopiedLane {
  readonly name: string
  readonly cursor: Cursor
  /** Milliseconds. */
  readonly pausedFor: number
}

export interface CopiedRetry extends Wait {
  readonly lane: string
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}

export interface CopiedLetter {
  readonly lane: string
  /** Epoch milliseconds. */
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}

/** An event that was imported from another journal, and the lanes that got it. */
export interface CopiedImport {
  readonly journal: string
  /** Its sequence in that journal. */
  readonly sequence: number
  readonly lanes: ReadonlyArray<string>
}

/** The events that a lane delivered at the first attempt, among the sequences of a bucket: see `OutcomeRecord.ts`. */
export interface CopiedOutcomes {
  readonly bucket: number
  readonly lane: string
  readonly bytes: Uint8Array
}

/** How an event ended at a lane. Its copy may be in another stream, identified by that stream's index. */
export interface CopiedEnd extends Omit<Ended, "copy"> {
  readonly id: number
  readonly copy?: { readonly stream: number; readonly sequence: number }
}

/** The position after which reading continues. */
export interface After {
  readonly lane: string
  readonly sequence: number
}

type Read<A> = Effect.Effect<ReadonlyArray<A>, MaintenanceError>

export interface CopiedStream {
  /** The journal's identity and the stream's number. It is the same for each try of a copy. */
  readonly name: string
  /** The highest sequence that was assigned. */
  readonly last: number
  readonly lanes: ReadonlyArray<CopiedLane>
  /** Returns some megabytes of events above a sequence, ascending; empty at the end. */
  readonly events: (after: number) => Read<Stored>
  /** Returns pages by lane and sequence; empty at the end. */
  readonly retries: (after: After) => Read<CopiedRetry>
  readonly letters: (after: After) => Read<CopiedLetter>
  /** Returns the deliveries of the events between two sequences. */
  readonly outcomes: (from: number, to: number) => Read<CopiedOutcomes>
  /** Returns ends above an id, in the order in which they were recorded; empty at the end. */
  readonly ends: (after: number) => Read<CopiedEnd>
}

export interface CopySource {
  readonly streams: ReadonlyArray<CopiedStream>
  /** Changes when events are erased: everything copied before that is copied again. */
  readonly erasures: string
  /** Lanes that an operator paused. */
  readonly paused: ReadonlyMap<string, Pause>
  /**
   * Returns events that were imported from other journals, by journal and sequence, so that none is imported
   * again; empty at the end.
   */
  readonly imported: (after: Pick<CopiedImport, "journal" | "sequence">) => Read<CopiedImport>
  /** Returns operators' operations above an id; empty at the end. */
  readonly audit: (after: number) => Read<AuditRecord>
  /** Returns the number of events read so far whose bytes differ from the written ones. */
  readonly damaged: () => number
}

export interface CopyCounts {
  readonly events: number
  readonly retries: number
  readonly deadLetters: number
  /** Events copied by an earlier try. */
  readonly known: number
}

/** The counts of a journal's contents. */
export interface Checked {
  readonly events: number
  readonly retrying: number
  readonly deadLetters: number
  readonly lanes: number
  /** Records whose bytes differ from the written ones. */
  readonly damaged: number
}

/**
 * Reads page after page, until one is empty. `afterOf` returns the position of the next page from the last item
 * of a page.
 */
const eachPage =
  <A, Place>(first: Place, afterOf: (last: A) => Place) =>
  <E, R>(read: (after: Place) => Read<A>, use: (some: ReadonlyArray<A>) => Effect.Effect<unknown, E, R>) =>
    Effect.gen(function* () {
      for (let after = first; ; ) {
        const some = yield* read(after)
        const last = some.at(-1)
        if (last === undefined) return
        yield* use(some)
        after = afterOf(last)
      }
    })

const start: After = { lane: "", sequence: 0 }

/** Pages through a stream's events, retries, dead letters and ends, through all imports, and through the audit log. */
export const each = {
  event: (after: number) => eachPage(after, ({ entry }: Stored) => entry.sequence),
  retry: eachPage(start, ({ lane, sequence }: CopiedRetry): After => ({ lane, sequence })),
  letter: eachPage(start, ({ lane, entry }: CopiedLetter): After => ({ lane, sequence: entry.sequence })),
  end: eachPage(0, ({ id }: CopiedEnd) => id),
  record: eachPage(0, ({ id }: AuditRecord) => id),
  import: eachPage<CopiedImport, Pick<CopiedImport, "journal" | "sequence">>(
    { journal: "", sequence: 0 },
    (one) => one,
  ),
}

/** Returns the source with the copy itself as one more operation in its audit log. */
export const withOperation = (source: CopySource, operation: Operation): CopySource => {
  let isGiven = false
  const last = (after: number): ReadonlyArray<AuditRecord> => {
    if (isGiven) return []
    isGiven = true
    return [{ ...operation, relay: "", id: after + 1 }]
  }
  return {
    ...source,
    audit: (after) => Effect.map(source.audit(after), (some) => (some.length > 0 ? some : last(after))),
  }
}

/** Continues past a page without a sound row, because an empty page would mean the end. */
export const soundPages =
  <Row extends After, A>(
    read: (after: After) => Effect.Effect<ReadonlyArray<Row>, MaintenanceError>,
    decode: (row: Row) => ReadonlyArray<A>,
  ) =>
  (from: After): Read<A> =>
    Effect.gen(function* () {
      for (let after = from; ; ) {
        const rows = yield* read(after)
        const sound = rows.flatMap(decode)
        const end = rows.at(-1)
        if (end === undefined || sound.length > 0) return sound
        after = end
      }
    })

/** Reads everything in a source. */
export const check = Effect.fnUntraced(function* ({ streams, damaged }: CopySource) {
  const counts = { events: 0, retrying: 0, deadLetters: 0 }
  const count = (what: keyof typeof counts) => (some: ReadonlyArray<unknown>) =>
    Effect.sync(() => {
      counts[what] += some.length
    })
  for (const { events, retries, letters } of streams) {
    yield* each.event(0)(events, count("events"))
    yield* each.retry(retries, count("retrying"))
    yield* each.letter(letters, count("deadLetters"))
  }
  const lanes = new Set(streams.flatMap(({ lanes }) => lanes.map(({ name }) => name))).size
  const checked: Checked = { ...counts, lanes, damaged: damaged() }
  return checked
})

export interface CopyTarget {
  /** `onProgress` is called with the share that is done, from 0 to 1. */
  readonly put: (
    source: CopySource,
    onProgress: (share: number) => Effect.Effect<void>,
  ) => Effect.Effect<CopyCounts, MaintenanceError>
}

/** The source and the target of a copy, for one type of journal. */
export interface Copying<Config> {
  /** For a copy nothing may write to the source. For a check, relays may continue. */
  readonly source: (config: Config, use?: "copy" | "check") => Effect.Effect<CopySource, MaintenanceError, Scope.Scope>
  readonly target: (config: Config) => Effect.Effect<CopyTarget, MaintenanceError, Scope.Scope>
}
