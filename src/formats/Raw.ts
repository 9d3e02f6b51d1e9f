/**
 * The `raw` format: the signed bytes as they are.
 *
 * A line of NDJSON can't hold every body. One with a line break, or that isn't
 * UTF-8, is written as `{"relay_base64":"…","event_id":"…"}`, which decodes to
 * the same bytes.
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

/** The line of an event, without its line feed. */
export const line = (event: Event): Uint8Array =>
  fits(event)
    ? event.body
    : Buffer.from(JSON.stringify({ relay_base64: Buffer.from(event.body).toString("base64"), event_id: event.id }))
