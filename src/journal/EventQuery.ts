/** Queries on a journal's events, and their results. They are the same for every journal. */
import { Clock, Effect } from "effect"
import type { Event } from "../event/Event.ts"
import * as Monotonic from "../event/Monotonic.ts"
import * as Pattern from "../routing/Pattern.ts"
import type { CopyLink, DeliveryState, DeliveryStatus } from "./DeliveryStatus.ts"
import { mentions, type SearchIds } from "./stream/SearchIds.ts"

/** The conditions of a search. An event must meet all of them. */
export interface EventQuery {
  readonly id?: string
  readonly sequence?: number
  /** Patterns of event types (default: all). */
  readonly types?: ReadonlyArray<string>
  readonly account?: string
  /** The id of an object. The journal's `searchIds` are the JSON Pointers to such ids. */
  readonly object?: string
  /** An id that is anywhere in the body, as `mentions` finds it. The journal reads every event. */
  readonly mentioned?: string
  readonly webhook?: string
  /** Epoch milliseconds, included. */
  readonly since?: number
  /** Epoch milliseconds, excluded. */
  readonly until?: number
  /** The conditions from here to `alert` must all be met at the same sink. */
  readonly sink?: string
  /** `unrouted` went to no sink. */
  readonly outcome?: DeliveryState | "unrouted"
  /** When the event ended, in epoch milliseconds, included. */
  readonly endedSince?: number
  /** Epoch milliseconds, excluded. */
  readonly endedUntil?: number
  /** Delivered at or after this time, in epoch milliseconds. */
  readonly deliveredAfter?: number
  /** More attempts than this. */
  readonly attemptsOver?: number
  /** Counted by the alert with this id. */
  readonly alert?: number
  /** Also finds entries that were stored although another relay had the event: they have its bytes. */
  readonly duplicates?: boolean
  /** Returns the events with their bodies. Without it, only a query that names one event does. */
  readonly bodies?: boolean
  /** The previous page's `next`. Only the journal that returned it can read it. */
  readonly before?: string
  /** Makes the page oldest first, beginning after this; empty for the first page. */
  readonly after?: string
  /** The end of a search that is oldest first. */
  readonly through?: string
  readonly limit: number
}

/** A stored event, and its state at each sink. */
export interface FoundEvent {
  readonly sequence: number
  /** The place of a page that ends with this event: a query's `before`, `after` or `through`. */
  readonly place: string
  /** How the event entered the log. `moved` means from one lane to another. */
  readonly origin: "delivered" | "replayed" | "moved"
  readonly event: Omit<Event, "body">
  /** The signed bytes, if the query names one event or asks for bodies. */
  readonly body?: Uint8Array
  /** Its states at the sinks that it was routed to when it was accepted. */
  readonly deliveries: ReadonlyArray<DeliveryStatus>
  /** Its original; absent if that isn't recorded. */
  readonly copyOf?: CopyLink
  /** Its copies, oldest first. */
  readonly copies?: ReadonlyArray<CopyLink>
}

/** Events, newest first; oldest first if the query has `after`. */
export interface EventPage {
  readonly events: ReadonlyArray<FoundEvent>
  /** Number of events searched. */
  readonly looked: number
  /** When the last searched event was received, in epoch milliseconds; 0 if there was none. */
  readonly lookedTo: number
  /** The next query's `before` or `after`, if there may be more events. Absent at the end. */
  readonly next?: string
}

/** Properties that many events share. The index stores them as one code. */
export interface Kind {
  readonly type: string
  readonly webhook: string
  readonly sinks: ReadonlyArray<string>
}

export interface Match {
  readonly kind: (kind: Kind) => boolean
  readonly event: (sequence: number, event: Event, sinks: ReadonlyArray<string>) => boolean
  readonly deliveries: (deliveries: ReadonlyArray<DeliveryStatus>) => boolean
}

const isOr = <A>(wanted: A | undefined, value: A): boolean => wanted === undefined || wanted === value

/** A query's conditions on the state at one sink; `undefined` if it has none. */
export const deliveryMatchOf = (
  query: Omit<EventQuery, "limit">,
): ((delivery: DeliveryStatus) => boolean) | undefined => {
  const { sink, endedSince, endedUntil, deliveredAfter, attemptsOver, alert } = query
  const outcome = query.outcome === "unrouted" ? undefined : query.outcome
  const conditions = [sink, outcome, endedSince, endedUntil, deliveredAfter, attemptsOver, alert]
  if (conditions.every((condition) => condition === undefined)) return undefined
  return (delivery) =>
    isOr(sink, delivery.sink) &&
    isOr(outcome, delivery.outcome) &&
    (endedSince === undefined || (delivery.at ?? Number.NEGATIVE_INFINITY) >= endedSince) &&
    (endedUntil === undefined || (delivery.at ?? Number.POSITIVE_INFINITY) < endedUntil) &&
    (deliveredAfter === undefined || (delivery.outcome === "delivered" && (delivery.at ?? 0) >= deliveredAfter)) &&
    (attemptsOver === undefined || (delivery.tries ?? 0) > attemptsOver) &&
    isOr(alert, delivery.alert)
}

/** A query as predicates. */
export const matchOf = (query: EventQuery, searchIds: SearchIds): Match => {
  const {
    id,
    sequence,
    account,
    object,
    mentioned,
    webhook,
    since = 0,
    until = Number.POSITIVE_INFINITY,
    outcome,
  } = query
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
      kind({ type: event.type, webhook: event.webhook, sinks }) &&
      (object === undefined || searchIds.has(event.body, object)) &&
      (mentioned === undefined || mentions(event.body, mentioned)),
    deliveries: (deliveries) => delivery === undefined || deliveries.some(delivery),
  }
}

/** Returns the query of the page after a page that ended at `next`. */
export const nextQuery = (query: EventQuery, next: string): EventQuery =>
  query.after === undefined ? { ...query, before: next } : { ...query, after: next }

/**
 * Searches until it has found the query's limit, has searched everything, or has run for `timeout` milliseconds.
 * The time counts from the first answer, because that one may wait for a worker to start. Returns the found events
 * as one page.
 */
export const collect = Effect.fnUntraced(function* <E>(
  query: EventQuery,
  look: (query: EventQuery) => Effect.Effect<EventPage, E>,
  timeout: number = Number.POSITIVE_INFINITY,
) {
  const clock = yield* Clock.Clock
  const now = () => Monotonic.millis(clock)
  let page = yield* look(query)
  const deadline = now() + timeout
  while (page.next !== undefined && page.events.length < query.limit && now() < deadline) {
    const more = yield* look({ ...nextQuery(query, page.next), limit: query.limit - page.events.length })
    page = {
      ...more,
      events: [...page.events, ...more.events],
      looked: page.looked + more.looked,
      lookedTo: more.lookedTo === 0 ? page.lookedTo : more.lookedTo,
    }
  }
  return page
})
