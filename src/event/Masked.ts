/**
 * Masks a delivery's body before people see it, so that it shows no personal data.
 *
 * No schema of the objects is published, so a field's name alone doesn't make its
 * value harmless. These values are kept: the envelope's own fields (webhook
 * interface, section 2.1); null; ids with a prefix and a suffix, in a field named as
 * an id; and times in a field whose name ends in `_at`.
 */
import { Predicate, Result } from "effect"
import * as Envelope from "./Envelope.ts"
import { mask } from "./Quoted.ts"

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

const masked = (key: string, value: unknown, depth: number): unknown => {
  if (isShown(key, value)) return value
  if (depth === deepest) return mask
  if (Array.isArray(value)) return value.map((item) => masked(key, item, depth + 1))
  return Predicate.isObject(value) ? maskedFields(value, depth + 1) : mask
}

const maskedFields = (fields: object, depth = 0): object =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [fieldName.test(key) ? key : mask, masked(key, value, depth)]),
  )

/** Returns the masked body as JSON, or `undefined` if it is not an envelope. */
export const body = (bytes: Uint8Array): Uint8Array | undefined => {
  const decoded = Envelope.decode(bytes)
  if (Result.isFailure(decoded)) return undefined
  const { id, account_id, version, created_at, data, ...others } = decoded.success
  const { type, object, ...besides } = data
  return new TextEncoder().encode(
    JSON.stringify({
      id,
      account_id,
      version,
      created_at,
      data: { type, object: maskedFields(object), ...maskedFields(besides) },
      ...maskedFields(others),
    }),
  )
}
