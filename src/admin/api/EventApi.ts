/** The admin API of events: listing, explaining and erasing them. */
import { Effect, Schema } from "effect"
import { HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ActiveConfig } from "../../ActiveConfig.ts"
import { Lanes } from "../../delivery/Lanes.ts"
import type { Millis } from "../../event/Quantities.ts"
import { Archive } from "../../journal/Archive.ts"
import { collect } from "../../journal/EventPages.ts"
import type { EventPage as FoundPage } from "../../journal/EventQuery.ts"
import { Work } from "../status/RelayStatus.ts"
import { apiOf, Refused, refusedOr, requireSelectable, Unavailable, unavailable } from "./ApiParts.ts"
import { Erasure, ErasureRequest, erase } from "./ErasureApi.ts"
import { EventPage, EventReports, eventOf, reportsOf } from "./EventReport.ts"
import { EpochMillisFromString, ofQuery, readings, selectionQuery } from "./EventSelection.ts"

const optional = Schema.optionalKey
const limit = optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 })))

/** Lists the journal's events, newest first, and erases them. */
export class EventGroup extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/events", {
    query: {
      ...selectionQuery,
      /** Delivered to a sink at or after this time. */
      deliveredAfter: optional(EpochMillisFromString),
      /** With more attempts than this at a sink. */
      attemptsOver: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1e9 }))),
      /** The `next` of the previous page. */
      before: optional(Schema.String),
      limit,
    },
    success: EventPage,
    error: [Refused, Unavailable],
  }),
  /**
   * Finds the event by its id or by its position in the log, such as `seq_42`. Personal data is masked unless `reveal`
   * is `true`.
   */
  HttpApiEndpoint.get("explain", "/events/:id", {
    params: { id: Schema.String },
    query: { reveal: optional(Schema.Literal("true")) },
    success: EventReports,
    error: Unavailable,
  }),
  /** Overwrites bodies, answers and signatures. Responds when this is done. */
  HttpApiEndpoint.post("erase", "/events/erase", {
    payload: ErasureRequest,
    success: Erasure,
    error: [Refused, Unavailable],
  }),
) {}

/** Maximum copies of an event that are shown. */
const maxCopies = 20
/** Time limit of the search for an event. It takes this long only if the journal is not indexed yet. */
const explainTimeout: Millis = 5_000

/** Returns the range of kept events, if all of them were searched and none was found. */
const keptFor = Effect.fnUntraced(function* (archive: Archive["Service"], { events, next }: FoundPage) {
  if (events.length > 0 || next !== undefined) return {}
  const [oldest] = (yield* archive.events({ after: "", limit: 1 })).events
  const { first } = yield* archive.status
  return { kept: { pruned: first > 1, ...(oldest !== undefined && { since: oldest.event.receivedAt }) } }
})

export const eventHandlers = HttpApiBuilder.group(
  apiOf(EventGroup),
  "events",
  Effect.fn(function* (handlers) {
    const archive = yield* Archive
    const lanes = yield* Lanes
    const work = yield* Work
    const active = yield* ActiveConfig
    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query: { limit = 50, ...query } }) {
        const selection = ofQuery(query)
        yield* requireSelectable(selection)
        const page = yield* Effect.mapError(archive.events({ ...selection, limit }), refusedOr)
        const kept = yield* Effect.mapError(keptFor(archive, page), unavailable)
        return { ...page, ...kept, events: page.events.map((found) => eventOf(found, active.current.config)) }
      }),
      explain: Effect.fnUntraced(function* ({ params: { id }, query: { reveal } }) {
        const found = Effect.forEach(readings(id), (reading) =>
          collect({ ...reading, limit: maxCopies }, archive.events, explainTimeout),
        )
        const [page, ...others] = yield* Effect.mapError(found, unavailable)
        const places = new Set(page?.events.map(({ place }) => place))
        const more = others.flatMap(({ events }) => events).filter(({ place }) => !places.has(place))
        const context = {
          config: active.current.config,
          lanes: yield* Effect.mapError(lanes.status, unavailable),
          reveal: reveal === "true",
        }
        const events = [...(page?.events ?? []), ...more]
        const searched = { looked: 0, lookedTo: 0, ...page, events }
        const kept = yield* Effect.mapError(keptFor(archive, searched), unavailable)
        return { ...searched, ...kept, events: reportsOf(events, context) }
      }),
      erase: Effect.fnUntraced(function* ({ payload }) {
        const { event, place, dryRun: _, giveUp: __, ...selection } = payload
        const isSelection = Object.keys(selection).length > 0
        if ([event !== undefined, place !== undefined, isSelection].filter(Boolean).length !== 1) {
          const message = "name either an event's id, a place in the log, or a selection such as an account"
          return yield* new Refused({ message })
        }
        yield* requireSelectable(selection)
        const { whileStopped } = lanes
        const what = payload.dryRun === true ? "dry run of an erasure" : "erasure"
        const erasing = work.track(what, () => erase({ archive, whileStopped }, payload))
        return yield* Effect.mapError(erasing, refusedOr)
      }),
    })
  }),
)
