/**
 * Webhooks of other senders than the scheduling service: how a sender signs its
 * deliveries, and which headers or fields have the event's id, type, account and time.
 *
 * `schemes` has a row for each sender that a config can name. A row has the form that
 * a config can also write out. Everything after ingest sees the same envelope for all
 * senders: `Envelope.ofEvent` makes it.
 */
import { createHash, createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify } from "node:crypto"
import { Result } from "effect"
import * as Envelope from "../event/Envelope.ts"
import type { Event, Foreign } from "../event/Event.ts"
import { sha256 } from "../event/IdempotencyKey.ts"
import * as Numbers from "../event/Numbers.ts"
import { get, parsePointer } from "../event/Pointer.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import type { Verification } from "../event/Signature.ts"
import * as Jmespath from "../formats/jmespath/Jmespath.ts"

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
  /** The text before each Ed25519 signature of the same text. A secret that begins with `whpk_` is then a public key. */
  readonly ed25519?: string
  /** The type of a delivery whose `challenge` the sender wants back. Such a delivery is not an event. */
  readonly challenge?: string
}

/** A sender that signs nothing: it has a secret in `Authorization`, or none at all. */
export interface Unsigned {
  readonly credential: "bearer" | "basic" | "none"
}

export const isUnsigned = (scheme: Scheme | Unsigned): scheme is Unsigned => "credential" in scheme

/** The name of a header, a JSON Pointer into the body, or an expression over the body. */
export type Place = string | Jmespath.Shape

export const placeText = (place: Place): string => (typeof place === "string" ? place : place.jmespath)

/**
 * Where deliveries have an event's facts. The parts of the type are joined by dots,
 * without those that are missing.
 */
export interface Places {
  readonly id?: Place
  readonly type: ReadonlyArray<Place>
  readonly account?: Place
  readonly time?: Place
}

