/** What a sink would be sent, made without sending. */
import { Result } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import { fields as clientFields } from "../enrichment/Clients.ts"
import type { Entry } from "../event/Entry.ts"
import * as Envelope from "../event/Envelope.ts"
import { masked, type Preview } from "../sinks/Sink.ts"
import type { AnySinkType } from "../sinks/Sinks.ts"

/** Where the client's details would stand: they are shown to nobody. */
const withMaskedClient = (body: Uint8Array): Uint8Array => {
  const envelope = Result.getOrUndefined(Envelope.decode(body))
  const client = Object.fromEntries(clientFields.map((field) => [field, masked]))
  return envelope === undefined ? body : new TextEncoder().encode(JSON.stringify({ ...envelope, client }))
}

/** Of one entry; `undefined` where the sink's type can't tell. */
export const render = (
  { config, digest, key, enrich }: LaneConfig,
  type: AnySinkType | undefined,
  entry: Entry,
): Preview | ReadonlyArray<Preview> | undefined => {
  const { event } = entry
  const shown = enrich === undefined ? entry : { ...entry, event: { ...event, body: withMaskedClient(event.body) } }
  const previews = type?.preview?.(config, [shown], digest && key)
  return previews?.length === 1 ? previews[0] : previews
}
