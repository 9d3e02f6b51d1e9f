/** The PagerDuty sink: an event of the Events API v2, which triggers an alert. */
import { Effect, Redacted, Schema } from "effect"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { secret, url } from "../../http/HttpConfig.ts"
import { masked } from "../../Sink.ts"
import * as Alerts from "../Alerts.ts"
import * as PagerDutyEvent from "./PagerDutyMessage.ts"

// --- config ------------------------------------------------------------------

const enqueue = "https://events.pagerduty.com/v2/enqueue"

export const PagerDutyConfig = Schema.Struct({
  routingKey: secret("The integration key of a service's Events API v2 integration"),
  severity: Schema.Literals(PagerDutyEvent.severities)
    .annotate({ description: "How bad it is", default: "error" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("error"))),
  url: url({
    description: "Where events are sent; the EU region has its own",
    examples: ["https://events.eu.pagerduty.com/v2/enqueue"],
    default: enqueue,
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(enqueue))),
  source: Schema.optionalKey(
    Schema.NonEmptyString.annotate({ description: "What the alert is about; by default the webhook's name" }),
  ),
  dedupKey: Schema.optionalKey(
    Schema.NonEmptyString.annotate({
      description: "Alerts of one key are one incident; may hold placeholders. By default the type with the object",
    }),
  ),
  ...Alerts.keys,
})
export type PagerDutyConfig = typeof PagerDutyConfig.Type

// --- classify ----------------------------------------------------------------

/** 202 is the only success, 400 is final, 429 and 5xx are for later (Events API v2, "API Response Codes & Retry Logic"). */
const meaning: Meaning = (status, text) => {
  if (status === 202) return { verdict: "delivered" }
  if (status < 300) {
    return { verdict: "misconfigured", because: 'PagerDuty answers 202, so this is another service; check "url"' }
  }
  if (status !== 400) return undefined
  return /routing.?key/i.test(text())
    ? {
        verdict: "misconfigured",
        because: 'PagerDuty does not know the key; check "routingKey", and the region of "url"',
      }
    : { verdict: "reject", because: "PagerDuty refuses the alert as invalid" }
}

export const PagerDuty = Alerts.sinkType<PagerDutyConfig>({
  type: "pagerduty",
  config: PagerDutyConfig,
  payload: (alert, { routingKey, ...config }) =>
    PagerDutyEvent.payload(alert, { ...config, routingKey: Redacted.value(routingKey) }),
  mask: (config) => ({ ...config, routingKey: Redacted.make(masked) }),
  meaning,
})
