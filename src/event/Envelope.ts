/**
 * The delivery envelope (webhook interface, section 2.1).
 *
 * Only the fields that the interface states are required; everything else in
 * the body survives, because the bytes are what is kept and sent. The `object`
 * of an event type has no published schema, so none is assumed.
 */
import { Predicate, Result, Schema, SchemaIssue } from "effect"
import { resource } from "./EventType.ts"
import * as Numbers from "./Numbers.ts"

/** Any JSON object. Declared, because checking a record key by key costs three times as much and finds nothing more. */
const PlainObject = Schema.declare(Predicate.isObject).annotate({ description: "The affected resource" })

export const Envelope = Schema.Struct({
  id: Schema.String.annotate({ description: "Event identifier, `evt_` and an opaque suffix" }),
  account_id: Schema.String.annotate({ description: "Account identifier, `acct_` and an opaque suffix" }),
  version: Schema.String.annotate({ description: "Envelope version; its meaning is not published" }),
  created_at: Schema.String.annotate({ description: "ISO 8601 UTC, second precision, ending in Z" }),
  data: Schema.Struct({
    type: Schema.NonEmptyString.annotate({ description: "The event type, e.g. `appointment.created`" }),
    object: PlainObject,
  }),
})

export type Envelope = typeof Envelope.Type

/** Why a body is no envelope; holds none of the body's values. */
export interface Undecodable {
  readonly problem: string
}

/** Fatal, so bad UTF-8 is no envelope; keeps a BOM, which JSON then refuses: neither may be rewritten. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const isEnvelope = Schema.is(Envelope)
const decodeEnvelope = Schema.decodeUnknownResult(Envelope)
const paths = SchemaIssue.makeFormatterStandardSchemaV1()

/** The path is ours to show, the value is not: it may hold personal data. */
const describe = (value: unknown): string => {
  const decoded = decodeEnvelope(value)
  if (Result.isSuccess(decoded)) return "it is an envelope"
  const path = paths(decoded.failure.issue).issues[0]?.path ?? []
  return path.length === 0 ? "the JSON is no object" : `${path.join(".")} is missing or not what the interface says`
}

/**
 * Bytes of UTF-8 that a text of the envelope may have. They become labels, header
 * fields, attributes and keys, and patterns match them: later code relies on
 * their being short.
 */
export const longest = 256

const isLong = (text: string): boolean =>
  text.length > longest || (text.length * 3 > longest && Buffer.byteLength(text) > longest)

/** The field of an envelope that is longer than it may be; `undefined` when none is. */
const longField = ({ id, account_id, version, created_at, data }: Envelope): string | undefined => {
  if (isLong(data.type)) return "data.type"
  if (isLong(id)) return "id"
  if (isLong(account_id)) return "account_id"
  if (isLong(version)) return "version"
  return isLong(created_at) ? "created_at" : undefined
}

/**
 * Decodes the raw bytes of a delivery; a body that is no envelope is a value, not
 * an exception. Code that copies values out of a body parses it with `Numbers`.
 */
export const decode = (
  body: Uint8Array,
  parse: (text: string) => unknown = JSON.parse,
): Result.Result<Envelope, Undecodable> => {
  let text: string
  try {
    text = utf8.decode(body)
  } catch {
    return Result.fail({ problem: "the body is not UTF-8" })
  }
  let value: unknown
  try {
    value = parse(text)
  } catch {
    return Result.fail({ problem: "the body is not JSON" })
  }
  if (!isEnvelope(value)) return Result.fail({ problem: describe(value) })
  const long = longField(value)
  return long === undefined
    ? Result.succeed(value)
    : Result.fail({ problem: `${long} is longer than ${longest} bytes` })
}

/** The envelope of a decoded body with the numbers that `JSON.parse` rounds; the same envelope if there are none. */
export const exact = (body: Uint8Array, envelope: Envelope): Envelope => {
  const text = utf8.decode(body)
  return Numbers.mayRound(text) ? (Numbers.parse(text) as Envelope) : envelope
}

/** Fields of a client object that are null in a delivery. */
export const redacted = ["first_name", "last_name", "email", "phone"] as const

/**
 * The fields of a client object that should have been null (interface, section
 * 2.3) and are not: their names, never their values.
 */
export const unredactedFields = (envelope: Envelope): ReadonlyArray<string> => {
  if (resource(envelope.data.type) !== "client") return none
  const object = envelope.data.object
  const found = redacted.filter((field) => object[field] !== null && object[field] !== undefined)
  return found.length === 0 ? none : found
}

const none: ReadonlyArray<string> = []
