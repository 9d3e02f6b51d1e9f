/** Queries on the events that a journal keeps, and what they find. The same for every journal. */
import type { Event } from "../event/Event.ts"
import * as Pattern from "../routing/Pattern.ts"
import type { Attempt } from "./Settlement.ts"

/** The state of an event at a sink that it was routed to. */
export type DeliveryState =
  /** Its lane has passed it: delivered, or a dead letter that a person dropped or replayed. */
  | "delivered"
  /** It waits in the log for its lane. */
  | "pending"
  | "retrying"
  | "dead"
  /** What was pending in the lane was moved or given up. */
  | "laneRemoved"

export interface DeliveryStatus {
  readonly sink: string
  readonly outcome: DeliveryState
  /** Of a retry, when it is due: epoch milliseconds. */
  readonly due?: number
  /** Of a dead letter, since when it is one: epoch milliseconds. */
  readonly at?: number
  /** Failed attempts of a retry or a dead letter; not kept after that. */
  readonly attempts: ReadonlyArray<Attempt>
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
  /** That of at least one sink; `unrouted` went to none. */
  readonly outcome?: Exclude<DeliveryState, "laneRemoved"> | "unrouted"
  /** Where the page before ended: its `next`. Only the journal that said it knows what it means. */
  readonly before?: string
  /** The same oldest first, which this asks for: empty for the first page. */
  readonly after?: string
  /** Oldest first, and no further than there. */
  readonly through?: string
  readonly limit: number
}

/** An event that is kept, and its state at each sink. */
export interface FoundEvent {
  readonly sequence: number
  /** Where a page ends that it is the last of: a query's `before`, `after` or `through`. */
  readonly place: string
  /** How it came into the log: `moved` from one lane to another. */
  readonly origin: "delivered" | "replayed" | "moved"
  readonly event: Omit<Event, "body">
  /** The signed bytes, where the query names one event. */
  readonly body?: Uint8Array
  /** At the sinks that it was routed to when it was accepted. */
  readonly deliveries: ReadonlyArray<DeliveryStatus>
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

/** What many events have in common, and an index tells apart. */
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

/** A query as predicates. */
export const matchOf = (query: EventQuery): Match => {
  const { id, sequence, account, webhook, since = 0, until = Number.POSITIVE_INFINITY, outcome } = query
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
    deliveries: (deliveries) =>
      outcome === undefined || outcome === "unrouted" || deliveries.some((delivery) => delivery.outcome === outcome),
  }
}
