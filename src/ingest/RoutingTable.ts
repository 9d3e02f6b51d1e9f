/**
 * What ingest needs of one version of the config: webhooks by path with their
 * secrets keyed, and the router. Immutable; a reload makes another one.
 */
import { Duration, Redacted } from "effect"
import type { RelayConfig, Webhook } from "../config/Config.ts"
import type { HmacFactory, SigningSecret } from "../event/Signature.ts"
import * as Router from "../routing/Router.ts"

/** A webhook, ready to verify deliveries. */
export interface Receiver {
  readonly webhook: Webhook
  readonly secrets: ReadonlyArray<SigningSecret>
  /** Milliseconds. */
  readonly commitTimeout: number
}

/** The webhooks of one path. */
export interface Endpoint {
  readonly receivers: ReadonlyArray<Receiver>
  /** The largest of its webhooks' `maxBody`: which of them it is for is known only after reading. */
  readonly maxBody: number
}

export interface RoutingTable {
  readonly endpoints: ReadonlyMap<string, Endpoint>
  readonly router: Router.Router
}

export const make = (config: Pick<RelayConfig, "webhooks" | "routes" | "sinks">, hmac: HmacFactory): RoutingTable => {
  const endpoints = new Map<string, Endpoint>()
  for (const webhook of config.webhooks) {
    const receiver: Receiver = {
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
  return {
    endpoints,
    router: Router.of(config),
  }
}

/** Whether the request's webhook id, which is not signed, is one of the webhook's. */
export const names = ({ webhook }: Receiver, headers: Headers): boolean => {
  const id = headers.get(webhook.headers.webhookId)
  return id !== null && webhook.ids.includes(id)
}

/**
 * The webhooks whose secrets may verify a request: the one that its webhook id
 * names; where none is named, all that don't insist on their id.
 */
export const candidates = ({ receivers }: Endpoint, headers: Headers): ReadonlyArray<Receiver> => {
  const [only, another] = receivers
  if (only !== undefined && another === undefined && !only.webhook.strictId) return receivers
  const named = receivers.find((receiver) => names(receiver, headers))
  return named === undefined ? receivers.filter(({ webhook }) => !webhook.strictId) : [named]
}
