/** An event with its position in the journal's log. Lanes read entries and send them to sinks. */
import type { Event } from "./Event.ts"

export interface Entry {
  /** The position in the log: 1, 2, 3, … in the first stream. */
  readonly sequence: number
  readonly event: Event
  /** The sinks that the router chose when the event was accepted. A reload never changes them. */
  readonly sinks: ReadonlyArray<string>
  /** Appended by `replay`. It has its own idempotency key. */
  readonly replayed: boolean
  /** Another relay had already received it, so it goes to no sink. */
  readonly duplicate?: boolean
}
