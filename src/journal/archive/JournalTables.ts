/**
 * The port between operators' changes and a journal: the rows that a change
 * reads and stores. The modules of this folder decide, each once for all
 * journals, and a journal only stores.
 *
 * A change of many events is made in slices, so that the relay answers in
 * between. After a crash the slices that were committed stay, and the change can
 * be started again.
 */
import type { Effect } from "effect"
import type { Entry } from "../../event/Entry.ts"
import type { UndeliveredEvent } from "../Archive.ts"
import type { JournalError } from "../JournalError.ts"
import type { DeadLetterKey, StoredDeadLetter } from "../LaneInfo.ts"
import type { Copies, Reappended, Removal } from "../stream/BulkSlices.ts"
import type { LetterToPut } from "../stream/Cursors.ts"
import type { Ended } from "../stream/OutcomeRecord.ts"
import type { Origin } from "../stream/Record.ts"

/** Dead letters to remove. */
export interface RemovedLetters {
  readonly keys: ReadonlyArray<DeadLetterKey>
  readonly outcome: "dropped" | "replayed"
  /** The new sequence of each, if it was appended again. */
  readonly copies: Copies
  readonly why: Removal
}

/** The lanes that an event of another journal was imported for. */
export interface ImportNote {
  readonly journal: string
  readonly sequence: number
  readonly lanes: ReadonlyArray<string>
}

/** The rows that are stored by the commit that appends entries again. */
export interface AlsoStored {
  readonly removed?: RemovedLetters
  readonly ended?: ReadonlyArray<Ended>
  readonly imported?: ReadonlyArray<ImportNote>
  readonly letters?: ReadonlyArray<LetterToPut>
}

/** The rows of a slice. `append` refuses events that were erased after the slice had read them. */
export interface SliceRows {
  /** Dead letters, in the order of their keys, without those that are gone or can't be read. `done` counts the keys: about a slice's bytes of letters, at least one. */
  letters(
    keys: ReadonlyArray<DeadLetterKey>,
  ): Rows<{ readonly done: number; readonly letters: ReadonlyArray<StoredDeadLetter> }>
  /** Entries, wherever they are kept. `done` counts the sequences: about a slice's bytes of entries, at least one. */
  entries(
    sequences: ReadonlyArray<number>,
  ): Rows<{ readonly done: number; readonly entries: ReadonlyMap<number, Entry> }>
  /** The deliveries among these that were received before. */
  received<A extends Pick<Reappended, "event">>(entries: ReadonlyArray<A>): Rows<ReadonlySet<A>>
  /** By sequence, the lanes that events of another journal were imported for. */
  importedFor(journal: string, sequences: ReadonlyArray<number>): Rows<ReadonlyMap<number, ReadonlyArray<string>>>
  /**
   * Appends entries of one log again, in one commit with the rows that `also` gives. Fails if one of the removed
   * letters is gone. Of equal deliveries only one is appended, and the others have no copy.
   */
  append(entries: ReadonlyArray<Reappended>, origin: Origin, also: (copies: Copies) => AlsoStored): Rows<void>
  /** Makes retries of dead letters, which their lanes take up, and records it. Returns the number of those that there were. */
  giveBack(keys: ReadonlyArray<DeadLetterKey>, why: Removal): Rows<number>
  /** Removes dead letters. Returns the number of those that there were. */
  remove(removed: RemovedLetters): Rows<number>
}

type Rows<A> = Effect.Effect<A, JournalError>

/** The part of operators' changes that each journal implements. */
export interface JournalTables {
  /** Why nothing more may be appended; empty while there is room. */
  whyFull(): string
  /** The log that events for these sinks go to. Only entries of one log go in one commit. */
  logOf(sinks: ReadonlyArray<string>): "own" | "shared"
  /** The events of an import that this journal may lack. Fails if it takes none of that journal. */
  importable(journal: string, events: ReadonlyArray<UndeliveredEvent>): Rows<ReadonlyArray<UndeliveredEvent>>
  /** Runs a slice. On SQLite `work` must not suspend: nothing else runs until it has ended, and then the event loop has a turn. */
  slice<A>(work: (rows: SliceRows) => Rows<A>): Rows<A>
}
