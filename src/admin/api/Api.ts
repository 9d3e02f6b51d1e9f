/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it. `Handlers.ts` answers the requests: a client
 * doesn't load it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { endings } from "../../journal/LaneInfo.ts"
import { ReplayGroup } from "../replay/ReplayReport.ts"
import { LaneHistory } from "../status/Status.ts"
import { Authorization, Count, NotFound, Refused, SchemaErrors, Unavailable } from "./ApiParts.ts"
import { DeadLetterGroup } from "./DeadLetterApi.ts"
import { EventGroup } from "./EventApi.ts"
import { RelayGroup } from "./RelayApi.ts"
import { RouteGroup } from "./RouteApi.ts"

const optional = Schema.optionalKey
const name = { name: Schema.String }

/** A year in milliseconds. */
const longestPause = 365 * 86_400_000

const Ending = Schema.Literals(endings).annotate({ message: `ending is one of ${endings.join(", ")}` })

/** Changes of lanes. `move` and `drop` are for lanes without a sink in the config; others get a 409. */
class LaneGroup extends HttpApiGroup.make("lanes").add(
  HttpApiEndpoint.get("history", "/lanes/:name/history", {
    params: name,
    success: LaneHistory,
    error: [NotFound, Unavailable],
  }),
  /** With `for`, in milliseconds, the pause ends by itself: at `until`. `ending` needs such an end. */
  HttpApiEndpoint.post("pause", "/lanes/:name/pause", {
    params: name,
    query: {
      for: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1_000, maximum: longestPause }))),
      ending: optional(Ending),
    },
    success: Schema.Struct({ until: optional(EpochMillis), ending: optional(Ending) }),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("resume", "/lanes/:name/resume", {
    params: name,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("move", "/lanes/:name/move", {
    params: name,
    payload: Schema.Struct({ to: Schema.String }),
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/lanes/:name/drop", {
    params: name,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}

export class Api extends HttpApi.make("relay-admin")
  .add(RelayGroup, LaneGroup, DeadLetterGroup, EventGroup, ReplayGroup, RouteGroup)
  .prefix("/api/v1")
  .middleware(Authorization)
  .middleware(SchemaErrors)
  // A misspelt field must not be ignored, because a filter without the field would match more events.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({ title: "relay admin API" })) {}
