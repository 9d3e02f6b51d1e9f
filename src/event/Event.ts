/**
 * An event as the relay stores it: the signed bytes, and the few facts that later
 * code needs without parsing the bytes again.
 */
import type { EpochMillis } from "./Quantities.ts"
import type { TraceContext } from "./TraceContext.ts"

/** The remains of an erased body. */
export interface Erased {
  readonly at: EpochMillis
  /** The delivery's duplicate key as three 32-bit numbers, because it can't be computed without the body. */
  readonly key: readonly [hi: number, lo: number, bodyCrc: number]
}

/** The facts about an event of another sender than the scheduling service. */
export interface Foreign {
  /** ISO 8601 in UTC. */
  readonly createdAt: string
  /** The headers that sign the event or have its facts, by their lowercase names. */
  readonly headers: Readonly<Record<string, string>>
}

export interface Event {
  /** Envelope `id`; empty if the event has no envelope. */
  readonly id: string
  /** Envelope `data.type`; empty if the event has no envelope. */
  readonly type: string
  /** Envelope `account_id`; empty if the event has no envelope. */
  readonly accountId: string
  /** The webhook's name in the config; `relay` for the relay's own events. */
  readonly webhook: string
  /** The webhook id header as received; empty if absent. It is not signed. */
  readonly webhookId: string
  /** The signature header as received; empty for the relay's own events. */
  readonly signature: string
  /** The name of the secret that verified it; empty for the relay's own events. */
  readonly secret: string
  readonly receivedAt: EpochMillis
  /** Set for an event of a webhook with `verify`. Its body is not an envelope: see `Envelope.ofEvent`. */
  readonly foreign?: Foreign
  /** Why the event is in quarantine, in words; absent if it can be routed. */
  readonly problem?: string
  /** Set by the journal if it already had an event of this webhook and id with other bytes. */
  readonly altered?: boolean
  /** Set by the journal if the event was moved. It keeps the idempotency key of the replay with this sequence. */
  readonly replay?: number
  /** Set by the journal once the event is erased. Its body, signature, trace and the words of `problem` are gone. */
  readonly erased?: Erased
  /** The trace of the event; absent if it is not traced. */
  readonly trace?: TraceContext
  /** The exact signed bytes. They are never changed or re-encoded. */
  readonly body: Uint8Array
}

/** The reserved lane for signed deliveries that can't be routed. Its dead letters are the quarantine. */
export const quarantine = "_quarantine"

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

/** An event with its position in the journal's log. Lanes read entries and send them to sinks. */
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
