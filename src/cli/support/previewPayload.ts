/** Renders what a sink would be sent, for `explain --payload` and the golden files of `test`. */
import { Predicate, Redacted, Result } from "effect"
import { render } from "../../admin/PayloadPreviews.ts"
import type { LaneConfig } from "../../config/Config.ts"
import type { Path } from "../../config/Fields.ts"
import type { Loaded } from "../../config/load/Load.ts"
import type { Entry } from "../../event/Entry.ts"
import * as Envelope from "../../event/Envelope.ts"
import { sample } from "../../event/SampleEvent.ts"
import type { AnySinkType } from "../../sinks/Sink.ts"

/** A fixed time for samples, so that golden files don't change. */
const fixedTime = Date.UTC(2026, 0, 15, 12)

/** The body of an event that is always the same. */
export const fixedBody = (type: string, object?: Readonly<Record<string, unknown>>): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(sample(type, fixedTime, { isFixed: true, ...(object && { object }) })))

/** A journal entry with this body; it has no signature, because it came by no request. */
const entryOf = (webhook: string, sink: string, body: Uint8Array): Entry => {
  const envelope = Result.getOrUndefined(Envelope.decode(body))
  return {
    sequence: 1,
    sinks: [sink],
    replayed: false,
    event: {
      id: envelope?.id ?? "",
      type: envelope?.data.type ?? "",
      accountId: envelope?.account_id ?? "",
      webhook,
      webhookId: "",
      signature: "",
      secret: "",
      receivedAt: fixedTime,
      body,
    },
  }
}

const replaced = (value: unknown, [key, ...rest]: Path, text: string): unknown => {
  if (key === undefined) return typeof value === "string" ? text : value
  if (Array.isArray(value)) return value.map((item, index) => (index === key ? replaced(item, rest, text) : item))
  return Predicate.isObject(value) && !Redacted.isRedacted(value) && Object.hasOwn(value, key)
    ? { ...value, [key]: replaced(value[key], rest, text) }
    : value
}

/** Returns the sink with absent values as `${NAME} (not set)`. An expression must stay one, so it is left as it is. */
export const withAbsent = (lane: LaneConfig, absent: Loaded["absent"]): LaneConfig => {
  const config = absent.reduce<unknown>((config, { path: [first, sink, ...rest], shown }) => {
    const isShown = first === "sinks" && sink === lane.name && rest.at(-1) !== "jmespath"
    return isShown && shown !== undefined ? replaced(config, rest, shown) : config
  }, lane.config)
  return { ...lane, config }
}

/** The payload as JSON text; `undefined` where the sink's type has no preview. */
export const payloadOf = (
  lane: LaneConfig,
  type: AnySinkType | undefined,
  webhook: string,
  body: Uint8Array,
): string | undefined => {
  const payload = render(lane, type, entryOf(webhook, lane.name, body))
  return payload && JSON.stringify(payload, null, 2)
}
