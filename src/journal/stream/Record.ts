/**
 * The format of events in a row of the log: framed records, one after the other.
 *
 * A record is four little-endian u32, a small JSON header, and the signed bytes as they arrived. The four
 * numbers are a checksum of everything after it up to the body, the length of header and body, a checksum of
 * the body, and the length of the header. Each record names its own sequence, so a stale or swapped page can't
 * pass for another one.
 *
 * **Guarantee.** A record that decodes is bit for bit as it was written. Anything else is reported as damaged
 * and never returned.
 */
import { crc32 } from "node:zlib"
import type { Entry, Erased, Event, Foreign } from "../../event/Event.ts"

/** How an entry came into the log. */
export const Origin = { delivered: 0, replayed: 1, moved: 2 } as const
/** The number of an origin in a record. */
export type Origin = (typeof Origin)[keyof typeof Origin]

/** An entry with further fields that only the journal needs. */
export interface Stored {
  readonly entry: Entry
  readonly origin: Origin
}

type Header = [
  sequence: number,
  origin: Origin,
  receivedAt: number,
  id: string,
  type: string,
  accountId: string,
  webhook: string,
  webhookId: string,
  signature: string,
  secret: string,
  sinks: ReadonlyArray<string>,
  // Optional fields. The header of most events ends above; otherwise it ends after the last field that the
  // event has.
  problem?: string | null,
  traceparent?: string,
  tracestate?: string,
  altered?: boolean,
  replay?: number | null,
  erased?: readonly [at: number, ...key: Erased["key"]] | null,
  foreign?: Foreign,
]

const usualLength = 11
/** If the header has this length or more, empty strings stand for missing ones. */
const filledLength = 15

/** Reads the optional fields, which few events have. */
const rare = (header: Header): Pick<Event, "problem" | "trace" | "altered" | "replay" | "erased" | "foreign"> => {
  const [, , , , , , , , , , , problem, traceparent, tracestate, altered, replay, erased, foreign] = header
  const isFilled = header.length >= filledLength
  const isThere = (text: string | undefined): text is string => text !== undefined && !(isFilled && text === "")
  return {
    ...(typeof problem === "string" && { problem }),
    ...(isThere(traceparent) && { trace: { traceparent, ...(isThere(tracestate) && { tracestate }) } }),
    ...(altered === true && { altered }),
    ...(typeof replay === "number" && { replay }),
    ...(erased && { erased: { at: erased[0], key: [erased[1], erased[2], erased[3]] as const } }),
    ...(foreign !== undefined && { foreign }),
  }
}

const frame = 16

/** Returns the CRC-32 of the signed bytes, even after they were erased. */
export const bodyChecksum = (event: Event): number => event.erased?.key[2] ?? crc32(event.body)

/** Collects records in one growing buffer, which is reused after `clear`. */
export class Writer {
  #buffer = Buffer.allocUnsafe(64 * 1024)
  length = 0

  add(sequence: number, event: Event, sinks: ReadonlyArray<string>, origin: Origin, bodyCrc: number): void {
    const fields: Header = [
      sequence,
      origin,
      event.receivedAt,
      event.id,
      event.type,
      event.accountId,
      event.webhook,
      event.webhookId,
      event.signature,
      event.secret,
      sinks,
    ]
    const { foreign } = event
    if (event.altered === true || event.replay !== undefined || event.erased !== undefined || foreign !== undefined) {
      const { problem = null, trace, altered = false, replay, erased } = event
      fields.push(problem, trace?.traceparent ?? "", trace?.tracestate ?? "", altered)
      const isLonger = erased !== undefined || foreign !== undefined
      if (replay !== undefined || isLonger) fields.push(replay ?? null)
      if (isLonger) fields.push(erased === undefined ? null : [erased.at, ...erased.key])
      if (foreign !== undefined) fields.push(foreign)
    } else if (event.trace !== undefined) {
      fields.push(event.problem ?? null, event.trace.traceparent)
      if (event.trace.tracestate !== undefined) fields.push(event.trace.tracestate)
    } else if (event.problem !== undefined) fields.push(event.problem)
    const header = JSON.stringify(fields)
    const start = this.length
    this.#reserve(frame + header.length * 3 + event.body.length)
    const buffer = this.#buffer
    const headerLength = buffer.write(header, start + frame)
    const end = start + frame + headerLength
    buffer.writeUInt32LE(headerLength + event.body.length, start + 4)
    // A record's checksum covers its own bytes, and an erased event has none.
    buffer.writeUInt32LE(event.erased === undefined ? bodyCrc : 0, start + 8)
    buffer.writeUInt32LE(headerLength, start + 12)
    buffer.writeUInt32LE(crc32(buffer.subarray(start + 4, end)), start)
    buffer.set(event.body, end)
    this.length = end + event.body.length
  }

