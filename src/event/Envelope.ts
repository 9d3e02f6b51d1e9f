/**
 * The delivery envelope (webhook interface, section 2.1).
 *
 * Only the fields that the interface states are required. All other fields are kept,
 * because the relay stores and sends the original bytes. The `object` of an event
 * type has no published schema, so the relay assumes none.
 */
import { Predicate, Result, Schema, SchemaIssue } from "effect"
import type { Event } from "./Event.ts"
import { resource } from "./EventType.ts"
import * as Numbers from "./Numbers.ts"
import { mask } from "./Quoted.ts"

/**
 * Any JSON object. Uses `declare`, because checking a record key by key takes three
 * times as long and finds no more errors.
 */
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

/** Why a body is not an envelope. It contains no values from the body. */
interface Undecodable {
  readonly problem: string
}

/** Fails for invalid UTF-8, and keeps a BOM, which makes `JSON.parse` fail, because neither may be silently changed. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const isEnvelope = Schema.is(Envelope)
const decodeEnvelope = Schema.decodeUnknownResult(Envelope)
const paths = SchemaIssue.makeFormatterStandardSchemaV1()

/** Describes the error by its path, without the value, which may hold personal data. */
const describe = (value: unknown): string => {
  const decoded = decodeEnvelope(value)
  if (Result.isSuccess(decoded)) return "it is an envelope"
  const path = paths(decoded.failure.issue).issues[0]?.path ?? []
  return path.length === 0 ? "the JSON is not an object" : `${path.join(".")} is missing or doesn't match the interface`
}

/**
 * Maximum UTF-8 bytes of a string in the envelope. These strings become labels,
 * header fields, attributes and keys, and patterns are matched against them, so
 * later code relies on this limit.
 */
export const longest = 256

const isLong = (text: string): boolean =>
  text.length > longest || (text.length * 3 > longest && Buffer.byteLength(text) > longest)

/** Returns the name of a field that is too long, or `undefined` if there is none. */
const longField = ({ id, account_id, version, created_at, data }: Envelope): string | undefined => {
  if (isLong(data.type)) return "data.type"
  if (isLong(id)) return "id"
  if (isLong(account_id)) return "account_id"
  if (isLong(version)) return "version"
  return isLong(created_at) ? "created_at" : undefined
}

type Parse = (text: string) => unknown

const parsed = (body: Uint8Array, parse: Parse): Result.Result<unknown, Undecodable> => {
  let text: string
  try {
    text = utf8.decode(body)
  } catch {
    return Result.fail({ problem: "the body is not UTF-8" })
  }
  try {
    return Result.succeed(parse(text))
  } catch {
    return Result.fail({ problem: "the body is not JSON" })
  }
}

const limited = (envelope: Envelope): Result.Result<Envelope, Undecodable> => {
  const long = longField(envelope)
  return long === undefined
    ? Result.succeed(envelope)
    : Result.fail({ problem: `${long} is longer than ${longest} bytes` })
}

/**
 * Decodes the raw bytes of a delivery. If a body is not an envelope, returns a
 * failure and throws nothing. Code that copies values out of a body parses it with
 * `Numbers`.
 */
export const decode = (body: Uint8Array, parse: Parse = JSON.parse): Result.Result<Envelope, Undecodable> => {
  const value = parsed(body, parse)
  if (Result.isFailure(value)) return Result.fail(value.failure)
  return isEnvelope(value.success) ? limited(value.success) : Result.fail({ problem: describe(value.success) })
}

/** Decodes the body of another sender's delivery, which must be a JSON object. */
export const decodeObject = (body: Uint8Array, parse: Parse = JSON.parse): Result.Result<object, Undecodable> =>
  Result.filterOrFail(parsed(body, parse), Predicate.isObject, () => ({ problem: "the JSON is not an object" }))

