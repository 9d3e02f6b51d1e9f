/** Handlers for the active routes with their counts, and for their verdicts on a type. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ActiveConfig } from "../ActiveConfig.ts"
import { isKnown, isRelayEvent } from "../event/EventType.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { mayTake, reached, takes } from "../routing/Explanation.ts"
import * as Api from "./Api.ts"
import { noWebhook } from "./Refusals.ts"

export const layer = HttpApiBuilder.group(
  Api.Api,
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
          const taking = router.explain(webhook, type).filter((one) => takes(one) || mayTake(one))
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
