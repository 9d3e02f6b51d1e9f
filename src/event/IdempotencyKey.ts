/**
 * The key by which a receiver recognizes duplicates: the `idempotency-key` of
 * HTTP and Kafka, the CloudEvents id, a part of SNS' deduplication id, of a NATS
 * message's id and of a mail's Message-ID.
 *
 * **Guarantee.** Two events of a webhook have the same key only if they have the
 * same id and the same bytes. The key is the same at each attempt, after a
 * restart, from a dead letter and in another lane; only a replay has a new one.
 * It is visible ASCII, at most 300 characters, so that it is valid everywhere.
 *
 * It is the event's id, then `:altered:` and the body's hash where the same id
 * came before with other bytes, then `:replay:` and the sequence. `:`, `%` and
 * what is not visible ASCII are percent-encoded in the id, so that no id can
 * look like the key of another event. An id that is too long is replaced by its
 * hash, a missing one by the body's.
 */
import { createHash } from "node:crypto"
import type { Entry } from "./Entry.ts"

/** Returns the SHA-256 of text or bytes, in hexadecimal. */
export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

const longestId = 200

const usual = /^[A-Za-z0-9_.-]{1,200}$/

const escaped = (id: string): string => {
  if (usual.test(id)) return id
  // Half a character has no UTF-8 of its own, but JSON tells it from others.
  const text = id.isWellFormed() ? id.replace(/[^\x21-\x24\x26-\x39\x3b-\x7e]+/g, encodeURIComponent) : ""
  return text !== "" && text.length <= longestId ? text : `id:${sha256(JSON.stringify(id))}`
}

export const idempotencyKey = ({ sequence, event, replayed }: Entry): string => {
  const id = event.id === "" ? `body:${sha256(event.body)}` : escaped(event.id)
  const own = event.altered === true ? `${id}:altered:${sha256(event.body).slice(0, 32)}` : id
  return replayed ? `${own}:replay:${event.replay ?? sequence}` : own
}

/** The key of events that are sent as one. A digest is retried with the same events, so it has a key of its own. */
export const groupKey = ([first, ...others]: readonly [Entry, ...ReadonlyArray<Entry>]): string =>
  others.length === 0 ? idempotencyKey(first) : `${idempotencyKey(first)}:digest:${others.length + 1}`

/**
 * The key of a batch: a hash of its events' keys, so that it is equal for each
 * attempt with the same events, and for no others.
 */
export const batchKey = ([first, ...others]: readonly [Entry, ...ReadonlyArray<Entry>]): string => {
  if (others.length === 0) return idempotencyKey(first)
  return `batch:${sha256([first, ...others].map(idempotencyKey).join(" "))}`
}
