/**
 * The rows of a journal, as they are copied into a journal of another type: undelivered events, retries, dead
 * letters, and the history. `archive/Copying.ts` copies them.
 *
 * A journal is one or several streams. Each has events numbered from 1, and a cursor for each lane. A source
 * returns them unchanged, and nothing writes to it meanwhile. A target has one log, and no reader sees half of a
 * copy.
 */
import { createHash } from "node:crypto"
import { Effect, type Scope } from "effect"
import type { Entry } from "../event/Event.ts"
import type { AuditRecord, Operation } from "./AuditLog.ts"
import type { ImportNote } from "./archive/JournalTables.ts"
import type { Attempt } from "./DeliveryStatus.ts"
import type { MaintenanceError } from "./JournalError.ts"
import type { Pause } from "./LaneInfo.ts"
import type { Cursor, DeliveredRange, Wait } from "./Settlement.ts"
import type { LetterToPut, RetryToPut } from "./stream/Cursors.ts"
import type { Ended } from "./stream/OutcomeRecord.ts"
import { Origin, type Stored } from "./stream/Record.ts"

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
  /** The highest sequence that was assigned. */
  readonly last: number
  /** The number of rows that hold its events. It changes when the log is pruned. */
  readonly rows: number
  readonly lanes: ReadonlyArray<CopiedLane>
  /** Returns some megabytes of events above a sequence, ascending; empty at the end. */
  readonly events: (after: number) => Read<Stored>
  /** Returns pages by lane and sequence; empty at the end. */
  readonly retries: (after: After) => Read<CopiedRetry>
  readonly letters: (after: After) => Read<LetterToPut>
  /** Returns the deliveries of the events between two sequences. */
  readonly outcomes: (from: number, to: number) => Read<CopiedOutcomes>
  /** Returns ends above an id, in the order in which they were recorded; empty at the end. */
  readonly ends: (after: number) => Read<CopiedEnd>
}

/** Reports whether an event of a stream is a delivery, and not a copy or a duplicate of one. */
export const isDelivery = ({ entry, origin }: Stored): boolean =>
  entry.duplicate !== true && origin === Origin.delivered

export interface CopySource {
  /** The journal's identity. */
  readonly identity: string
  readonly streams: ReadonlyArray<CopiedStream>
  /** Changes when events are erased: everything copied before that is copied again. */
  readonly erasures: string
  /** Lanes that an operator paused or muted. */
  readonly paused: ReadonlyMap<string, Pause>
  /**
   * Returns events that were imported from other journals, by journal and sequence, so that none is imported
   * again; empty at the end.
   */
  readonly imported: (after: Pick<ImportNote, "journal" | "sequence">) => Read<ImportNote>
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
  event: eachPage(0, ({ entry }: Stored) => entry.sequence),
  retry: eachPage(start, ({ lane, sequence }: CopiedRetry): After => ({ lane, sequence })),
  letter: eachPage(start, ({ lane, entry }: LetterToPut): After => ({ lane, sequence: entry.sequence })),
  end: eachPage(0, ({ id }: CopiedEnd) => id),
  record: eachPage(0, ({ id }: AuditRecord) => id),
  import: eachPage<ImportNote, Pick<ImportNote, "journal" | "sequence">>({ journal: "", sequence: 0 }, (one) => one),
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
    yield* each.event(events, count("events"))
    yield* each.retry(retries, count("retrying"))
    yield* each.letter(letters, count("deadLetters"))
  }
  const lanes = new Set(streams.flatMap(({ lanes }) => lanes.map(({ name }) => name))).size
  const checked: Checked = { ...counts, lanes, damaged: damaged() }
  return checked
})

/** Returns a mark that changes if a relay has used the source, or events were erased. */
export const markOf = ({ identity, erasures, streams }: CopySource): string =>
  createHash("sha256")
    .update(JSON.stringify([identity, erasures, streams.map(({ last, rows, lanes }) => [last, rows, lanes])]))
    .digest("hex")

/** A lane of the target. */
export interface StoredLane extends CopiedLane, Pause {}

/** Rows to store, numbered as in the target. */
export interface CopiedRows {
  /** Events that follow those that are stored, without gaps. */
  readonly events: ReadonlyArray<Stored>
  /** The events that lanes delivered at the first attempt. */
  readonly delivered: ReadonlyArray<{ readonly lane: string; readonly delivered: ReadonlyArray<DeliveredRange> }>
  readonly retries: ReadonlyArray<RetryToPut>
  readonly letters: ReadonlyArray<LetterToPut>
  readonly ended: ReadonlyArray<Ended>
  readonly imported: ReadonlyArray<ImportNote>
  readonly audit: ReadonlyArray<AuditRecord>
  readonly lanes: ReadonlyArray<StoredLane>
}

/** Stores rows as a part of a commit. */
export type Put = (rows: Partial<CopiedRows>) => Effect.Effect<void, MaintenanceError>

type Commit = <A>(work: (put: Put) => Effect.Effect<A, MaintenanceError>) => Effect.Effect<A, MaintenanceError>

export interface CopyTarget {
  /** The sequence of the first event. */
  readonly first: number
  /** The number of events that earlier tries of this copy have stored. */
  readonly known: number
  /** True if an earlier try has completed the copy. */
  readonly isComplete: boolean
  /** Stores what `work` puts: all of it, or nothing. */
  readonly commit: Commit
  /** Does the same, and makes the copy a journal that relays can use. */
  readonly complete: Commit
}

/** The source and the target of a copy, for one type of journal. */
export interface Copying<Config> {
  /** Opens the source. During a copy nothing else may write to it. During a check, relays may continue. */
  source(config: Config, use?: "copy" | "check"): Effect.Effect<CopySource, MaintenanceError, Scope.Scope>
  /** Continues an unfinished copy of the source, unless its mark has changed since. */
  target(config: Config, source: CopySource): Effect.Effect<CopyTarget, MaintenanceError, Scope.Scope>
}
