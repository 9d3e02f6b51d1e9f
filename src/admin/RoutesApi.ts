/** The part of the admin API that shows the routes in force, and explains what they do with an event type. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Explanation } from "../routing/Explanation.ts"
import { NotFound } from "./ApiErrors.ts"

const names = Schema.Array(Schema.String)

/** A route of the config in force. */
export const Route = Schema.Struct({
  name: Schema.String,
  match: names,
  except: names,
  webhook: Schema.optionalKey(Schema.String),
  /** Conditions on an event, as they stand in the config. */
  where: Schema.Record(Schema.String, Schema.Unknown),
  to: names,
  /** Deliveries since the start that it would take by their type and webhook; with `where`, it took no more than these. */
  count: Schema.Int,
})
export type Route = typeof Route.Type

/** The routes' verdict on an event type. */
export const TypeReport = Schema.Struct({
  type: Schema.String,
  /** Whether the sender's catalogue has it, or it is the relay's own. */
  isKnown: Schema.Boolean,
  sinks: names,
  /** The sinks of routes with `where`: the event decides. */
  conditional: names,
  routes: Schema.Array(Explanation),
})
export type TypeReport = typeof TypeReport.Type

/** The routes of the active config. */
export class Routes extends HttpApiGroup.make("routes").add(
  HttpApiEndpoint.get("list", "/routes", { success: Schema.Array(Route) }),
  /** The event is taken as one that came by `webhook`; by default by any. */
  HttpApiEndpoint.get("explain", "/routes/explain", {
    query: { type: Schema.String, webhook: Schema.optionalKey(Schema.String) },
    success: TypeReport,
    error: NotFound,
  }),
) {}
