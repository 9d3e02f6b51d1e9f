/**
 * Copying all that a journal keeps into one of another type: what is owed, with
 * its retries; dead letters; and the history that is kept.
 *
 * A journal is one or several streams, each with events numbered from 1 and a
 * place of each lane. A source gives them as they are, and nothing writes to it
 * meanwhile. A target stores them so that nobody sees half of one.
 */
import type { Effect, Scope } from "effect"
import type { Entry } from "../event/Entry.ts"
import type { MaintenanceError } from "./JournalError.ts"
import type { Attempt, Cursor, Wait } from "./Settlement.ts"
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

/** Where reading goes on: after the event of this lane. */
export interface After {
  readonly lane: string
  readonly sequence: number
}

type Read<A> = Effect.Effect<ReadonlyArray<A>, MaintenanceError>

export interface CopiedStream {
  /** The same at each try: the journal's identity, and which of its streams it is. */
  readonly name: string
  /** The highest sequence that it has given out. */
  readonly last: number
  readonly lanes: ReadonlyArray<CopiedLane>
  /** Some megabytes of events above a sequence, ascending; empty at the end. */
  readonly events: (after: number) => Read<Stored>
  /** By lane and sequence, some at a time; empty at the end. */
  readonly retries: (after: After) => Read<CopiedRetry>
  readonly letters: (after: After) => Read<CopiedLetter>
}

export interface CopySource {
  readonly streams: ReadonlyArray<CopiedStream>
  /** Paused by a person. */
  readonly paused: ReadonlyArray<string>
  /** Of the events read so far, those whose bytes are not what was written. */
  readonly damaged: () => number
}

export interface CopyCounts {
  readonly events: number
  readonly retries: number
  readonly deadLetters: number
  /** Copied by an earlier try. */
  readonly known: number
}

export interface CopyTarget {
  /** `onProgress` is called with the share that is done, from 0 to 1. */
  readonly put: (
    source: CopySource,
    onProgress: (share: number) => Effect.Effect<void>,
  ) => Effect.Effect<CopyCounts, MaintenanceError>
}

/** What a type of journal has for copies. */
export interface Copying<Config> {
  readonly source: (config: Config) => Effect.Effect<CopySource, MaintenanceError, Scope.Scope>
  readonly target: (config: Config) => Effect.Effect<CopyTarget, MaintenanceError, Scope.Scope>
}
