/**
 * Events as lines (NDJSON): the signed body itself where it fits on a line,
 * else base64 with a mark, because a line can't hold what was signed as it is.
 */
import type { Event } from "../event/Event.ts"

const lineFeed = 0x0a
const carriageReturn = 0x0d

/** Whether the body can stand on a line of its own and still be the bytes that were signed. */
const fits = (event: Event): boolean =>
  // A typed event was decoded, so it is UTF-8; what could not be decoded may be anything.
  event.type !== "" && !event.body.includes(lineFeed) && !event.body.includes(carriageReturn)

/** The line of an event, without its line feed: bytes for the body itself, text for a marked one. */
export const line = (event: Event): Uint8Array =>
  fits(event)
    ? event.body
    : Buffer.from(JSON.stringify({ relay_base64: Buffer.from(event.body).toString("base64"), event_id: event.id }))
