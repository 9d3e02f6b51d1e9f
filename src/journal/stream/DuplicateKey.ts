/**
 * The key that two deliveries share if they are duplicates. It is a 64-bit hash and a checksum of the body. The
 * hash covers the webhook's name and the event id, or the body if the id is missing.
 *
 * **Gotcha.** The hashes are stored in the journal, so the hash function can't change without a migration.
 * Deliveries that can't be routed have keys of their own: if one is sent again after the config has changed, it
 * counts as new.
 */
import { createHash } from "node:crypto"
import type { Entry, Event } from "../../event/Event.ts"
import { bodyChecksum } from "./Record.ts"

/** Bytes of the key that is stored next to a copied record: both hashes and the body's checksum. */
const width = 12

/** Two 32-bit multiplicative hashes over webhook name and id, mixed at the end. */
export const hashInto = (key: { keyHi: number; keyLo: number }, event: Event): void => {
  if (event.erased !== undefined) {
    ;[key.keyHi, key.keyLo] = event.erased.key
    return
  }
  const id = event.id === "" ? createHash("sha256").update(event.body).digest("base64") : event.id
  let a = 0x9e3779b9 ^ id.length
  let b = 0x85ebca6b ^ event.webhook.length
  for (let i = 0; i < event.webhook.length; i++) {
    const c = event.webhook.charCodeAt(i)
    a = Math.imul(a ^ c, 0x9e3779b1)
    b = Math.imul(b ^ c, 0x5f356495)
  }
  for (let i = 0; i < id.length; i++) {
    const c = id.charCodeAt(i)
    a = Math.imul(a ^ c, 0x9e3779b1)
    b = Math.imul(b ^ c, 0x5f356495)
  }
  if (event.problem !== undefined) b = ~b
  a = Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ Math.imul(b ^ (b >>> 13), 0xc2b2ae35)
  b = Math.imul(b ^ (b >>> 16), 0x85ebca6b) ^ Math.imul(a ^ (a >>> 13), 0xc2b2ae35)
  key.keyLo = (a ^ (a >>> 15)) >>> 0
  key.keyHi = (b ^ (b >>> 15)) >>> 0
}

/** Unsigned 32-bit numbers: both hashes, and the CRC-32 of the body. */
export interface DuplicateKey {
  readonly hi: number
  readonly lo: number
  readonly bodyCrc: number
}

/** The key of a delivery. */
export const keyOf = (event: Event): DuplicateKey => {
  const hash = { keyHi: 0, keyLo: 0 }
  hashInto(hash, event)
  return { hi: hash.keyHi, lo: hash.keyLo, bodyCrc: bodyChecksum(event) }
}

/** Encodes the key to store next to an entry's copied record. A replay has none, because it isn't a delivery. */
export const encodeKey = ({ event, replayed }: Entry): Uint8Array | null => {
  if (replayed) return null
  const { hi, lo, bodyCrc } = keyOf(event)
  const bytes = Buffer.alloc(width)
  for (const [index, value] of [hi, lo, bodyCrc].entries()) bytes.writeUInt32LE(value, index * 4)
  return bytes
}

/** Decodes such a key, or returns `undefined` if there is none. */
export const decodeKey = (value: unknown): DuplicateKey | undefined => {
  if (!(value instanceof Uint8Array) || value.length !== width) return undefined
  const bytes = Buffer.from(value.buffer, value.byteOffset, width)
  return { hi: bytes.readUInt32LE(0), lo: bytes.readUInt32LE(4), bodyCrc: bytes.readUInt32LE(8) }
}

// The keys of a row's events. A key has 16 bytes: the duplicate key and the route, with 4 bytes each.

/** Bytes of an event's key. */
export const keyWidth = 16
/** Set in the route of an entry that isn't a delivery and so doesn't count as a duplicate. */
const notDelivered = 0x80000000

/** The key of an event in a row. */
interface RowKey extends DuplicateKey {
  /** The index of the event's sinks in the row's routes. */
  readonly route: number
  readonly isDelivery: boolean
}

/** Writes the key of the event at `index` of a row. */
export const putKey = (
  keys: Buffer,
  index: number,
  { hi, lo, bodyCrc }: DuplicateKey,
  route: number,
  isDelivery: boolean,
): void => {
  const at = index * keyWidth
  keys.writeUInt32LE(hi, at)
  keys.writeUInt32LE(lo, at + 4)
  keys.writeUInt32LE(bodyCrc, at + 8)
  keys.writeUInt32LE((route | (isDelivery ? 0 : notDelivered)) >>> 0, at + 12)
}

/** Reads the key of the event at `index` of a row. Returns `undefined` if the keys are cut short. */
export const keyAt = (keys: Buffer, index: number): RowKey | undefined => {
  const at = index * keyWidth
  if (at + keyWidth > keys.length) return undefined
  const route = keys.readUInt32LE(at + 12)
  return {
    hi: keys.readUInt32LE(at),
    lo: keys.readUInt32LE(at + 4),
    bodyCrc: keys.readUInt32LE(at + 8),
    route: (route & ~notDelivered) >>> 0,
    isDelivery: (route & notDelivered) === 0,
  }
}

/** Returns the ranges of ascending numbers, both ends included. */
export const ranges = (numbers: ReadonlyArray<number>): ReadonlyArray<readonly [from: number, to: number]> => {
  const found: Array<[number, number]> = []
  for (const number of numbers) {
    const last = found.at(-1)
    if (last !== undefined && last[1] === number - 1) last[1] = number
    else found.push([number, number])
  }
  return found
}

/** `Event 5`, or `Events 5 to 9`. */
export const eventsOf = ([from, to]: readonly [from: number, to: number]): string =>
  from === to ? `Event ${from}` : `Events ${from} to ${to}`
