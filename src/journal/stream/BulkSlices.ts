/** The size of the slices of an operator's change. */
import { Clock, Effect, Exit } from "effect"
import type { Entry, Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"
import { Operator } from "../JournalContext.ts"

/** The maximum of a slice: dead letters, entries, and about this many bytes of bodies. */
export const slice = { letters: 64, entries: 256, bytes: 1024 * 1024 }
/** Approximate bytes of bodies that are read at a time. */
export const readBytes = 4 * 1024 * 1024

/** Returns how many of the first items form a slice: at most `most`, about a slice's bytes, and at least one. */
export const firstOf = <A>(items: ReadonlyArray<A>, most: number, sizeOf: (item: A) => number): number => {
  let size = 0
  let count = 0
  for (const item of items) {
    if (count >= most || size >= slice.bytes) break
    size += sizeOf(item)
    count++
  }
  return count
}

/** An entry that is appended again. `sequence` is its former one. */
export interface Again extends Reappended {
  readonly sequence: number
}

export interface Removal {
  /** Epoch milliseconds. */
  readonly at: number
  /** The name of the client that asked. */
  readonly by: string
}

/** A removal at this moment, by the {@link Operator}. */
export const removal: Effect.Effect<Removal> = Effect.gen(function* () {
  return { at: yield* Clock.currentTimeMillis, by: yield* Operator }
})

/** An event to append, and its sinks. */
export interface Reappended {
  readonly event: Event
  readonly sinks: ReadonlyArray<string>
}

/**
 * Keeps the idempotency key of an event that moves to another lane. A replay's key names the sequence of the
 * replay.
 */
export const toMove = ({ sequence, event, replayed }: Entry): Event =>
  replayed ? { ...event, replay: event.replay ?? sequence } : event

/** Gives a replayed event a new idempotency key. */
export const toReplay = (event: Event): Event => {
  const { replay, ...own } = event
  return replay === undefined ? event : own
}

/** The answer to a delivery that was stored before. */
export const duplicate: AppendExit = Exit.succeed("duplicate")
/** The answer to a duplicate of a delivery in a commit that ended with `exit`. */
export const asDuplicate = (exit: AppendExit): AppendExit => (Exit.isSuccess(exit) ? duplicate : exit)

/** The new sequence of each entry, or `undefined` if the entry was received again since. */
export type Copies = ReadonlyArray<number | undefined>
