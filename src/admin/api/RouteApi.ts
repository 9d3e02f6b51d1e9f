/** The admin API of routes: the active routes with their counts, and their verdicts on a type. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Explanation } from "../../routing/Explanation.ts"
import { NotFound } from "./ApiParts.ts"

const names = Schema.Array(Schema.String)

/** A route of the active config. */
export const Route = Schema.Struct({
  name: Schema.String,
  match: names,
  except: names,
  webhook: Schema.optionalKey(Schema.String),
  /** The hours in which it applies, such as `08:00-18:00 Europe/Berlin`. */
  within: Schema.optionalKey(Schema.String),
  /** Conditions on an event, as in the config. */
  where: Schema.Record(Schema.String, Schema.Unknown),
  to: names,
  /** Deliveries since the start that match the route's types and webhook. With `where` or `within`, this is an upper limit. */
  count: Schema.Int,
})
export type Route = typeof Route.Type

/** The routes' verdict on an event type. */
export const TypeReport = Schema.Struct({
  type: Schema.String,
  /** Whether the type is in the sender's catalogue or is the relay's own. */
  isKnown: Schema.Boolean,
  sinks: names,
  /** The sinks of routes with `where` or `within`. The event decides on them. */
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
