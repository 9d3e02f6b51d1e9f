/** Renders the payloads that a sink would receive, without sending them. */
import { Result } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { fields as clientFields } from "../enrichment/Clients.ts"
import type { Entry } from "../event/Entry.ts"
import * as Envelope from "../event/Envelope.ts"
import * as Numbers from "../event/Numbers.ts"
import type { AnySinkType } from "../sinks/Sink.ts"
import { masked, type Preview } from "../sinks/Sink.ts"

/** Masks the client's details. */
const withMaskedClient = (body: Uint8Array): Uint8Array => {
  const envelope = Result.getOrUndefined(Envelope.decode(body, Numbers.parse))
  const client = Object.fromEntries(clientFields.map((field) => [field, masked]))
  return envelope === undefined ? body : new TextEncoder().encode(JSON.stringify({ ...envelope, client }))
}

/** Renders a payload. Returns `undefined` if the sink's type has no preview. */
export const render = (
  { config, enrich }: LaneConfig,
  type: AnySinkType | undefined,
  entry: Entry,
): Preview | ReadonlyArray<Preview> | undefined => {
  const { event } = entry
  const shown = enrich === undefined ? entry : { ...entry, event: { ...event, body: withMaskedClient(event.body) } }
  const previews = type?.preview(config, [shown])
  return previews?.length === 1 ? previews[0] : previews
}
