/** An event with its place in the journal's log: what lanes read and sinks are sent. */
import type { Event } from "./Event.ts"

export interface Entry {
  /** Its place in the log: 1, 2, 3, … in the first stream. */
  readonly sequence: number
  readonly event: Event
  /** The sinks the router chose when it was accepted. A reload never changes them. */
  readonly sinks: ReadonlyArray<string>
  /** Appended by `replay`: outside of order by key, with an idempotency key of its own. */
  readonly replayed: boolean
  /** It had come before, at another relay: it goes to no sink. */
  readonly duplicate?: boolean
}
