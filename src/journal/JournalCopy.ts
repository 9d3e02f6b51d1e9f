/**
 * Copying all that a journal keeps into one of another type: what is owed, with
 * its retries; dead letters; and the history that is kept.
 *
 * A journal is one or several streams, each with events numbered from 1 and a
 * place of each lane. A source gives them as they are, and nothing writes to it
 * meanwhile. A target stores them so that nobody sees half of one.
 */
import { Effect, type Scope } from "effect"
import type { Entry } from "../event/Entry.ts"
import type { AuditRecord, Operation } from "./AuditLog.ts"
import type { MaintenanceError } from "./JournalError.ts"
import type { Attempt, Cursor, Wait } from "./Settlement.ts"
import type { Ended } from "./stream/OutcomeRecord.ts"
import type { Stored } from "./stream/Record.ts"

/** Sequences are those in the stream. */
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

/** An event that was imported from another journal, and the lanes that it was imported for. */
export interface CopiedImport {
  readonly journal: string
  /** Its place in that journal. */
  readonly sequence: number
  readonly lanes: ReadonlyArray<string>
}

/** The events that a lane delivered at the first attempt, among the sequences of a bucket: see `OutcomeRecord.ts`. */
export interface CopiedOutcomes {
  readonly bucket: number
  readonly lane: string
  readonly bytes: Uint8Array
}

/** How an event ended at a lane. Its copy may be in another stream, which is told by its index. */
export interface CopiedEnd extends Omit<Ended, "copy"> {
  readonly id: number
  readonly copy?: { readonly stream: number; readonly sequence: number }
}

/** The place where reading goes on: after the event of this lane. */
export interface After {
  readonly lane: string
  readonly sequence: number
}

type Read<A> = Effect.Effect<ReadonlyArray<A>, MaintenanceError>

export interface CopiedStream {
  /** The journal's identity, and which of its streams it is. A later try finds the same name. */
  readonly name: string
  /** The highest sequence that it has given out. */
  readonly last: number
  readonly lanes: ReadonlyArray<CopiedLane>
  /** Some megabytes of events above a sequence, ascending; empty at the end. */
  readonly events: (after: number) => Read<Stored>
  /** By lane and sequence, some at a time; empty at the end. */
  readonly retries: (after: After) => Read<CopiedRetry>
  readonly letters: (after: After) => Read<CopiedLetter>
  /** The deliveries of the events from one sequence up to another. */
  readonly outcomes: (from: number, to: number) => Read<CopiedOutcomes>
  /** In the order in which they were recorded, above an id; empty at the end. */
  readonly ends: (after: number) => Read<CopiedEnd>
}

export interface CopySource {
  readonly streams: ReadonlyArray<CopiedStream>
  /** Another text once events were erased: what was copied before that is copied anew. */
  readonly erasures: string
  /** Paused by a person. */
  readonly paused: ReadonlyArray<string>
  /** The events that it was brought back from others, so that none of it is again: by journal and sequence; empty at the end. */
  readonly imported: (after: Pick<CopiedImport, "journal" | "sequence">) => Read<CopiedImport>
  /** The operations of operators above an id; empty at the end. */
  readonly audit: (after: number) => Read<AuditRecord>
  /** The number of events read so far whose bytes are not what was written. */
  readonly damaged: () => number
}

export interface CopyCounts {
  readonly events: number
  readonly retries: number
  readonly deadLetters: number
  /** Copied by an earlier try. */
  readonly known: number
}

/** The counts of all that a journal holds. */
export interface Checked {
  readonly events: number
  readonly retrying: number
  readonly deadLetters: number
  readonly lanes: number
  /** Records whose bytes are not what was written. */
  readonly damaged: number
}

/** Reads page after page, until one is empty; `afterOf` says where the next begins, by the last of a page. */
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

/** Pages through what a stream keeps: its events, its lanes' retries and dead letters, how events ended; through all imports, and through the audit log. */
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

/** The source with one more operation in its audit log: the copy itself. */
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

/** Reads on where nothing of a page is sound: an empty one is the end. */
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

/** Reads all that a source has. */
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

/** The two ends of a copy, which each type of journal has. */
export interface Copying<Config> {
  /** For a copy nothing may write to it; to check it, relays may go on. */
  readonly source: (config: Config, use?: "copy" | "check") => Effect.Effect<CopySource, MaintenanceError, Scope.Scope>
  readonly target: (config: Config) => Effect.Effect<CopyTarget, MaintenanceError, Scope.Scope>
}
