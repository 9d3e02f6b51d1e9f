/** The admin API of routes: the active routes with their counts, and their verdicts on a type. */
import { Effect, Schema } from "effect"
import { HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ActiveConfig } from "../../ActiveConfig.ts"
import { isKnown, isRelayEvent } from "../../event/EventType.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import { Explanation, mayTake, reached, takes } from "../../routing/Explanation.ts"
import { apiOf, NotFound, noWebhook } from "./ApiParts.ts"

const names = Schema.Array(Schema.String)

/** A route of the active config. */
export const Route = Schema.Struct({
  name: Schema.String,
  match: names,
  except: names,
  webhook: Schema.optionalKey(Schema.String),
  /** Conditions on an event, as in the config. */
  where: Schema.Record(Schema.String, Schema.Unknown),
  to: names,
  /** Deliveries since the start that match the route's types and webhook. With `where`, this is an upper limit. */
  count: Schema.Int,
})
export type Route = typeof Route.Type

/** The routes' verdict on an event type. */
export const TypeReport = Schema.Struct({
  type: Schema.String,
  /** Whether the type is in the sender's catalogue or is the relay's own. */
  isKnown: Schema.Boolean,
  sinks: names,
  /** The sinks of routes with `where`, for which the event decides. */
  conditional: names,
  routes: Schema.Array(Explanation),
})
export type TypeReport = typeof TypeReport.Type

/** The routes of the active config. */
export class RouteGroup extends HttpApiGroup.make("routes").add(
  HttpApiEndpoint.get("list", "/routes", { success: Schema.Array(Route) }),
  /** Treats the event as received by `webhook` (default: any). */
  HttpApiEndpoint.get("explain", "/routes/explain", {
    query: { type: Schema.String, webhook: Schema.optionalKey(Schema.String) },
    success: TypeReport,
    error: NotFound,
  }),
) {}

export const routeHandlers = HttpApiBuilder.group(
  apiOf(RouteGroup),
  "routes",
  Effect.fn(function* (handlers) {
    const active = yield* ActiveConfig
    const { counters } = yield* Ingest

    /**
     * Computed from ingest's counts by type and webhook, because counting each route would take time for every event.
     */
    const counts = (): ReadonlyMap<string, number> => {
      const { router } = active.current.table
      const found = new Map<string, number>()
      for (const [webhook, { events }] of counters.webhooks) {
        for (const [type, count] of events) {
          const taking = router.explain(webhook, type).filter((verdict) => takes(verdict) || mayTake(verdict))
          for (const { route } of taking) found.set(route, (found.get(route) ?? 0) + count)
        }
      }
      return found
    }

    return handlers.handleAll({
      list: () =>
        Effect.sync(() => {
          const counted = counts()
          return active.current.config.routes.map((route) => ({ ...route, count: counted.get(route.name) ?? 0 }))
        }),
      explain: Effect.fnUntraced(function* ({ query: { type, webhook } }) {
        const { config, table } = active.current
        if (webhook !== undefined && !config.webhooks.some(({ name }) => name === webhook)) {
          return yield* noWebhook(webhook)
        }
        const routes = table.router.explain(webhook, type)
        return { type, isKnown: isKnown(type) || isRelayEvent(type), ...reached(routes), routes }
      }),
    })
  }),
)
