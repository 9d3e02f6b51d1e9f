/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it. `Handlers.ts` answers the requests: a client
 * doesn't load it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
 */
import { HttpApi, OpenApi } from "effect/http-api"
import { ReplayGroup } from "../replay/ReplayReport.ts"
import { Authorization, SchemaErrors } from "./ApiParts.ts"
import { DeadLetterGroup } from "./DeadLetterApi.ts"
import { EventGroup } from "./EventApi.ts"
import { LaneGroup } from "./LaneApi.ts"
import { RelayGroup } from "./RelayApi.ts"
import { RouteGroup } from "./RouteApi.ts"

export class Api extends HttpApi.make("relay-admin")
  .add(RelayGroup, LaneGroup, DeadLetterGroup, EventGroup, ReplayGroup, RouteGroup)
  .prefix("/api/v1")
  .middleware(Authorization)
  .middleware(SchemaErrors)
  // A misspelt field must not be ignored, because a filter without the field would match more events.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({ title: "relay admin API" })) {}
