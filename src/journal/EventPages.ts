/** Reading events page after page. */
import { Clock, Effect } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import type { EventPage, EventQuery } from "./EventQuery.ts"

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
