/** Sends sample deliveries as the sender does, signed over the raw bytes and with the webhook's header names. */
import { Clock, Duration, Effect, FileSystem, Option, Result } from "effect"
import { FetchHttpClient, HttpBody, HttpClient, HttpClientRequest } from "effect/http"
import * as Monotonic from "../../event/Monotonic.ts"
import { sample } from "../../event/SampleEvent.ts"
import { type Hmac, sign } from "../../event/Signature.ts"
import type { Failure, Fetch } from "../../runtime/HttpTransport.ts"
import { io } from "./CommandError.ts"
import { lazily } from "./Program.ts"

export interface Delivery {
  readonly url: string
  readonly type: string
  readonly accountId: string | undefined
  readonly objectId: string | undefined
  readonly hmac: Hmac
  readonly headers: { readonly signature: string; readonly webhookId: string }
  /** The webhook id header, if the webhook has one. */
  readonly webhookId: string | undefined
  /** The `fetch` that sends it, which may trust other certificates. */
  readonly fetch: Fetch
  /** Changes the body after signing, so that the relay must refuse it. */
  readonly tamper: boolean
}

export interface Answer {
  readonly eventId: string
  readonly status: number
  /** The reason for a refusal; empty if the delivery was accepted. */
  readonly detail: string
  readonly millis: number
}

/** The time limit of an answer. A webhook's `commitTimeout` may be several seconds. */
export const patience = Duration.seconds(30)

const encoder = new TextEncoder()

/** Returns the reason in a refusal, which is problem+json. */
const detailOf = (text: string): string => {
  try {
    const { title, detail } = JSON.parse(text)
    return [title, detail].filter((part) => typeof part === "string").join(": ")
  } catch {
    return text.slice(0, 200)
  }
}

/** Sends a delivery. Fails if there is no answer. */
export const deliver = Effect.fnUntraced(
  function* (delivery: Delivery) {
    const { url, type, accountId, objectId, hmac, headers, webhookId, fetch, tamper } = delivery
    const started = yield* Monotonic.now
    const envelope = sample(type, yield* Clock.currentTimeMillis, { accountId, objectId })
    const signed = encoder.encode(JSON.stringify(envelope))
    const body = tamper ? encoder.encode(JSON.stringify({ ...envelope, version: `${envelope.version} ` })) : signed
    const request = HttpClientRequest.post(url, {
      headers: {
        "user-agent": "relay-trigger Webhooks",
        [headers.signature]: sign(hmac, signed),
        ...(webhookId === undefined ? {} : { [headers.webhookId]: webhookId }),
      },
      body: HttpBody.uint8Array(body, "application/json"),
    })
    const response = yield* Effect.provideService(
      HttpClient.execute(request),
      FetchHttpClient.Fetch,
      fetch as typeof globalThis.fetch,
    )
    const text = yield* response.text
    const answer: Answer = {
      eventId: envelope.id,
      status: response.status,
      detail: response.status < 300 ? "" : detailOf(text),
      millis: Math.round((yield* Monotonic.now) - started),
    }
    return answer
  },
  Effect.provide(FetchHttpClient.layer),
  Effect.timeout(patience),
)

// The certificates that `trigger` trusts, and its messages about others.

/** Makes a `fetch`. If a PEM file is given, it trusts the file's authorities instead of the system's. */
export const fetchTrusting = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (Option.isNone(file)) return globalThis.fetch
  const [{ parse }, { make }] = yield* Effect.all([
    lazily(() => import("../../config/Certificate.ts")),
    lazily(() => import("../../runtime/HttpTransport.ts")),
  ])
  const fs = yield* FileSystem.FileSystem
  const ca = yield* Effect.mapError(fs.readFileString(file.value), () => io(`${file.value} of --ca can't be read`))
  const parsed = parse(ca, "--ca", true)
  if (Result.isFailure(parsed)) {
    return yield* io(`${file.value} of --ca: ${parsed.failure.message}\n  ${parsed.failure.hint}`)
  }
  return yield* make({ ca })
})

/**
 * Says why a certificate was not trusted, and what to do. Returns `undefined` for any other failure. `subject` names
 * the certificate's host, if known.
 */
export const distrust = (failure: Failure, url: string, subject?: string): string | undefined => {
  const { origin, pathname, port } = new URL(url)
  switch (failure) {
    case "untrusted certificate":
      return `no authority that this machine trusts signed the certificate of ${origin}\n  --ca FILE trusts its authority, or the certificate itself where it is self-signed.`
    case "certificate of another host": {
      const named = `https://${subject ?? "NAME"}${port === "" ? "" : `:${port}`}${pathname}`
      return `the certificate of ${origin} is for another host${subject === undefined ? "" : `, ${subject}`}\n  Send to the name that it is for: --url ${named}`
    }
    case "expired certificate":
      return `the certificate of ${origin} has expired, or is not valid yet\n  Renew it, then \`relay reload\`; \`relay status\` shows which the relay uses.`
    case "unfit certificate":
      return `the certificate of ${origin} was not made for a server\n  Get one that is: with it no sender can deliver.`
    case "failed handshake":
      return `there is no TLS with ${origin}\n  Does it speak https? --url chooses another address.`
    default:
      return undefined
  }
}
