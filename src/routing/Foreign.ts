/**
 * Webhooks of other senders than the scheduling service: how a sender signs its
 * deliveries, and which headers or fields have the event's id, type, account and time.
 *
 * `schemes` has a row for each sender that a config can name. A row has the form that
 * a config can also write out. Everything after ingest sees the same envelope for all
 * senders: `Envelope.ofEvent` makes it.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import { Result } from "effect"
import * as Envelope from "../event/Envelope.ts"
import type { Event, Foreign } from "../event/Event.ts"
import { sha256 } from "../event/IdempotencyKey.ts"
import * as Numbers from "../event/Numbers.ts"
import { get, parsePointer } from "../event/Pointer.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import type { Verification } from "../event/Signature.ts"

/** How a sender signs: an HMAC over a text with the raw body in it. */
export interface Scheme {
  /** The header of the signature, in lowercase. */
  readonly header: string
  readonly algorithm: "sha256" | "sha1" | "sha512"
  readonly encoding: "hex" | "base64"
  /** The text before each signature, such as `sha256=`. */
  readonly prefix?: string
  /** The text between the parts of the header, if it has several. One signature must match. */
  readonly separator?: string
  /** A template of `{{timestamp}}`, `{{id}}` and `{{body}}`. */
  readonly signed: string
  /** The header of the timestamp in Unix seconds. A text with `=` at its end is the beginning of a part of the signature's header. */
  readonly timestamp?: string
  /** The header that stands for `{{id}}`. */
  readonly id?: string
  /** How far the timestamp may be from now, in both directions. */
  readonly tolerance: Millis
  /** Whether a secret is text, or base64 with an optional `whsec_` before it. */
  readonly secret: "text" | "base64"
}

/**
 * Where deliveries have an event's facts: a header's name, or a JSON Pointer into the
 * body. The parts of the type are joined by dots, without those that are missing.
 */
export interface Places {
  readonly id?: string
  readonly type: ReadonlyArray<string>
  readonly account?: string
  readonly time?: string
}

/** Another sender: how it signs, and where its deliveries have an event's facts. */
export interface Sender {
  readonly scheme: Scheme
  readonly places: Places
  /** The types that it sends; empty if they are not known. */
  readonly types: ReadonlyArray<string>
}

const minutes = 60_000
const hex = {
  algorithm: "sha256",
  encoding: "hex",
  signed: "{{body}}",
  tolerance: 5 * minutes,
  secret: "text",
} as const
const standard = { ...hex, encoding: "base64", prefix: "v1,", separator: " ", secret: "base64" } as const
const timed = "{{id}}.{{timestamp}}.{{body}}"

/** The senders that a config can name. */
export const schemes = {
  github: {
    verify: { ...hex, header: "x-hub-signature-256", prefix: "sha256=" },
    event: { id: "x-github-delivery", type: ["x-github-event", "/action"], account: "/repository/full_name" },
  },
  shopify: {
    verify: { ...hex, header: "x-shopify-hmac-sha256", encoding: "base64" },
    event: {
      id: "x-shopify-event-id",
      type: ["x-shopify-topic"],
      account: "x-shopify-shop-domain",
      time: "x-shopify-triggered-at",
    },
  },
  "standard-webhooks": {
    verify: {
      ...standard,
      header: "webhook-signature",
      id: "webhook-id",
      timestamp: "webhook-timestamp",
      signed: timed,
    },
    event: { id: "webhook-id", type: ["/type"], time: "webhook-timestamp" },
  },
  stripe: {
    verify: {
      ...hex,
      header: "stripe-signature",
      prefix: "v1=",
      separator: ",",
      timestamp: "t=",
      signed: "{{timestamp}}.{{body}}",
    },
    event: { id: "/id", type: ["/type"], account: "/account", time: "/created" },
  },
  svix: {
    verify: { ...standard, header: "svix-signature", id: "svix-id", timestamp: "svix-timestamp", signed: timed },
    event: { id: "svix-id", type: ["/type"], time: "svix-timestamp" },
  },
} as const satisfies Record<string, { readonly verify: Scheme; readonly event: Places }>

export type SchemeName = keyof typeof schemes
export const isScheme = (name: string): name is SchemeName => Object.hasOwn(schemes, name)
export const schemeNames = Object.keys(schemes) as ReadonlyArray<SchemeName>

/** Returns the sender with the names of its headers in lowercase, as headers are stored. */
export const withLowercase = ({ scheme, places, types }: Sender): Sender => {
  const lower = (name: string) => (name.startsWith("/") || isPart(name) ? name : name.toLowerCase())
  const { header, timestamp, id } = scheme
  const { type, ...others } = places
  const named = Object.entries(others).map(([key, place]) => [key, lower(place)] as const)
  return {
    scheme: {
      ...scheme,
      header: lower(header),
      ...(timestamp !== undefined && { timestamp: lower(timestamp) }),
      ...(id !== undefined && { id: lower(id) }),
    },
    places: { ...Object.fromEntries(named), type: type.map(lower) },
    types,
  }
}

