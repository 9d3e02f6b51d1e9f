/** Events that are kept: lists of them, and one event's story. */
import { Clock, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Lanes } from "../delivery/Lanes.ts"
import { type EventPage, type EventQuery, Journal } from "../journal/Journal.ts"
import * as Api from "./Api.ts"
import * as Story from "./EventReport.ts"
import { requirePatterns, unavailable } from "./Refusals.ts"
import { RelayInfo } from "./RelayInfo.ts"

/** Of one id there are the event and its copies: more than these are of no use to a person. */
const mostOfOne = 20
/** How long one event is looked for, in milliseconds: it takes so long only where the journal is not indexed yet. */
const patience = 5_000

/** `seq_42` is what an event without an id is called here. */
const whichOne = (id: string): Partial<EventQuery> => {
  const [, sequence] = /^seq_([1-9][0-9]{0,14})$/.exec(id) ?? []
  return sequence === undefined ? { id } : { sequence: Number(sequence) }
}

export const layer = HttpApiBuilder.group(
  Api.Api,
  "events",
  Effect.fn(function* (handlers) {
    const journal = yield* Journal
    const lanes = yield* Lanes
    const info = yield* RelayInfo

    /** Page after page, until there is no more. */
    const lookFor = Effect.fnUntraced(function* (id: string) {
      const deadline = (yield* Clock.currentTimeMillis) + patience
      let page: EventPage = { events: [], looked: 0, lookedTo: 0, next: Number.MAX_SAFE_INTEGER }
      while (page.next !== undefined && page.events.length < mostOfOne) {
        const limit = mostOfOne - page.events.length
        const more = yield* journal.events({ ...whichOne(id), before: page.next, limit })
        const lookedTo = more.lookedTo === 0 ? page.lookedTo : more.lookedTo
        page = { ...more, events: [...page.events, ...more.events], looked: page.looked + more.looked, lookedTo }
        if ((yield* Clock.currentTimeMillis) > deadline) break
      }
      return page
    })

    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query }) {
        const { type, account, webhook, since, until, outcome, before, limit } = query
        yield* requirePatterns(type)
        const found = journal.events({
          ...(type !== undefined && { types: [type] }),
          ...(account !== undefined && { account }),
          ...(webhook !== undefined && { webhook }),
          ...(since !== undefined && { since }),
          ...(until !== undefined && { until }),
          ...(outcome !== undefined && { outcome }),
          ...(before !== undefined && { before }),
          limit: limit ?? 50,
        })
        const page = yield* Effect.mapError(found, unavailable)
        return { ...page, events: page.events.map(Story.eventOf) }
      }),
      explain: Effect.fnUntraced(function* ({ params: { id }, query: { reveal } }) {
        const page = yield* Effect.mapError(lookFor(id), unavailable)
        const context = {
          config: yield* info.config,
          lanes: yield* Effect.mapError(lanes.status, unavailable),
          reveal: reveal === "true",
        }
        return { ...page, events: Story.stories(page.events, context) }
      }),
    })
  }),
)
