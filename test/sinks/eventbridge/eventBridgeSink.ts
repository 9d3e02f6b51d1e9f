/** EventBridge sinks to the server of the tests, and the tests that need one. */
import { EventBridge } from "../../../src/sinks/eventbridge/EventBridge.ts"
import { reasonToSkip, sharedMoto } from "../../parts/Moto.ts"
import { openThere, suitesWith } from "../thereSink.ts"

/** Credentials that belong to nobody. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }

export const eventBusArn = "arn:aws:events:eu-west-1:123456789012:event-bus/events"

export const openEventBridge = (more: () => Record<string, unknown>) =>
  openThere("eventbridge", EventBridge, () => ({ eventBusArn, credentials, ...more() }))

/** Tests against moto. */
export const withMoto = suitesWith(reasonToSkip, sharedMoto)

const isEncoded = (detail: object): detail is { readonly relay_base64: string } =>
  Object.keys(detail).join() === "relay_base64,event_id"

/** The bytes of a detail: the signed bytes if it holds them encoded, or else its JSON without blanks. */
export const bytesOf = (detail: object): Uint8Array =>
  isEncoded(detail) ? Buffer.from(detail.relay_base64, "base64") : Buffer.from(JSON.stringify(detail))
