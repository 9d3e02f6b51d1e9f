/** An event that is appended again, and the answer to a duplicate. */
import { Exit } from "effect"
import type { Entry } from "../../event/Entry.ts"
import type { Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"

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
/** The answer to a delivery that is the same as one in a commit that ended with `exit`. */
export const asDuplicate = (exit: AppendExit): AppendExit => (Exit.isSuccess(exit) ? duplicate : exit)

/** The new sequence of each entry, or `undefined` if the entry was received again since. */
export type Copies = ReadonlyArray<number | undefined>
