/**
 * An event as the relay keeps it: the signed bytes, and beside them the few
 * facts that everything downstream needs without parsing them again.
 */
import type { EpochMillis } from "./Quantities.ts"
import type { TraceContext } from "./TraceContext.ts"

/** This is left of a body that was erased. */
export interface Erased {
  readonly at: EpochMillis
  /** The delivery's duplicate key, as three 32-bit numbers: it can't be computed without the body. */
  readonly key: readonly [hi: number, lo: number, bodyCrc: number]
}

export interface Event {
  /** Envelope `id`; empty when the body is no envelope. */
  readonly id: string
  /** Envelope `data.type`; empty when the body is no envelope. */
  readonly type: string
  /** Envelope `account_id`; empty when the body is no envelope. */
  readonly accountId: string
  /** The webhook's name in the config; `relay` for the relay's own events. */
  readonly webhook: string
  /** The webhook id header as received; empty when absent. It is not signed. */
  readonly webhookId: string
  /** The signature header as received; empty for the relay's own events. */
  readonly signature: string
  /** The name of the secret that verified it; empty for the relay's own events. */
  readonly secret: string
  readonly receivedAt: EpochMillis
  /** Why it is in quarantine, in words; absent for every event that can be routed. */
  readonly problem?: string
  /** Set by the journal: it had another event of this webhook and id, with other bytes. */
  readonly altered?: boolean
  /** Set by the journal: it was moved, and keeps the idempotency key of the replay with this sequence. */
  readonly replay?: number
  /** Set by the journal once it was erased: body, signature, trace and the words of `problem` are gone. */
  readonly erased?: Erased
  /** The trace that it belongs to; absent when it is not traced. */
  readonly trace?: TraceContext
  /** The exact bytes that were signed. Never changed, never re-encoded. */
  readonly body: Uint8Array
}

/** The reserved lane of what was signed but can't be routed; its dead letters are the quarantine. */
export const quarantine = "_quarantine"
