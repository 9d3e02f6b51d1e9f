/**
 * Rendering values of an event as text. A value that can't be rendered throws
 * {@link Unrenderable}, which names its place and concerns that event alone;
 * {@link attempt} returns it as a value.
 */
import { Predicate, Result } from "effect"
import type { Event } from "../event/Event.ts"
import { orUndefined, parsedJson } from "../event/Tolerance.ts"

/** A body may be nested deeper than JSON can be written (some 40,000 levels); few receivers accept a hundred. */
const deepest = 1_000

/** Its message holds no part of the event. */
export class Unrenderable extends Error {
  override readonly name = "Unrenderable"
}

const isDeeper = (value: unknown, levels: number): boolean => {
  let level = [value].filter(Predicate.isObjectOrArray)
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= levels) return true
    level = level.flatMap((one) => Object.values(one).filter(Predicate.isObjectOrArray))
  }
  return false
}

/** Whether it can be written as JSON. */
const isFlat = (value: unknown): boolean => !isDeeper(value, deepest)

/** The value, if it can be written as JSON; `where` is its place in the config's notation. */
export const flat = (value: unknown, where: string): unknown => {
  if (isFlat(value)) return value
  throw new Unrenderable(`can't be rendered: what stands at ${where} is nested more than ${deepest} levels deep`)
}

/** The result of `make`, or why the event can't be rendered. Other errors are thrown. */
export const attempt = <A>(make: () => A): Result.Result<A, Unrenderable> => {
  try {
    return Result.succeed(make())
  } catch (error) {
    if (error instanceof Unrenderable) return Result.fail(error)
    throw error
  }
}

// Bytes as a person reviews them: JSON as JSON if that loses nothing, text as text, and the rest as
// base64.

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

export const displayBytes = (bytes: Uint8Array): unknown => {
  const text = orUndefined(() => utf8.decode(bytes))
  if (text === undefined) return { base64: Buffer.from(bytes).toString("base64") }
  const value = parsedJson(text)
  // Blanks, numbers such as 1.0 and keys that come twice would be lost: such a body is shown as it is written.
  return value !== undefined && isFlat(value) && JSON.stringify(value) === text ? value : text
}

// The `raw` format: the signed bytes as they are.
//
// A line of NDJSON can't hold every body, nor can a field that takes a JSON object. A body that
// isn't an envelope, or for a line one with a line break, is written as
// `{"relay_base64":"…","event_id":"…"}`, which decodes to the same bytes.

const lineFeed = 0x0a
const carriageReturn = 0x0d
const prefix = Buffer.from('{"relay_base64":"')

/** Whether a body would be read as such a line. */
const looksEncoded = (body: Uint8Array): boolean =>
  body[2] === prefix[2] && prefix.equals(body.subarray(0, prefix.length))

/** Whether the body can be a line as it is. */
const fits = ({ type, body }: Event): boolean =>
  // An event with a type was decoded, so it is UTF-8.
  type !== "" && !body.includes(lineFeed) && !body.includes(carriageReturn) && !looksEncoded(body)

const encoded = ({ body, id }: Event): string =>
  JSON.stringify({ relay_base64: Buffer.from(body).toString("base64"), event_id: id })

/** The line of an event, without its line feed. */
export const rawLine = (event: Event): Uint8Array => (fits(event) ? event.body : Buffer.from(encoded(event)))

/** The JSON object of an event. An envelope's object is as the sender wrote it. */
export const rawObject = (event: Event): string =>
  event.type === "" || looksEncoded(event.body) ? encoded(event) : Buffer.from(event.body).toString("utf8")