  /** Returns a view of the written bytes. It is valid until the next `add` or `clear`. */
  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.length)
  }

  clear(): void {
    this.length = 0
  }

  #reserve(more: number): void {
    if (this.length + more <= this.#buffer.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.length + more))
    this.#buffer.copy(grown, 0, 0, this.length)
    this.#buffer = grown
  }
}

/** Encodes a single record, as retries and dead letters store it. */
export const encode = (
  entry: Entry,
  origin: Origin = entry.replayed ? Origin.replayed : Origin.delivered,
): Uint8Array => {
  const writer = new Writer()
  writer.add(entry.sequence, entry.event, entry.sinks, origin, bodyChecksum(entry.event))
  return writer.bytes()
}

/**
 * Decodes the record at `offset`. It must be of `sequence`, if one is given. Returns `undefined` if a bit of it
 * differs from the written record.
 */
const decodeAt = (bytes: Buffer, offset: number, sequence?: number): { stored: Stored; end: number } | undefined => {
  if (offset + frame > bytes.length) return undefined
  const length = bytes.readUInt32LE(offset + 4)
  const headerLength = bytes.readUInt32LE(offset + 12)
  const headerEnd = offset + frame + headerLength
  const end = offset + frame + length
  if (headerLength > length || end > bytes.length) return undefined
  if (crc32(bytes.subarray(offset + 4, headerEnd)) !== bytes.readUInt32LE(offset)) return undefined
  const body = new Uint8Array(bytes.buffer, bytes.byteOffset + headerEnd, end - headerEnd)
  if (crc32(body) !== bytes.readUInt32LE(offset + 8)) return undefined
  const header = JSON.parse(bytes.toString("utf8", offset + frame, headerEnd)) as Header
  const [at, origin, receivedAt, id, type, accountId, webhook, webhookId, signature, secret, sinks] = header
  if (sequence !== undefined && at !== sequence) return undefined
  const event = { id, type, accountId, webhook, webhookId, signature, secret, receivedAt, body }
  return {
    stored: {
      entry: {
        sequence: at,
        event: header.length === usualLength ? event : { ...event, ...rare(header) },
        sinks,
        replayed: origin === Origin.replayed || typeof header[15] === "number",
      },
      origin,
    },
    end,
  }
}

const quote = 0x22
const backslash = 0x5c

/**
 * FNV-1a over the bytes of a JSON string, from the byte after its opening quote. A change requires another
 * format of the index.
 */
class TextHash {
  hash = 0
  /** The position of its closing quote. */
  end = 0

  of(bytes: Uint8Array, from: number, limit: number): number {
    let hash = 0x811c9dc5
    let at = from
    for (; at < limit && bytes[at] !== quote; at++) {
      if (bytes[at] === backslash) hash = Math.imul(hash ^ (bytes[at++] ?? 0), 0x01000193)
      hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193)
    }
    this.end = at
    this.hash = hash ^ (hash >>> 15)
    return this.hash
  }
}

/** Returns the last number before the first string of a header: the time when the event was received. */
const numberBefore = (bytes: Uint8Array, from: number, limit: number): number => {
  let number = 0
  let last = 0
  for (let at = from; at < limit && bytes[at] !== quote; at++) {
    const digit = (bytes[at] ?? 0) - 0x30
    if (digit >= 0 && digit <= 9) number = number * 10 + digit
    else {
      last = number
      number = 0
    }
  }
  return Number.isSafeInteger(last) ? last : 0
}

/** Hashes the bytes of a JSON string without its quotes. */
export const hashIn = (bytes: Uint8Array, from: number, to: number): number => new TextHash().of(bytes, from, to)

/** Hashes an id or an account in the same way as {@link indexFields}. */
export const hashOf = (text: string): number => {
  const bytes = Buffer.from(JSON.stringify(text))
  return hashIn(bytes, 1, bytes.length)
}

/** The fields of an event for the index: hashes of its first strings, and the strings of a new kind. */
interface IndexFields {
  readonly id: number
  readonly type: number
  readonly account: number
  readonly webhook: number
  /** Epoch milliseconds. */
  readonly receivedAt: number
  /** The bounds of the body in the row. */
  readonly body: { readonly from: number; readonly end: number }
  /** Returns `undefined` if the strings are damaged. */
  readonly kind: () => readonly [type: string, webhook: string] | undefined
}

/**
 * Reads the fields of a row's events for the index, much faster than decoding them. Damaged events may come out
 * wrong or be left out, so a search decodes each event that it finds. `visit` gets the same object each time.
 */
