/** An event that is appended again, and the answer to one that had come before. */
import { Exit } from "effect"
import type { Entry } from "../../event/Entry.ts"
import type { Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"

/** An event to append, and its sinks. */
export interface Reappended {
  readonly event: Event
  readonly sinks: ReadonlyArray<string>
}

/** An event that goes to another lane keeps its idempotency key: that of a replay names the sequence of the replay. */
export const toMove = ({ sequence, event, replayed }: Entry): Event =>
  replayed ? { ...event, replay: event.replay ?? sequence } : event

/** An event that is replayed gets an idempotency key of its own. */
export const toReplay = (event: Event): Event => {
  const { replay, ...own } = event
  return replay === undefined ? event : own
}

/** The answer to a delivery that was stored before. */
export const duplicate: AppendExit = Exit.succeed("duplicate")
/** The answer to a delivery whose equal waits for the commit that ended so. */
export const asDuplicate = (exit: AppendExit): AppendExit => (Exit.isSuccess(exit) ? duplicate : exit)

/** The new sequence of each entry; none where it was received again since. */
export type Copies = ReadonlyArray<number | undefined>
