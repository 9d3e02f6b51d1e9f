/** Ingest over a journal in memory, and requests to send it. */
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { ActiveConfig } from "../../src/ActiveConfig.ts"
import type { Webhook } from "../../src/config/Config.ts"
import type { Entry } from "../../src/event/Event.ts"
import { hmacSha256, sign } from "../../src/event/Signature.ts"
import { Ingest } from "../../src/ingest/Ingest.ts"
import { Journal } from "../../src/journal/Journal.ts"
import type { Route } from "../../src/routing/Router.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { activeConfig, relayConfig } from "../lib/activeConfig.ts"
import { envelope as bodyOf } from "../lib/kit.ts"

export const secretValue = "whsec_fixture"

export const webhook = (changes: Partial<Webhook> = {}): Webhook => ({
  name: "scheduling",
  ids: [],
  path: "/hooks/scheduling",
  secrets: [{ name: "main", value: Redacted.make(secretValue) }],
  headers: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
  unknownTypes: "route",
  undecodable: "quarantine",
  respond: 202,
  maxBody: 100_000,
  commitTimeout: Duration.seconds(3),
  strictId: false,
  gzip: false,
  mask: [],
  ...changes,
})

export const routes: ReadonlyArray<Route> = [
  { name: "everything but blocks", match: ["**"], except: ["block.*"], where: {}, to: ["lake"] },
  { name: "own", match: ["relay.*"], except: [], where: {}, to: ["chat"] },
]

export interface Setup {
  readonly webhooks?: ReadonlyArray<Webhook>
  /** Stands in for the journal's `appendUnsafe`. */
  readonly append?: Journal["Service"]["appendUnsafe"]
  readonly addressHeader?: string
  /** The journal's size in its status. A test may change it. */
  readonly size?: { readonly usedBytes: number; readonly maxBytes: number }
}

export const start = Effect.fnUntraced(function* ({ webhooks = [webhook()], append, size, ...more }: Setup = {}) {
  const journal = MemoryJournal.layerWith((memory) => ({
    appendUnsafe: append ?? memory.appendUnsafe,
    status: Effect.map(memory.status, (status) => ({ ...status, ...size })),
  }))
  const config = activeConfig({ webhooks, routes, ...more })
  const context = yield* Layer.build(Ingest.layer.pipe(Layer.provideMerge(Layer.merge(journal, config))))
  const ingest = Context.get(context, Ingest)
  const { read } = Context.get(context, Journal)
  const entries: Effect.Effect<ReadonlyArray<Entry>> = Effect.orDie(read(0, 1000))
  return {
    ingest,
    entries,
    counters: ingest.counters,
    send: (request: Request) => Effect.promise(async () => ingest.handle(request)),
    reload: (newer: ReadonlyArray<Webhook>) =>
      Context.get(context, ActiveConfig).replace(relayConfig({ webhooks: newer, routes })),
  }
})

const utf8 = new TextEncoder()
let ids = 0

/** An envelope's text with an id of its own. */
export const envelope = (
  type = "appointment.created",
  object: unknown = { id: "apt_1" },
  more: object = {},
): string => {
  ids += 1
  return bodyOf(`evt_${ids}`, { type, object }, more)
}

export const signature = (body: string | Uint8Array, secret = secretValue): string =>
  sign(hmacSha256(secret), typeof body === "string" ? utf8.encode(body) : body)

export interface Delivery {
  readonly path?: string
  readonly method?: string
  readonly secret?: string
  /** `null` leaves a header out. */
  readonly headers?: Readonly<Record<string, string | null>>
}

/** Makes a delivery as the sender does, with the differences in `options`. */
export const delivery = (body: string | Uint8Array<ArrayBuffer>, options: Delivery = {}): Request => {
  const bytes = typeof body === "string" ? utf8.encode(body) : body
  const headers = new Headers({
    host: "relay.example",
    "content-type": "application/json",
    "content-length": String(bytes.byteLength),
    "x-service-signature": signature(bytes, options.secret),
    "x-service-webhook-id": "wh_1",
  })
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (value === null) headers.delete(name)
    else headers.set(name, value)
  }
  const method = options.method ?? "POST"
  return new Request(`http://relay.example${options.path ?? "/hooks/scheduling"}`, {
    method,
    headers,
    ...(method === "GET" || method === "HEAD" ? {} : { body: bytes }),
  })
}
