/**
 * The key with which a receiver recognizes duplicates. It is the `idempotency-key`
 * of HTTP and Kafka and the CloudEvents id, and a part of SNS' deduplication id, a
 * NATS message's id and a mail's Message-ID.
 *
 * **Guarantee.** Two events of a webhook have the same key only if they have the
 * same id and the same bytes. The key is the same at each attempt, after a restart,
 * from a dead letter and in another lane; only a replay has a new one. It is visible
 * ASCII, at most 300 characters, so that it is valid everywhere.
 *
 * It is the event's id. If the same id arrived before with other bytes, `:altered:`
 * and the body's hash follow. A replay adds `:replay:` and the sequence. In the id,
 * `:`, `%` and all but visible ASCII are percent-encoded, so that no id can look
 * like the key of another event. An id that is too long is replaced by its hash, and
 * a missing id by the body's hash. For other senders than the scheduling service,
 * `from:` and the webhook's name come first, because two senders may have the same id.
 */
import { createHash } from "node:crypto"
import type { Entry } from "./Event.ts"

/** Returns the SHA-256 of text or bytes, in hexadecimal. */
export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

const longestId = 200

const usual = /^[A-Za-z0-9_.-]{1,200}$/

const escaped = (id: string): string => {
  if (usual.test(id)) return id
  // An unpaired surrogate has no UTF-8 encoding, but its JSON is distinct.
  const text = id.isWellFormed() ? id.replace(/[^\x21-\x24\x26-\x39\x3b-\x7e]+/g, encodeURIComponent) : ""
  return text !== "" && text.length <= longestId ? text : `id:${sha256(JSON.stringify(id))}`
}

export const idempotencyKey = ({ sequence, event, replayed }: Entry): string => {
  const own = event.id === "" ? `body:${sha256(event.body)}` : escaped(event.id)
  const id = event.foreign === undefined ? own : `from:${event.webhook}:${own}`
  const key = event.altered === true ? `${id}:altered:${sha256(event.body).slice(0, 32)}` : id
  return replayed ? `${key}:replay:${event.replay ?? sequence}` : key
}

/** Returns the key of a digest, which is retried with the same events and so has a key of its own. */
export const groupKey = ([first, ...others]: readonly [Entry, ...ReadonlyArray<Entry>]): string =>
  others.length === 0 ? idempotencyKey(first) : `${idempotencyKey(first)}:digest:${others.length + 1}`

/**
 * Returns the key of a batch: a hash of its events' keys. It is equal for each
 * attempt with the same events, and different for all others.
 */
export const batchKey = ([first, ...others]: readonly [Entry, ...ReadonlyArray<Entry>]): string => {
  if (others.length === 0) return idempotencyKey(first)
  return `batch:${sha256([first, ...others].map(idempotencyKey).join(" "))}`
}
