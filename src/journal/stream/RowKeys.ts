/**
 * The keys of a row's events. A key has 16 bytes: the duplicate key (two hashes and the body's checksum) and the
 * route, with 4 bytes each.
 */
import type { DuplicateKey } from "./DuplicateKey.ts"

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