/** Returns the key of a secret. */
const keyOf = ({ secret }: Scheme, value: string): Buffer =>
  secret === "text" ? Buffer.from(value, "utf8") : Buffer.from(value.replace(/^whsec_/, ""), "base64")

/** Reports whether a secret's text can be the key of a scheme with base64. */
export const isBase64Secret = (value: string): boolean => /^(whsec_)?[A-Za-z0-9+/]{4,}={0,2}$/.test(value)

/** The parts of a template: the texts between the placeholders, and the placeholders' names. */
const placeholder = /\{\{(timestamp|id|body)\}\}/

/** A timestamp in Unix seconds. */
const seconds = /^[0-9]{1,12}$/

/** The headers and facts of a signature. */
interface Signing {
  readonly id: string
  readonly timestamp: string
  readonly body: Uint8Array
}

const digest = (scheme: Scheme, key: Buffer, { id, timestamp, body }: Signing): Buffer => {
  const hmac = createHmac(scheme.algorithm, key)
  for (const [index, part] of scheme.signed.split(placeholder).entries()) {
    // A split at a pattern with a group has each placeholder at an odd index.
    if (index % 2 === 0) hmac.update(part)
    else hmac.update(part === "body" ? body : part === "id" ? id : timestamp)
  }
  return hmac.digest()
}

const isPart = (timestamp: string): boolean => timestamp.endsWith("=")

/** Signs a body as the sender does, and returns the headers. */
export const signedHeaders = (scheme: Scheme, secret: string, signing: Signing): Readonly<Record<string, string>> => {
  const { header, prefix = "", separator = "", timestamp, id } = scheme
  const signature = `${prefix}${digest(scheme, keyOf(scheme, secret), signing).toString(scheme.encoding)}`
  const time = timestamp === undefined ? "" : `${timestamp}${signing.timestamp}${separator}`
  return {
    [header]: timestamp !== undefined && isPart(timestamp) ? `${time}${signature}` : signature,
    ...(timestamp !== undefined && !isPart(timestamp) && { [timestamp]: signing.timestamp }),
    ...(id !== undefined && { [id]: signing.id }),
  }
}

/** One secret of such a webhook. */
interface Secret {
  readonly name: string
  readonly value: string
  /** The secret no longer verifies from this time on. */
  readonly expiresAt?: EpochMillis
}

/** Verifies a delivery's headers and raw body. */
export type Verify = (headers: Pick<Headers, "get">, body: Uint8Array, now: EpochMillis) => Verification

/** Maximum signatures that are compared, because their number is the client's choice. */
const mostSignatures = 10

/** Makes the verifier of a webhook. Each comparison takes constant time. */
export const verifier = (scheme: Scheme, secrets: ReadonlyArray<Secret>): Verify => {
  const { header, prefix = "", separator, encoding, timestamp, tolerance } = scheme
  const keys = secrets.map(({ value, ...secret }) => ({ ...secret, key: keyOf(scheme, value) }))
  const { length } = createHmac(scheme.algorithm, "").digest()
  const written = encoding === "hex" ? new RegExp(`^[0-9A-Fa-f]{${2 * length}}$`) : /^[A-Za-z0-9+/]+={0,2}$/

  /** Returns the bytes of the signatures in the header that have the right form. */
  const claims = (parts: ReadonlyArray<string>): ReadonlyArray<Buffer> =>
    parts
      .filter((part) => part.startsWith(prefix) && written.test(part.slice(prefix.length)))
      .slice(0, mostSignatures)
      .map((part) => Buffer.from(part.slice(prefix.length), encoding))
      .filter((claim) => claim.length === length)

  return (headers, body, now) => {
    const value = headers.get(header) ?? ""
    if (value === "") return { ok: false, reason: "missing" }
    const parts = separator === undefined ? [value] : value.split(separator).map((part) => part.trim())
    const claimed = claims(parts)
    if (claimed.length === 0) return { ok: false, reason: "malformed" }
    let time = ""
    if (timestamp !== undefined) {
      time = isPart(timestamp)
        ? (parts.find((part) => part.startsWith(timestamp))?.slice(timestamp.length) ?? "")
        : (headers.get(timestamp) ?? "")
      if (!seconds.test(time)) return { ok: false, reason: "malformed" }
    }
    const id = scheme.id === undefined ? "" : (headers.get(scheme.id) ?? "")
    let expired = false
    for (const { name, key, expiresAt } of keys) {
      const expected = digest(scheme, key, { id, timestamp: time, body })
      if (!claimed.some((claim) => timingSafeEqual(claim, expected))) continue
      if (expiresAt !== undefined && now >= expiresAt) expired = true
      else if (timestamp !== undefined && Math.abs(now - Number(time) * 1_000) > tolerance) {
        return { ok: false, reason: "untimely" }
      } else return { ok: true, secret: name }
    }
    return { ok: false, reason: expired ? "expired" : "mismatch" }
  }
}

