/** Queries on the events that a journal keeps, and what they find. The same for every journal. */
import type { Event } from "../event/Event.ts"
import * as Pattern from "../routing/Pattern.ts"
import type { Attempt } from "./Settlement.ts"

/** The state of an event at a sink that it was routed to. */
export type DeliveryState =
  | "delivered"
  /** It waits in the log for its lane. */
  | "pending"
  | "retrying"
  | "dead"
  /** It was a dead letter, or waited for a retry, and was removed. */
  | "dropped"
  /** It was a dead letter, and was appended again: `copy`. */
  | "replayed"
  /** It went to the lane `to`, itself or as a `copy`. */
  | "moved"
  /** The lane was removed while the event waited in it. */
  | "laneRemoved"
  /** Its lane has passed it, and no record says how it ended. */
  | "unrecorded"

export interface DeliveryStatus {
  readonly sink: string
  readonly outcome: DeliveryState
  /** The epoch milliseconds at which a retry is due. */
  readonly due?: number
  /** When it came to this, as far as it ended: epoch milliseconds. */
  readonly at?: number
  /** How many attempts there were, where that is known. */
  readonly tries?: number
  /** The milliseconds and the answer's code of the attempt that delivered it. */
  readonly took?: number
  readonly code?: number
  /** Since when it had been a dead letter, in epoch milliseconds. */
  readonly deadAt?: number
  /** The name of the operator who dropped, replayed or moved it. */
  readonly by?: string
  /** The sequence that it was appended again as. */
  readonly copy?: number
  /** The lane that it was moved to. */
  readonly to?: string
  /** When it was a dead letter here, and an operator had it sent again, the first time first. */
  readonly replays?: ReadonlyArray<LetterReplay>
  /** The failed attempts: the first, and the newest nine. */
  readonly attempts: ReadonlyArray<Attempt>
}

/** That a dead letter was sent again. Times in epoch milliseconds. */
export interface LetterReplay {
  readonly at: number
  readonly by: string
  readonly deadAt: number
}

/** That an event was appended again. */
export interface CopyLink {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  readonly by: string
}

/** Which events: all that is given must hold. */
export interface EventQuery {
  readonly id?: string
  readonly sequence?: number
  /** Patterns of event types; none is all. */
  readonly types?: ReadonlyArray<string>
  readonly account?: string
  readonly webhook?: string
  /** Epoch milliseconds, included. */
  readonly since?: number
  /** Epoch milliseconds, excluded. */
  readonly until?: number
  /** The conditions from here to `attemptsOver` hold at one sink, all at the same. */
  readonly sink?: string
  /** `unrouted` went to no sink. */
  readonly outcome?: DeliveryState | "unrouted"
  /** When it came to its outcome, if it has ended: epoch milliseconds, included. */
  readonly endedSince?: number
  /** Epoch milliseconds, excluded. */
  readonly endedUntil?: number
  /** Delivered at that time or later: epoch milliseconds. */
  readonly deliveredAfter?: number
  /** With more attempts than that. */
  readonly attemptsOver?: number
  /** Also entries that a relay stored in vain, because another one had the event: they have its bytes. */
  readonly duplicates?: boolean
  /** The end of the page before: its `next`. Only the journal that said it knows what it means. */
  readonly before?: string
  /** A page oldest first begins after this: empty for the first page. */
  readonly after?: string
  /** Oldest first, and no further than there. */
  readonly through?: string
  readonly limit: number
}

/** An event that is kept, and its state at each sink. */
export interface FoundEvent {
  readonly sequence: number
  /** The place where a page ends whose last event it is: a query's `before`, `after` or `through`. */
  readonly place: string
  /** How it came into the log: `moved` from one lane to another. */
  readonly origin: "delivered" | "replayed" | "moved"
  readonly event: Omit<Event, "body">
  /** The signed bytes, where the query names one event. */
  readonly body?: Uint8Array
  /** At the sinks that it was routed to when it was accepted. */
  readonly deliveries: ReadonlyArray<DeliveryStatus>
  /** The event that it is a copy of; absent where that is not recorded. */
  readonly copyOf?: CopyLink
  /** Its copies, the first one first. */
  readonly copies?: ReadonlyArray<CopyLink>
}

/** Newest first, or oldest first where the query has `after`. */
export interface EventPage {
  readonly events: ReadonlyArray<FoundEvent>
  /** How many events were looked at. */
  readonly looked: number
  /** When the last of them was received, in epoch milliseconds; 0 when there was none. */
  readonly lookedTo: number
  /** There may be more: the next query's `before`, or `after`. Absent at the end. */
  readonly next?: string
}

/** Properties that many events share, and by which an index tells them apart. */
export interface Kind {
  readonly type: string
  readonly webhook: string
  readonly sinks: ReadonlyArray<string>
}

export interface Match {
  readonly kind: (kind: Kind) => boolean
  readonly event: (sequence: number, event: Omit<Event, "body">, sinks: ReadonlyArray<string>) => boolean
  readonly deliveries: (deliveries: ReadonlyArray<DeliveryStatus>) => boolean
}

const isOr = <A>(wanted: A | undefined, value: A): boolean => wanted === undefined || wanted === value

/** A query's conditions on the state at one sink; `undefined` if it has none. */
export const deliveryMatchOf = (query: EventQuery): ((delivery: DeliveryStatus) => boolean) | undefined => {
  const { sink, endedSince, endedUntil, deliveredAfter, attemptsOver } = query
  const outcome = query.outcome === "unrouted" ? undefined : query.outcome
  const conditions = [sink, outcome, endedSince, endedUntil, deliveredAfter, attemptsOver]
  if (conditions.every((condition) => condition === undefined)) return undefined
  return (delivery) =>
    isOr(sink, delivery.sink) &&
    isOr(outcome, delivery.outcome) &&
    (endedSince === undefined || (delivery.at ?? Number.NEGATIVE_INFINITY) >= endedSince) &&
    (endedUntil === undefined || (delivery.at ?? Number.POSITIVE_INFINITY) < endedUntil) &&
    (deliveredAfter === undefined || (delivery.outcome === "delivered" && (delivery.at ?? 0) >= deliveredAfter)) &&
    (attemptsOver === undefined || (delivery.tries ?? 0) > attemptsOver)
}

/** A query as predicates. */
export const matchOf = (query: EventQuery): Match => {
  const { id, sequence, account, webhook, since = 0, until = Number.POSITIVE_INFINITY, outcome } = query
  const delivery = deliveryMatchOf(query)
  const patterns = (query.types ?? []).map(Pattern.make)
  const kind = ({ type, webhook: by, sinks }: Kind): boolean =>
    isOr(webhook, by) &&
    (patterns.length === 0 || patterns.some((pattern) => pattern.matches(type))) &&
    (outcome === undefined || (sinks.length === 0) === (outcome === "unrouted"))
  return {
    kind,
    event: (at, event, sinks) =>
      isOr(id, event.id) &&
      isOr(sequence, at) &&
      isOr(account, event.accountId) &&
      event.receivedAt >= since &&
      event.receivedAt < until &&
      kind({ type: event.type, webhook: event.webhook, sinks }),
    deliveries: (deliveries) => delivery === undefined || deliveries.some(delivery),
  }
}
