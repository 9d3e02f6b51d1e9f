/**
 * The `raw` format: the bytes that were signed, as they are.
 *
 * A line of NDJSON can't hold every body: one with a line break in it, or one
 * that is no UTF-8, stands there as base64 with a mark,
 * `{"relay_base64":"…","event_id":"…"}`, and decodes to the very same bytes.
 */
import type { Event } from "../event/Event.ts"

const lineFeed = 0x0a
const carriageReturn = 0x0d
const mark = Buffer.from('{"relay_base64":"')

/** A body that begins as a marked line does would be read as one. */
const looksMarked = (body: Uint8Array): boolean => body[2] === mark[2] && mark.equals(body.subarray(0, mark.length))

/** Whether the body can stand on a line of its own and still be the bytes that were signed. */
const fits = ({ type, body }: Event): boolean =>
  // A typed event was decoded, so it is UTF-8; what could not be decoded may be anything.
  type !== "" && !body.includes(lineFeed) && !body.includes(carriageReturn) && !looksMarked(body)

/** The line of an event, without its line feed. */
export const line = (event: Event): Uint8Array =>
  fits(event)
    ? event.body
    : Buffer.from(JSON.stringify({ relay_base64: Buffer.from(event.body).toString("base64"), event_id: event.id }))
