/** An event that is appended again, and the answer to one that had come before. */
import { Exit } from "effect"
import type { Event } from "../../event/Event.ts"
import type { AppendExit } from "../Journal.ts"

export interface Reappended {
  readonly event: Event
  readonly sinks: ReadonlyArray<string>
}

export const duplicate: AppendExit = Exit.succeed("duplicate")
export const asDuplicate = (exit: AppendExit): AppendExit => (Exit.isSuccess(exit) ? duplicate : exit)

/** The new sequence of each entry; none where it was received again since. */
export type Copies = ReadonlyArray<number | undefined>
