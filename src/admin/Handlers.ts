/** The handlers of the admin API. Each group has a file. */
import { Effect, Layer } from "effect"
import { HttpApiBuilder, HttpApiMiddleware, OpenApi } from "effect/http-api"
import * as Api from "./Api.ts"
import * as Authorization from "./Authorization.ts"
import * as DeadLetterHandlers from "./DeadLetterHandlers.ts"
import * as EventHandlers from "./EventHandlers.ts"
import { History } from "./History.ts"
import * as LaneHandlers from "./LaneHandlers.ts"
import * as RelayHandlers from "./RelayHandlers.ts"
import { RelayInfo } from "./RelayInfo.ts"
import { RelayStatus } from "./RelayStatus.ts"
import * as ReplayHandlers from "./ReplayHandlers.ts"
import { Replays } from "./Replays.ts"
import * as RouteHandlers from "./RouteHandlers.ts"
import { Work } from "./Work.ts"

/** Only errors in a URL are repeated, because a body may contain personal data. */
const schemaErrors = HttpApiMiddleware.layerSchemaErrorTransform(Api.SchemaErrors, (error) => {
  if (error.kind === "Query") return Effect.fail(new Api.BadRequest({ message: error.cause.message }))
  return error.kind === "Payload"
    ? Effect.fail(new Api.BadRequest({ message: "the body does not match the schema in /openapi.json" }))
    : Effect.fail(error)
})

const served = Effect.map(RelayInfo, ({ version }) =>
  HttpApiBuilder.layer(Api.Api.annotate(OpenApi.Version, version), { openapiPath: "/openapi.json" }),
)

export const layer = Layer.unwrap(served).pipe(
  Layer.provide([
    RelayHandlers.layer,
    LaneHandlers.layer,
    DeadLetterHandlers.layer,
    EventHandlers.layer,
    ReplayHandlers.layer,
    RouteHandlers.layer,
  ]),
  Layer.provide(Replays.layer),
  Layer.provide(RelayStatus.layer),
  Layer.provide(History.layer),
  Layer.provide(Work.layer),
  Layer.provide([schemaErrors, Authorization.layer]),
)
