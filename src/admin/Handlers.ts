/** The handlers of the admin API: a file a group. */
import { Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Api from "./Api.ts"
import * as DeadLetterHandlers from "./DeadLetterHandlers.ts"
import * as EventHandlers from "./EventHandlers.ts"
import * as LaneHandlers from "./LaneHandlers.ts"
import * as RelayHandlers from "./RelayHandlers.ts"
import { Work } from "./Work.ts"

export const layer = HttpApiBuilder.layer(Api.Api, { openapiPath: "/openapi.json" }).pipe(
  Layer.provide([RelayHandlers.layer, LaneHandlers.layer, DeadLetterHandlers.layer, EventHandlers.layer]),
  Layer.provide(Work.layer),
)
