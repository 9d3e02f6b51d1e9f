/**
 * The schema of the admin API. The server, the command line's client and
 * /openapi.json are made from it.
 *
 * Lists of events have no payloads. Only a single dead letter or the report of one
 * event has them.
 */

import { Effect, Layer } from "effect"
import { HttpApiBuilder, HttpApiMiddleware, OpenApi } from "effect/http-api"
import * as Authorization from "../Authorization.ts"
import { RelayInfo } from "../RelayInfo.ts"
import { ReplayGroup, Replays, replayHandlers } from "../replay/Replays.ts"
import { History } from "../status/History.ts"
import { RelayStatus, Work } from "../status/RelayStatus.ts"
import { apiOf, BadRequest, SchemaErrors } from "./ApiParts.ts"
import { DeadLetterGroup, deadLetterHandlers } from "./DeadLetterApi.ts"
import { EventGroup, eventHandlers } from "./EventApi.ts"
import { LaneGroup, laneHandlers } from "./LaneApi.ts"
import { RelayGroup, relayHandlers } from "./RelayApi.ts"
import { RouteGroup, routeHandlers } from "./RouteApi.ts"

export class Api extends apiOf(RelayGroup, LaneGroup, DeadLetterGroup, EventGroup, ReplayGroup, RouteGroup) {}

/** Only errors in a URL are repeated, because a body may contain personal data. */
const schemaErrors = HttpApiMiddleware.layerSchemaErrorTransform(SchemaErrors, (error) => {
  if (error.kind === "Query") return Effect.fail(new BadRequest({ message: error.cause.message }))
  return error.kind === "Payload"
    ? Effect.fail(new BadRequest({ message: "the body does not match the schema in /openapi.json" }))
    : Effect.fail(error)
})

const served = Effect.map(RelayInfo, ({ version }) =>
  HttpApiBuilder.layer(Api.annotate(OpenApi.Version, version), { openapiPath: "/openapi.json" }),
)

export const layer = Layer.unwrap(served).pipe(
  Layer.provide([relayHandlers, laneHandlers, deadLetterHandlers, eventHandlers, replayHandlers, routeHandlers]),
  Layer.provide(Replays.layer),
  Layer.provide(RelayStatus.layer),
  Layer.provide(History.layer),
  Layer.provide(Work.layer),
  Layer.provide([schemaErrors, Authorization.layer]),
)
