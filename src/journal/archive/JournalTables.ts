/**
 * The port between operators' changes and a journal: the rows that a change reads
 * and stores. The modules of this folder decide for all journals, and a journal only
 * stores.
 *
 * A change of many events is made in slices, so that the relay answers in between.
 * After a crash the committed slices stay, and the change can be started again.
 */
import type { Effect } from "effect"
import type { Entry } from "../../event/Event.ts"
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
  /**
   * Dead letters, in the order of their keys. Missing and unreadable ones are left out. `done` is the number of keys
   * read: at least one, and at most about a slice's bytes of letters.
   */
  letters(
    keys: ReadonlyArray<DeadLetterKey>,
  ): Rows<{ readonly done: number; readonly letters: ReadonlyArray<StoredDeadLetter> }>
  /**
   * Entries, in whichever table they are. `done` is the number of sequences read: at least one, and at most about a
   * slice's bytes of entries.
   */
  entries(
    sequences: ReadonlyArray<number>,
  ): Rows<{ readonly done: number; readonly entries: ReadonlyMap<number, Entry> }>
  /** Returns the deliveries that were received before. */
  received<A extends Pick<Reappended, "event">>(entries: ReadonlyArray<A>): Rows<ReadonlySet<A>>
  /** Returns by sequence the lanes for which events of another journal were imported before. */
  importedFor(journal: string, sequences: ReadonlyArray<number>): Rows<ReadonlyMap<number, ReadonlyArray<string>>>
  /**
   * Appends entries of one log again, in one commit with the rows that `also` gives. Fails if one of the removed
   * letters is gone. Of equal deliveries only one is appended, and the others have no copy.
   */
  append(entries: ReadonlyArray<Reappended>, origin: Origin, also: (copies: Copies) => AlsoStored): Rows<void>
  /**
   * Turns dead letters into retries of their lanes, and records that. Returns the number of dead letters that existed.
   */
  giveBack(keys: ReadonlyArray<DeadLetterKey>, why: Removal): Rows<number>
  /** Removes dead letters. Returns the number of dead letters that existed. */
  remove(removed: RemovedLetters): Rows<number>
}

type Rows<A> = Effect.Effect<A, JournalError>

/** The part of operators' changes that each journal implements. */
export interface JournalTables {
  /** The reason why appends are refused; empty while there is space. */
  whyFull(): string
  /** The log for events of these sinks. All entries of a commit go to the same log. */
  logOf(sinks: ReadonlyArray<string>): "own" | "shared"
  /**
   * The events of an import that this journal may lack. Fails if the journal accepts no events of that other journal.
   */
  importable(journal: string, events: ReadonlyArray<UndeliveredEvent>): Rows<ReadonlyArray<UndeliveredEvent>>
  /**
   * Runs a slice. On SQLite `work` must not suspend: nothing else runs until it ends. Then the event loop has a turn.
   */
  slice<A>(work: (rows: SliceRows) => Rows<A>): Rows<A>
}
