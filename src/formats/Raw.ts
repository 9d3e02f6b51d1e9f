/**
 * The `raw` format: the signed bytes as they are.
 *
 * A line of NDJSON can't hold every body, nor can a field that takes a JSON
 * object. One that isn't an envelope, and in a line one with a line break, is
 * written as `{"relay_base64":"…","event_id":"…"}`, which decodes to the same bytes.
 */
import type { Event } from "../event/Event.ts"

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
export const line = (event: Event): Uint8Array => (fits(event) ? event.body : Buffer.from(encoded(event)))

/** The JSON object of an event; that of an envelope is as the sender wrote it. */
export const object = (event: Event): string =>
  event.type === "" || looksEncoded(event.body) ? encoded(event) : Buffer.from(event.body).toString("utf8")
