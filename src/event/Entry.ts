/** An event with its position in the journal's log. Lanes read entries and send them to sinks. */
import type { Event } from "./Event.ts"

/** The actions of messages about alerts. */
export const alertActions = ["trigger", "update", "reminder", "resolve"] as const
export type AlertAction = (typeof alertActions)[number]

/** The content of a message about an alert. */
export interface AlertNote {
  readonly key: string
  readonly action: AlertAction
  readonly status: "firing" | "acknowledged" | "resolved"
  /** The number of its failures. */
  readonly count: number
  /** When its first and its newest failure were received, in epoch milliseconds. */
  readonly first: number
  readonly last: number
  /** The service's reference to an earlier message of the alert, such as the id of a message that can be changed. */
  readonly reference?: string
}

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
  /** Set by a lane with a policy of alerts: the message is about this alert. */
  readonly alert?: AlertNote
}