/** Returns the envelope of an event. An event of another sender has its body in `data.object`. */
export const ofEvent = (
  { id, type, accountId, foreign, body }: Pick<Event, "id" | "type" | "accountId" | "foreign" | "body">,
  parse?: Parse,
): Result.Result<Envelope, Undecodable> => {
  if (foreign === undefined) return decode(body, parse)
  const object = decodeObject(body, parse)
  if (Result.isFailure(object)) return Result.fail(object.failure)
  const data = { type, object: object.success as Envelope["data"]["object"] }
  return limited({ id, account_id: accountId, version: "", created_at: foreign.createdAt, data })
}

/** Returns the envelope with exact numbers if `JSON.parse` rounds any of them. Otherwise returns the same envelope. */
export const exact = ({ body, foreign }: Pick<Event, "body" | "foreign">, envelope: Envelope): Envelope => {
  const text = utf8.decode(body)
  if (!Numbers.mayRound(text)) return envelope
  if (foreign === undefined) return Numbers.parse(text) as Envelope
  return { ...envelope, data: { ...envelope.data, object: Numbers.parse(text) as Envelope["data"]["object"] } }
}

/** Fields of a client object that are null in a delivery. */
export const redacted = ["first_name", "last_name", "email", "phone"] as const

/**
 * Returns the names of a client object's fields that should have been null
 * (interface, section 2.3) and are not. It never returns their values.
 */
export const unredactedFields = (envelope: Envelope): ReadonlyArray<string> => {
  if (resource(envelope.data.type) !== "client") return none
  const object = envelope.data.object
  const found = redacted.filter((field) => object[field] !== null && object[field] !== undefined)
  return found.length === 0 ? none : found
}

const none: ReadonlyArray<string> = []

// Masks a delivery's body before people see it, so that it shows no personal data.
//
// No schema of the objects is published, so a field's name alone doesn't make its
// value harmless. These values are kept: the envelope's own fields (webhook
// interface, section 2.1); null; ids with a prefix and a suffix, in a field named as
// an id; and times in a field whose name ends in `_at`.

const id = /^[a-z]{2,8}_[A-Za-z0-9]+$/
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/
/** The form of a field name. A key of another form may be a person's name or address. */
const fieldName = /^[a-z][a-z0-9_]{0,39}$/i

const isShown = (key: string, value: unknown): boolean =>
  value === null ||
  (typeof value === "string" &&
    ((/^(.*_)?ids?$/.test(key) && id.test(value)) || (key.endsWith("_at") && time.test(value))))

/** Maximum depth that is shown. Nobody reads deeper levels, and a hostile body may be nested too deep to be written. */
const deepest = 100

/** Masks the values of `named` fields whatever they are. */
const maskedFields = (fields: object, named: ReadonlyArray<string>, depth = 0): object => {
  const masked = (key: string, value: unknown, depth: number): unknown => {
    if (isShown(key, value)) return value
    if (depth === deepest) return mask
    if (Array.isArray(value)) return value.map((item) => masked(key, item, depth + 1))
    return Predicate.isObject(value) ? maskedFields(value, named, depth + 1) : mask
  }
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      fieldName.test(key) ? key : mask,
      named.includes(key) ? mask : masked(key, value, depth),
    ]),
  )
}

/**
 * Returns the masked body as JSON, or `undefined` if the event has no envelope. `named`
 * are the fields that its webhook masks besides.
 */
export const maskedBody = (
  { body, foreign }: Pick<Event, "body" | "foreign">,
  named: ReadonlyArray<string> = none,
): Uint8Array | undefined => {
  if (foreign !== undefined) {
    const object = Result.getOrUndefined(decodeObject(body))
    return object && new TextEncoder().encode(JSON.stringify(maskedFields(object, named)))
  }
  const decoded = decode(body)
  if (Result.isFailure(decoded)) return undefined
  const { id, account_id, version, created_at, data, ...others } = decoded.success
  const { type, object, ...besides } = data
  return new TextEncoder().encode(
    JSON.stringify({
      id,
      account_id,
      version,
      created_at,
      data: { type, object: maskedFields(object, named), ...maskedFields(besides, named) },
      ...maskedFields(others, named),
    }),
  )
}
