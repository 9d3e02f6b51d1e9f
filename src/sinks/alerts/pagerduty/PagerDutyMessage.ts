/**
 * PagerDuty's Events API v2: an event that triggers or resolves an alert.
 *
 * Its documented limits: `dedup_key` 255 characters, `payload.summary` 1024, a
 * request 512 KB. The other texts have no stated limit; 255 is ours.
 */
import { hmacSha256 } from "../../../event/Signature.ts"
import type { Alert } from "../Alert.ts"
import { arrange, clean, type Fact, fit } from "../AlertText.ts"

export const severities = ["critical", "error", "warning", "info"] as const

export interface Options {
  readonly routingKey: string
  readonly severity: (typeof severities)[number]
  /** What the alert is about; by default the webhook. */
  readonly source?: string
}

/** At three bytes a code unit, both together stay far below 512 KB. */
const room = {
  facts: { facts: 100, name: 128, value: 8_192, total: 100_000 },
  samples: { facts: 50, name: 64, value: 1_024, total: 40_000 },
}

/** An HMAC under a key that everybody knows is a hash. */
const hash = hmacSha256("relay")

/** A key that is too long, or that a service might trim or clean, is hashed: two that differ stay two. */
export const dedupKey = (key: string): string =>
  key.length <= 255 && key !== "" && key === clean(key)
    ? key
    : `relay:${Buffer.from(hash(Buffer.from(key))).toString("hex")}`

const record = (facts: ReadonlyArray<Fact>) => Object.fromEntries(facts.map(({ name, value }) => [name, value]))

export const payload = (alert: Alert, { routingKey, severity, source }: Options): object => ({
  routing_key: routingKey,
  event_action: alert.action,
  dedup_key: dedupKey(alert.key),
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