export const indexFields = (
  row: Uint8Array,
  count: number,
  visit: (index: number, head: IndexFields) => void,
): void => {
  const bytes = view(row)
  const text = new TextHash()
  const from = [0, 0, 0, 0]
  const to = [0, 0, 0, 0]
  const hashes = [0, 0, 0, 0]
  const parsed = (field: number): string =>
    JSON.parse(bytes.toString("utf8", (from[field] ?? 0) - 1, (to[field] ?? 0) + 1)) as string
  const kind = () => {
    try {
      return [parsed(1), parsed(3)] as const
    } catch {
      return undefined
    }
  }
  const body = { from: 0, end: 0 }
  const fields = { id: 0, type: 0, account: 0, webhook: 0, receivedAt: 0, body, kind }
  let offset = 0
  for (let index = 0; index < count && offset + frame <= bytes.length; index++) {
    const end = Math.min(bytes.length, offset + frame + bytes.readUInt32LE(offset + 12))
    let at = offset + frame
    fields.receivedAt = numberBefore(bytes, at, end)
    for (let field = 0; field < hashes.length; field++) {
      while (at < end && bytes[at] !== quote) at++
      from[field] = at + 1
      hashes[field] = text.of(bytes, at + 1, end)
      to[field] = text.end
      at = text.end + 1
    }
    fields.id = hashes[0] ?? 0
    fields.type = hashes[1] ?? 0
    fields.account = hashes[2] ?? 0
    fields.webhook = hashes[3] ?? 0
    offset += frame + bytes.readUInt32LE(offset + 4)
    body.from = end
    body.end = Math.min(bytes.length, offset)
    if (at < end) visit(index, fields)
  }
}

/** Decodes one record of a row of the log. */
export const decodeOne = (row: Uint8Array, first: number, sequence: number): Stored | undefined => {
  const bytes = view(row)
  let offset = 0
  for (let at = first; at < sequence; at++) {
    if (offset + frame > bytes.length) return undefined
    offset += frame + bytes.readUInt32LE(offset + 4)
  }
  return decodeAt(bytes, offset, sequence)?.stored
}

const view = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Decodes a single record. */
export const decodeStored = (bytes: Uint8Array, sequence: number): Stored | undefined =>
  decodeAt(view(bytes), 0, sequence)?.stored

/** Decodes a single record without its origin, as retries and dead letters are stored. */
export const decode = (bytes: Uint8Array, sequence: number): Entry | undefined => decodeStored(bytes, sequence)?.entry

/** Splits a row into its records, whether they can be read or not. Bytes behind the last record are kept with it. */
export const splitRow = (row: Uint8Array, count: number): ReadonlyArray<Uint8Array> => {
  const bytes = view(row)
  const records: Array<Uint8Array> = []
  let offset = 0
  for (let index = 0; index < count; index++) {
    const end = offset + frame <= bytes.length ? offset + frame + bytes.readUInt32LE(offset + 4) : bytes.length
    const isLast = index === count - 1 || end >= bytes.length
    records.push(bytes.subarray(offset, isLast ? bytes.length : end))
    if (isLast) break
    offset = end
  }
  return records
}

/** A row of the log, decoded. */
export interface Decoded {
  readonly stored: ReadonlyArray<Stored>
  /** Sequences whose bytes differ from the written ones. */
  readonly damaged: ReadonlyArray<number>
}

/** Decodes a row of the log. A damaged record is skipped if its length still leads to the next. */
export const decodeRow = (bytes: Uint8Array, first: number, count: number): Decoded => {
  const buffer = view(bytes)
  const stored: Array<Stored> = []
  const damaged: Array<number> = []
  let offset = 0
  for (let sequence = first; sequence < first + count; sequence++) {
    const record = decodeAt(buffer, offset, sequence)
    if (record !== undefined) {
      stored.push(record.stored)
      offset = record.end
    } else {
      damaged.push(sequence)
      // Past the end nothing decodes, so after a wrong length the rest of the row is unreadable.
      offset += offset + frame <= buffer.length ? frame + buffer.readUInt32LE(offset + 4) : 0
    }
  }
  return { stored, damaged }
}

/**
 * Decodes all sound records in `bytes`, whatever their sequences. It is for bytes that were found outside their
 * table.
 */
export const decodeAll = (bytes: Uint8Array): ReadonlyArray<Entry> => {
  const buffer = view(bytes)
  const entries: Array<Entry> = []
  for (let offset = 0; offset + frame <= buffer.length; ) {
    const record = decodeAt(buffer, offset)
    if (record !== undefined) entries.push(record.stored.entry)
    offset = record?.end ?? offset + frame + buffer.readUInt32LE(offset + 4)
  }
  return entries
}
