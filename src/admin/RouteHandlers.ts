/** The routes in force, with what they took, and what they do with a type. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ActiveConfig } from "../ActiveConfig.ts"
import { isKnown, isRelayEvent } from "../event/EventType.ts"
import { Ingest } from "../ingest/Ingest.ts"
import type { Explanation } from "../routing/Router.ts"
import * as Api from "./Api.ts"

const takes = ({ verdict }: Explanation): boolean =>
  verdict === "matches" || verdict === "matches when" || verdict === "resolves"

const sinksOf = (routes: ReadonlyArray<Explanation>, ...those: ReadonlyArray<Explanation["verdict"]>) => [
  ...new Set(routes.flatMap(({ verdict, sinks }) => (those.includes(verdict) ? sinks : []))),
]

export const layer = HttpApiBuilder.group(
  Api.Api,
  "routes",
  Effect.fn(function* (handlers) {
    const active = yield* ActiveConfig
    const { counters } = yield* Ingest

    /** By type and webhook, which ingest counts: counting each route would cost every event. */
    const counts = (): ReadonlyMap<string, number> => {
      const { router } = active.current.table
      const found = new Map<string, number>()
      for (const [webhook, { events }] of counters.webhooks) {
        for (const [type, count] of events) {
          for (const explanation of router.explain(webhook, type)) {
            if (takes(explanation)) found.set(explanation.route, (found.get(explanation.route) ?? 0) + count)
          }
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
          return yield* new Api.NotFound({ message: `there is no webhook ${webhook} in the config` })
        }
        const routes = table.router.explain(webhook, type)
        const sinks = sinksOf(routes, "matches", "resolves")
        const conditional = sinksOf(routes, "matches when").filter((sink) => !sinks.includes(sink))
        return { type, isKnown: isKnown(type) || isRelayEvent(type), sinks, conditional, routes }
      }),
    })
  }),
)
