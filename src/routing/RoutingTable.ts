/**
 * One version of the config, compiled for ingest: webhooks by path with their
 * signing keys, and the router. Immutable; a reload makes another one.
 */
import { Duration, Redacted } from "effect"
import type { Bytes, EpochMillis, Millis } from "../event/Quantities.ts"
import type { HmacFactory, SigningSecret } from "../event/Signature.ts"
import * as Router from "./Router.ts"

/** The table reads these parts of a webhook's config. */
export interface Receiving {
  readonly name: string
  readonly path: string
  readonly ids: ReadonlyArray<string>
  readonly strictId: boolean
  readonly headers: { readonly webhookId: string }
  readonly secrets: ReadonlyArray<{
    readonly name: string
    readonly value: Redacted.Redacted<string>
    readonly expires?: EpochMillis
  }>
  readonly maxBody: Bytes
  readonly commitTimeout: Duration.Duration
}

/** A webhook, ready to verify deliveries. */
export interface Receiver<Webhook extends Receiving = Receiving> {
  readonly webhook: Webhook
  readonly secrets: ReadonlyArray<SigningSecret>
  readonly commitTimeout: Millis
}

/** The webhooks of one path. */
export interface Endpoint<Webhook extends Receiving = Receiving> {
  readonly receivers: ReadonlyArray<Receiver<Webhook>>
  /** The largest of its webhooks' `maxBody`: which of them it is for is known only after reading. */
  readonly maxBody: Bytes
}

export interface RoutingTable<Webhook extends Receiving = Receiving> {
  /** By path. */
  readonly endpoints: ReadonlyMap<string, Endpoint<Webhook>>
  readonly router: Router.Router
}

export const make = <Webhook extends Receiving>(
  config: Parameters<typeof Router.of>[0] & { readonly webhooks: ReadonlyArray<Webhook> },
  hmac: HmacFactory,
): RoutingTable<Webhook> => {
  const endpoints = new Map<string, Endpoint<Webhook>>()
  for (const webhook of config.webhooks) {
    const receiver: Receiver<Webhook> = {
      webhook,
      secrets: webhook.secrets.map(({ name, value, expires }) => ({
        name,
        ...(expires === undefined ? {} : { expiresAt: expires }),
        hmac: hmac(Redacted.value(value)),
      })),
      commitTimeout: Duration.toMillis(webhook.commitTimeout),
    }
    const others = endpoints.get(webhook.path)
    endpoints.set(webhook.path, {
      receivers: [...(others?.receivers ?? []), receiver],
      maxBody: Math.max(others?.maxBody ?? 0, webhook.maxBody),
    })
  }
  return { endpoints, router: Router.of(config) }
}

/** Whether the request's webhook id, which is not signed, is one of the webhook's. */
const names = ({ webhook }: Receiver, headers: Headers): boolean => {
  const id = headers.get(webhook.headers.webhookId)
  return id !== null && webhook.ids.includes(id)
}

/**
 * The webhooks whose secrets may verify a request: the one that its webhook id
 * names, or all that don't require their id where it names none.
 */
export const candidates = <Webhook extends Receiving>(
  { receivers }: Endpoint<Webhook>,
  headers: Headers,
): ReadonlyArray<Receiver<Webhook>> => {
  const [only, another] = receivers
  if (only !== undefined && another === undefined && !only.webhook.strictId) return receivers
  const named = receivers.find((receiver) => names(receiver, headers))
  return named === undefined ? receivers.filter(({ webhook }) => !webhook.strictId) : [named]
}
