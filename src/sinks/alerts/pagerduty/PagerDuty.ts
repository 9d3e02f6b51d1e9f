/**
 * PagerDuty's Events API v2: an event that triggers or resolves an alert.
 *
 * Its documented limits: `dedup_key` 255 characters, `payload.summary` 1024, a
 * request 512 KB. The other texts have no stated limit; 255 is ours.
 */
import { Effect, Redacted, Schema } from "effect"
import type { Doubt } from "../../../config/schema/ConfiguredTypes.ts"
import { oneOf, secret, template, text } from "../../../config/schema/Keys.ts"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpUrl.ts"
import { type Alert, arrange, type Fact, fit, shortKey } from "../Alert.ts"
import { keys, otherNames, sinkType } from "../AlertService.ts"

const enqueue = "https://events.pagerduty.com/v2/enqueue"

export const PagerDutyConfig = Schema.Struct({
  routingKey: secret("The integration key of a service's Events API v2 integration"),
  severity: oneOf("How bad it is", ["critical", "error", "warning", "info"], "error"),
  url: url({
    description: "Address that receives the events; the EU region has its own",
    examples: ["https://events.eu.pagerduty.com/v2/enqueue"],
    default: enqueue,
    hosts: ["events.pagerduty.com", "events.eu.pagerduty.com"],
    paths: ["/v2/enqueue", "/integration/"],
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(enqueue))),
  source: Schema.optionalKey(text("Subject of the alert; by default the webhook's name")),
  dedupKey: Schema.optionalKey(
    template("Alerts of one key are one incident; may hold placeholders. By default the type with the object"),
  ),
  ...keys,
}).annotate({
  otherNames: [
    [
      "integration_key service_key api_key token routing_key_file service_key_file",
      "routingKey",
      'here it is called "routingKey": the integration key of an "Events API v2" integration; "file:PATH" reads a file',
    ],
    ["dedup incident_key", "dedupKey"],
    ...otherNames,
  ],
})
export type PagerDutyConfig = typeof PagerDutyConfig.Type

/** The part of the config that an event contains. */
export type Options = Pick<PagerDutyConfig, "routingKey" | "severity" | "source">

/** At three bytes a code unit, both together stay far below 512 KB. */
const room = {
  facts: { facts: 100, name: 128, value: 8_192, total: 100_000 },
  samples: { facts: 50, name: 64, value: 1_024, total: 40_000 },
}

const record = (facts: ReadonlyArray<Fact>) => Object.fromEntries(facts.map(({ name, value }) => [name, value]))

export const payload = (alert: Alert, { routingKey, severity, source }: Options): object => ({
  routing_key: Redacted.value(routingKey),
  event_action: alert.action,
  dedup_key: shortKey(alert.key),
  // A resolve needs its key and nothing else.
  ...(alert.action === "trigger" && {
    client: "relay",
    payload: {
      summary: fit(alert.summary, 1_024),
      source: fit(source ?? alert.webhook, 255) || "relay",
      severity,
      timestamp: alert.time,
      ...(alert.account !== "" && { group: fit(alert.account, 255) }),
      ...(alert.type !== "" && { class: fit(alert.type, 255) }),
      custom_details: {
        ...record(arrange(alert.facts, room.facts)),
        ...(alert.samples.length > 0 && { Samples: arrange(alert.samples, room.samples) }),
      },
    },
  }),
})

/**
 * 202 is success, 400 is final, 429 and 5xx are for later (Events API v2, "API Response Codes & Retry Logic"). By its
 * support, PagerDuty may answer 200 and 201 instead.
 */
const meaning: Meaning = (status, text) => {
  if (status === 202 || (status < 300 && /"status"\s*:\s*"success"/.test(text()))) return { verdict: "delivered" }
  if (status < 300) {
    return { verdict: "misconfigured", because: 'PagerDuty answers 202, so this is another service; check "url"' }
  }
  if (status === 401 || status === 403) {
    return { verdict: "misconfigured", because: 'PagerDuty does not let the relay in; check "routingKey" and "url"' }
  }
  if (status !== 400) return undefined
  return /routing.?key/i.test(text())
    ? {
        verdict: "misconfigured",
        because: 'PagerDuty does not know the key; check "routingKey", and the region of "url"',
      }
    : { verdict: "reject", because: "PagerDuty refuses the alert as invalid" }
}

/** The form of a key of PagerDuty's REST API, which can't send events. */
const restKey = /^(?=.*[+_-])[\w+-]{20}$/

const doubts = ({ routingKey }: PagerDutyConfig): ReadonlyArray<Doubt> =>
  restKey.test(Redacted.value(routingKey))
    ? [
        {
          path: ["routingKey"],
          message: "this looks like a key of PagerDuty's REST API, which sends no events",
          hint: 'use the integration key of an "Events API v2" integration, which has 32 characters',
        },
      ]
    : []

export const PagerDuty = sinkType<PagerDutyConfig>({
  config: PagerDutyConfig,
  payload,
  meaning,
  doubts,
  incidents: true,
})
