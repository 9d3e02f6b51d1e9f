/** Handlers that list events, explain an event and erase events. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ActiveConfig } from "../ActiveConfig.ts"
import { Lanes } from "../delivery/Lanes.ts"
import type { Millis } from "../event/Quantities.ts"
import { Archive } from "../journal/Archive.ts"
import { collect } from "../journal/EventPages.ts"
import type { EventPage } from "../journal/EventQuery.ts"
import * as Api from "./Api.ts"
import { erase } from "./ErasureRun.ts"
import { readings } from "./EventName.ts"
import { eventOf, reportsOf } from "./EventReport.ts"
import { ofQuery } from "./EventSelection.ts"
import { refusedOr, requireSelectable, unavailable } from "./Refusals.ts"
import { Work } from "./Work.ts"

/** Maximum copies of an event that are shown. */
const maxCopies = 20
/** Time limit of the search for an event. It takes this long only if the journal is not indexed yet. */
const explainTimeout: Millis = 5_000

/** Returns the range of kept events, if all of them were searched and none was found. */
const keptFor = Effect.fnUntraced(function* (archive: Archive["Service"], { events, next }: EventPage) {
  if (events.length > 0 || next !== undefined) return {}
  const [oldest] = (yield* archive.events({ after: "", limit: 1 })).events
  const { first } = yield* archive.status
  return { kept: { pruned: first > 1, ...(oldest !== undefined && { since: oldest.event.receivedAt }) } }
})

export const layer = HttpApiBuilder.group(
  Api.Api,
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
          return yield* new Api.Refused({ message })
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
