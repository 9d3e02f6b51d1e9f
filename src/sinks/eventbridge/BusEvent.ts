/**
 * An event as an entry of PutEvents.
 *
 * **Guarantee.** The detail is always a JSON object: the envelope as the sender
 * wrote it, or what the bytes are encoded in where they are none.
 */
import type { Entry } from "../../event/Entry.ts"
import { spanOf, traceHeaders } from "../../event/TraceContext.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Raw from "../../formats/Raw.ts"
import * as Template from "../../formats/Template.ts"
import type { Sized } from "../aws/AwsBatch.ts"
import type { EventBridgeConfig } from "./EventBridgeConfig.ts"

export interface BusEvent extends Sized {
  readonly source: string
  readonly detailType: string
  readonly resources: ReadonlyArray<string>
  /** RFC 3339. */
  readonly time: string
  /** X-Ray's trace header; absent where the event has no trace. */
  readonly traceHeader?: string
  readonly detail: string
}

const longestDetailType = 128
/** EventBridge counts this for the time, in bytes. */
const timeSize = 14

/** The header of X-Ray for a W3C trace: the first 8 digits of its id are the time there. */
const traceHeaderOf = (traceparent: string): string | undefined => {
  const span = spanOf(traceparent)
  if (span === undefined) return undefined
  const { traceId, spanId, sampled } = span
  return `Root=1-${traceId.slice(0, 8)}-${traceId.slice(8)};Parent=${spanId};Sampled=${sampled ? 1 : 0}`
}

type Shape = Pick<EventBridgeConfig, "source" | "detailType" | "resources" | "format">

export const encoder = (config: Shape): ((entry: Entry, index: number) => BusEvent) => {
  const { source, format } = config
  const type = Template.compile(config.detailType, "text")
  const templates = config.resources.map((resource) => Template.compile(resource, "text"))
  return (entry, index) => {
    const { event } = entry
    const typed = CloudEvents.clean(type.render(entry)) || CloudEvents.untyped
    const detailType = typed.slice(0, longestDetailType).toWellFormed()
    const resources = templates.map((one) => CloudEvents.clean(one.render(entry))).filter((one) => one !== "")
    const detail =
      format === "raw" ? Raw.object(event) : CloudEvents.structured(entry, Object.fromEntries(traceHeaders(event)))
    const traceHeader = event.trace && traceHeaderOf(event.trace.traceparent)
    const counted = [source, detailType, detail, ...resources]
    return {
      index,
      size: counted.reduce((bytes, text) => bytes + Buffer.byteLength(text), timeSize),
      source,
      detailType,
      resources,
      time: CloudEvents.time(entry),
      ...(traceHeader !== undefined && { traceHeader }),
      detail,
    }
  }
}