/** Another sender: how it signs, and where its deliveries have an event's facts. */
export interface Sender<S extends Scheme | Unsigned = Scheme | Unsigned> {
  readonly scheme: S
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

/** Standard Webhooks, with the text before its headers' names. */
const standard = (name: "webhook" | "svix") =>
  ({
    verify: {
      ...hex,
      encoding: "base64",
      prefix: "v1,",
      separator: " ",
      secret: "base64",
      ed25519: "v1a,",
      header: `${name}-signature`,
      id: `${name}-id`,
      timestamp: `${name}-timestamp`,
      signed: "{{id}}.{{timestamp}}.{{body}}",
    },
    event: { id: `${name}-id`, type: ["/type"], time: `${name}-timestamp` },
  }) as const

/** The senders that sign, and that a config can name. */
export const schemes = {
  github: {
    verify: { ...hex, header: "x-hub-signature-256", prefix: "sha256=" },
    event: { id: "x-github-delivery", type: ["x-github-event", "/action"], account: "/repository/full_name" },
  },
  meta: {
    verify: { ...hex, header: "x-hub-signature-256", prefix: "sha256=" },
    event: { type: ["/object", "/entry/0/changes/0/field"], account: "/entry/0/id", time: "/entry/0/time" },
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
  slack: {
    verify: {
      ...hex,
      header: "x-slack-signature",
      prefix: "v0=",
      timestamp: "x-slack-request-timestamp",
      signed: "v0:{{timestamp}}:{{body}}",
      challenge: "url_verification",
    },
    event: { id: "/event_id", type: ["/type", "/event/type"], account: "/team_id", time: "/event_time" },
  },
  "standard-webhooks": standard("webhook"),
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
  svix: standard("svix"),
} as const satisfies Record<string, { readonly verify: Scheme; readonly event: Places }>

const unsigned = (credential: Unsigned["credential"]) =>
  ({ verify: { credential }, event: { type: [] } }) satisfies { readonly verify: Unsigned; readonly event: Places }

/** All senders that a config can name. */
export const senders = {
  ...schemes,
  bearer: unsigned("bearer"),
  basic: unsigned("basic"),
  none: unsigned("none"),
} as const satisfies Record<string, { readonly verify: Scheme | Unsigned; readonly event: Places }>

export type SenderName = keyof typeof senders
export const isSender = (name: string): name is SenderName => Object.hasOwn(senders, name)
export const senderNames = Object.keys(senders) as ReadonlyArray<SenderName>

/** Returns the key of a secret. */
const keyOf = ({ secret }: Scheme, value: string): Buffer =>
  secret === "text" ? Buffer.from(value, "utf8") : Buffer.from(value.replace(/^whsec_/, ""), "base64")

/** Reports whether a secret's text can be the key of a scheme with base64. */
export const isBase64Secret = (value: string): boolean => /^(whsec_)?[A-Za-z0-9+/]{4,}={0,2}$/.test(value)

/** Reports whether a secret is a public key, so that only its sender can sign with the private one. */
export const isPublicKey = (value: string): boolean => value.startsWith("whpk_")

/** The bytes before a raw Ed25519 key in SubjectPublicKeyInfo (RFC 8410). */
const spki = Buffer.from("302a300506032b6570032100", "hex")

/** Returns the key of a secret that begins with `whpk_`, or `undefined` if it isn't an Ed25519 key. */
export const publicKeyOf = (value: string): KeyObject | undefined => {
  const raw = Buffer.from(value.replace(/^whpk_/, ""), "base64")
  if (raw.length !== 32) return undefined
  return createPublicKey({ key: Buffer.concat([spki, raw]), format: "der", type: "spki" })
}

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

/** Returns the text that a sender signs. */
const signedText = ({ signed }: Scheme, signing: Signing): Uint8Array => {
  if (signed === "{{body}}") return signing.body
  // A split at a pattern with a group has each placeholder at an odd index.
  const parts = signed
    .split(placeholder)
    .map((part, index) => (index % 2 === 0 ? part : signing[part as keyof Signing]))
  return Buffer.concat(parts.map((part) => Buffer.from(part as string)))
}

const isPart = (timestamp: string): boolean => timestamp.endsWith("=")

const isHeader = (place: Place): place is string => typeof place === "string" && !place.startsWith("/")

/** Signs a body as the sender does, and returns the headers. */
export const signedHeaders = (scheme: Scheme, secret: string, signing: Signing): Readonly<Record<string, string>> => {
  const { header, prefix = "", separator = "", timestamp, id } = scheme
  const hmac = createHmac(scheme.algorithm, keyOf(scheme, secret)).update(signedText(scheme, signing))
  const signature = `${prefix}${hmac.digest(scheme.encoding)}`
  const withId = id === undefined ? {} : { [id]: signing.id }
  if (timestamp === undefined) return { [header]: signature, ...withId }
  if (!isPart(timestamp)) return { [header]: signature, [timestamp]: signing.timestamp, ...withId }
  return { [header]: `${timestamp}${signing.timestamp}${separator}${signature}`, ...withId }
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

/** Maximum signatures that are compared, because their number is the client's choice. An Ed25519 signature costs more. */
const mostSignatures = 10
const mostEd25519 = 3

/** Returns the bytes of the signatures after `prefix` that have the right form and length. */
const claimsIn = (
  parts: ReadonlyArray<string>,
  prefix: string,
  encoding: Scheme["encoding"],
  length: number,
  most: number,
): ReadonlyArray<Buffer> => {
  const written = encoding === "hex" ? /^(?:[0-9A-Fa-f]{2})+$/ : /^[A-Za-z0-9+/]+={0,2}$/
  return parts
    .filter((part) => part.startsWith(prefix) && written.test(part.slice(prefix.length)))
    .slice(0, most)
    .map((part) => Buffer.from(part.slice(prefix.length), encoding))
    .filter((claim) => claim.length === length)
}

/** The signatures of a delivery, and the text that they sign. */
interface Claims {
  readonly hmacs: ReadonlyArray<Buffer>
  readonly ed25519: ReadonlyArray<Buffer>
  readonly text: Uint8Array
}

/** Makes the function that compares signatures with a secret. An HMAC is compared in constant time. */
const matcher = (scheme: Scheme, value: string): ((claims: Claims) => boolean) => {
  if (scheme.ed25519 !== undefined && isPublicKey(value)) {
    const key = publicKeyOf(value)
    return ({ ed25519, text }) => key !== undefined && ed25519.some((claim) => verify(null, text, key, claim))
  }
  const key = keyOf(scheme, value)
  return ({ hmacs, text }) => {
    if (hmacs.length === 0) return false
    const expected = createHmac(scheme.algorithm, key).update(text).digest()
    return hmacs.some((claim) => timingSafeEqual(claim, expected))
  }
}

/** Makes the verifier of a webhook whose sender signs. */
export const verifier = (scheme: Scheme, secrets: ReadonlyArray<Secret>): Verify => {
  const { header, prefix = "", separator, encoding, timestamp, tolerance } = scheme
  const keys = secrets.map(({ value, ...secret }) => ({ ...secret, matches: matcher(scheme, value) }))
  const { length } = createHmac(scheme.algorithm, "").digest()

  return (headers, body, now) => {
    const value = headers.get(header) ?? ""
    if (value === "") return { ok: false, reason: "missing" }
    const parts = separator === undefined ? [value] : value.split(separator).map((part) => part.trim())
    const hmacs = claimsIn(parts, prefix, encoding, length, mostSignatures)
    const ed25519 = scheme.ed25519 === undefined ? [] : claimsIn(parts, scheme.ed25519, "base64", 64, mostEd25519)
    const at = (name: string | undefined): string => {
      if (name === undefined) return ""
      if (isPart(name)) return parts.find((part) => part.startsWith(name))?.slice(name.length) ?? ""
      return headers.get(name) ?? ""
    }
    const signing = { id: at(scheme.id), timestamp: at(timestamp), body }
    if (hmacs.length + ed25519.length === 0 || (timestamp !== undefined && !seconds.test(signing.timestamp))) {
      return { ok: false, reason: "malformed" }
    }
    const text = signedText(scheme, signing)
    const matching = keys.filter(({ matches }) => matches({ hmacs, ed25519, text }))
    const isUntimely = timestamp !== undefined && Math.abs(now - Number(signing.timestamp) * 1_000) > tolerance
    return decided(matching, now, isUntimely)
  }
}

/** Decides on the secrets that match a delivery. */
const decided = (
  matching: ReadonlyArray<Omit<Secret, "value">>,
  now: EpochMillis,
  isUntimely = false,
): Verification => {
  if (matching.length === 0) return { ok: false, reason: "mismatch" }
  const valid = matching.find(({ expiresAt }) => expiresAt === undefined || now < expiresAt)
  if (valid === undefined) return { ok: false, reason: "expired" }
  return isUntimely ? { ok: false, reason: "untimely" } : { ok: true, secret: valid.name }
}

const sha256Bytes = (text: string | Uint8Array): Buffer => createHash("sha256").update(text).digest()

/** Makes a function that compares a text with a secret. Digests are compared, so the time says nothing about either. */
export const equals = (secret: string): ((text: string | Uint8Array) => boolean) => {
  const expected = sha256Bytes(secret)
  return (text) => timingSafeEqual(sha256Bytes(text), expected)
}

/** Makes the verifier of a webhook whose sender has a secret in `Authorization`, or none at all. */
const credentialVerifier = ({ credential }: Unsigned, secrets: ReadonlyArray<Secret>): Verify => {
  if (credential === "none") return () => ({ ok: true, secret: "" })
  const form = new RegExp(`^${credential} +([^ ]+)$`, "i")
  const known = secrets.map(({ value, ...secret }) => ({ ...secret, matches: equals(value) }))
  return (headers, _body, now) => {
    const value = headers.get("authorization") ?? ""
    if (value === "") return { ok: false, reason: "missing" }
    const given = form.exec(value)?.[1]
    if (given === undefined) return { ok: false, reason: "malformed" }
    const text = credential === "basic" ? Buffer.from(given, "base64") : given
    const matching = known.filter(({ matches }) => matches(text))
    return decided(matching, now)
  }
}

/** Makes the verifier of a webhook. */
export const verifierOf = (scheme: Sender["scheme"], secrets: ReadonlyArray<Secret>): Verify =>
  isUnsigned(scheme) ? credentialVerifier(scheme, secrets) : verifier(scheme, secrets)

// Challenges. A sender uses one to find out whether a URL belongs to its user.

/** Maximum characters of a challenge, and maximum bytes of a delivery with one. */
const longestChallenge = 512
const largestChallenge = 4_096

/** Returns the challenge of a verified delivery that is not an event. */
export const challengeIn = ({ scheme }: Sender, body: Uint8Array): string | undefined => {
  if (isUnsigned(scheme) || scheme.challenge === undefined || body.byteLength > largestChallenge) return undefined
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(scheme.challenge)) return undefined
  const object: { readonly type?: unknown; readonly challenge?: unknown } = Result.getOrElse(
    Envelope.decodeObject(body),
    () => ({}),
  )
  const { type, challenge } = object
  if (type !== scheme.challenge || typeof challenge !== "string") return undefined
  return challenge.length <= longestChallenge ? challenge : undefined
}

/** The characters of a challenge in a URL. None of them means anything to a browser. */
const plainChallenge = /^[A-Za-z0-9._~+/=:-]+$/

/** Returns the challenge and the token of a GET with `hub.challenge`, or `undefined` if the URL has none. */
export const hubChallenge = (url: string): { readonly challenge: string; readonly token: string } | undefined => {
  const query = new URL(url).searchParams
  const challenge = query.get("hub.challenge") ?? ""
  if (query.get("hub.mode") !== "subscribe" || challenge.length > longestChallenge) return undefined
  return plainChallenge.test(challenge) ? { challenge, token: query.get("hub.verify_token") ?? "" } : undefined
}

/** Returns the part of an event that only another sender's have. Its time is not read yet. */
export const received = ({ scheme, places }: Sender, headers: Pick<Headers, "get">): Foreign => {
  const { id, type, account, time } = places
  const kept: Record<string, string> = {}
  const signing = isUnsigned(scheme) ? [] : [scheme.header, scheme.timestamp, scheme.id]
  for (const name of [...signing, id, ...type, account, time]) {
    if (name === undefined || !isHeader(name) || isPart(name)) continue
    const lower = name.toLowerCase()
    // A secret is never stored.
    const value = isUnsigned(scheme) && lower === "authorization" ? null : headers.get(lower)
    if (value !== null) kept[lower] = value
  }
  return { createdAt: "", headers: kept }
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : (Numbers.textOf(value) ?? ""))

const expressions = new WeakMap<Jmespath.Shape, Jmespath.Expression>()

/** Returns the value of an expression over a body. Each is compiled once. */
const evaluated = (place: Jmespath.Shape, object: object): unknown => {
  const known = expressions.get(place)
  const expression = known ?? Jmespath.compile(place.jmespath, `"event" (${place.jmespath})`)
  if (known === undefined) expressions.set(place, expression)
  return Numbers.parse(expression.json(object))
}

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
 * path, the timestamp and the body. Throws `Unrenderable` if an expression fails.
 */
export const read = <E extends Unread>({ scheme, places }: Sender, path: string, event: E) => {
  const { body, receivedAt, foreign } = event
  const { headers } = foreign
  const object = Result.getOrUndefined(Envelope.decodeObject(body, Numbers.parse))
  const at = (place: Place | undefined): string => {
    if (place === undefined) return ""
    if (isHeader(place)) return headers[place.toLowerCase()] ?? ""
    if (typeof place === "string") return textOf(get(parsePointer(place) ?? [], object))
    return object === undefined ? "" : textOf(evaluated(place, object))
  }
  const hash = (): string => {
    const { header, timestamp }: Partial<Scheme> = isUnsigned(scheme) ? {} : scheme
    const time = at(timestamp !== undefined && isPart(timestamp) ? header : timestamp)
    return sha256(Buffer.concat([Buffer.from(`${path}\n${time}\n`), body]))
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
  const put = (place: Place | undefined, value: string | number | undefined): void => {
    // The result of an expression can't be turned into a body.
    if (value === undefined || typeof place !== "string") return
    if (isHeader(place)) headers[place] = String(value)
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
  const signing = { id: sample.id, timestamp, body }
  const proof = isUnsigned(scheme) ? credentialHeaders(scheme, secret) : signedHeaders(scheme, secret, signing)
  return { body, headers: { ...headers, ...proof } }
}

const credentialHeaders = ({ credential }: Unsigned, secret: string): Readonly<Record<string, string>> => {
  if (credential === "none") return {}
  const value = credential === "bearer" ? `Bearer ${secret}` : `Basic ${Buffer.from(secret).toString("base64")}`
  return { authorization: value }
}

/** Sets a value in a JSON object. Objects and lists on the way are made. */
const set = ([key = "", ...rest]: ReadonlyArray<string>, object: Record<string, unknown>, value: unknown): void => {
  if (rest.length === 0) {
    object[key] = value
    return
  }
  const inner = (object[key] ?? (rest[0] === "0" ? [] : {})) as Record<string, unknown>
  object[key] = inner
  set(rest, inner, value)
}