/** Returns the part of an event that only another sender's have. Its time is not read yet. */
export const received = ({ scheme, places }: Sender, headers: Pick<Headers, "get">): Foreign => {
  const { id, type, account, time } = places
  const kept: Record<string, string> = {}
  for (const name of [scheme.header, scheme.timestamp, scheme.id, id, ...type, account, time]) {
    const value = name === undefined || name.startsWith("/") || isPart(name) ? null : headers.get(name)
    if (name !== undefined && value !== null) kept[name] = value
  }
  return { createdAt: "", headers: kept }
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : (Numbers.textOf(value) ?? ""))

/** A number up to this is seconds, and a larger one is milliseconds. */
const mostSeconds = 1e11

/** Returns a time as ISO 8601. If the text is not a time, returns `otherwise`. */
const timeOf = (text: string, otherwise: EpochMillis): string => {
  const number = /^[0-9]+(\.[0-9]+)?$/.test(text) ? Number(text) : Number.NaN
  const at = Number.isNaN(number) ? Date.parse(text) : number < mostSeconds ? number * 1_000 : number
  const date = new Date(at)
  return (Number.isNaN(date.getTime()) ? new Date(otherwise) : date).toISOString()
}

/** An event whose facts are not read yet. */
type Unread = Omit<Event, "id" | "type" | "accountId"> & { readonly foreign: Foreign }

/**
 * Returns the event with its facts. If it has no id, the id is a hash of the webhook's
 * path, the timestamp and the body.
 */
export const read = <E extends Unread>({ scheme, places }: Sender, path: string, event: E) => {
  const { body, receivedAt, foreign } = event
  const { headers } = foreign
  const object = Result.getOrUndefined(Envelope.decodeObject(body, Numbers.parse))
  const at = (place: string | undefined): string => {
    if (place === undefined) return ""
    return place.startsWith("/") ? textOf(get(parsePointer(place) ?? [], object)) : (headers[place] ?? "")
  }
  const hash = (): string => {
    const timestamp =
      scheme.timestamp === undefined ? "" : at(isPart(scheme.timestamp) ? scheme.header : scheme.timestamp)
    return sha256(Buffer.concat([Buffer.from(`${path}\n${timestamp}\n`), body]))
  }
  const type = places.type.map(at).filter((part) => part !== "")
  return {
    ...event,
    id: at(places.id) || `sha256:${hash()}`,
    // Patterns have dots between segments.
    type: type.join(".").replaceAll("/", "."),
    accountId: at(places.account),
    foreign: { createdAt: timeOf(at(places.time), receivedAt), headers },
  }
}

/** Returns the headers and the body of a sample delivery, signed at `now`. */
export const sampleDelivery = (
  { scheme, places }: Sender,
  secret: string,
  sample: {
    readonly id: string
    readonly type: string
    readonly account?: string | undefined
    readonly now: EpochMillis
  },
) => {
  const timestamp = String(Math.floor(sample.now / 1_000))
  const headers: Record<string, string> = {}
  const content: Record<string, unknown> = { sample: true }
  const put = (place: string | undefined, value: string | number | undefined): void => {
    if (place === undefined || value === undefined) return
    if (!place.startsWith("/")) headers[place] = String(value)
    else set(parsePointer(place) ?? [], content, value)
  }
  const segments = sample.type.split(".")
  const last = places.type.length - 1
  for (const [index, place] of places.type.entries()) {
    const part = index === last ? segments.slice(index).join(".") : segments[index]
    if (part !== "") put(place, part)
  }
  put(places.account, sample.account)
  put(places.time, Number(timestamp))
  put(places.id, sample.id)
  const body = new TextEncoder().encode(JSON.stringify(content))
  return { body, headers: { ...headers, ...signedHeaders(scheme, secret, { id: sample.id, timestamp, body }) } }
}

/** Sets a value in a JSON object, whose objects on the way are made. */
const set = ([key = "", ...rest]: ReadonlyArray<string>, object: Record<string, unknown>, value: unknown): void => {
  if (rest.length === 0) {
    object[key] = value
    return
  }
  const inner = (object[key] ?? {}) as Record<string, unknown>
  object[key] = inner
  set(rest, inner, value)
}
