/**
 * The rows of the log. A row holds the events of one commit, in the format of `stream/Record.ts`, numbered by
 * their place in the row.
 *
 * An entry is void if its event was a duplicate, which only the database could detect. It keeps its sequence,
 * and goes to no sink.
 */
import { crc32 } from "node:zlib"
import type { Entry } from "../../../event/Event.ts"
import { decodeRow, hashOf, type Stored } from "../../stream/Record.ts"
import { type SearchIds, view } from "../../stream/SearchIds.ts"

/** The columns that {@link storedOf} needs. */
export const columns = "first, count, void, altered, bytes"

/**
 * SQL for the row that holds `$2`, and the rows after it. They are above the stream's floor, `$1`, and below
 * its ceiling, `$3`.
 */
export const holding =
  "first >= coalesce((SELECT max(first) FROM log WHERE first > $1 AND first <= $2), $2) AND first < $3"

/** The columns of the table `log` that are read. */
export interface StreamRow {
  readonly first: number
  readonly count: number
  /** Places in the row. */
  readonly void: ReadonlyArray<number>
  readonly altered: ReadonlyArray<number>
  readonly bytes: Uint8Array
}

const nowhere: ReadonlyArray<string> = []

/** Replaces an entry's place in the row by its sequence. No other code may have seen the entry yet. */
export const place = (entry: Entry, first: number): void => {
  const own: { sequence: number } = entry
  own.sequence += first
}

/** Marks the entries of a row that are void or altered. */
export const voided = (
  entries: ReadonlyArray<Entry>,
  row: Pick<StreamRow, "first" | "void" | "altered">,
): ReadonlyArray<Entry> => {
  if (row.void.length + row.altered.length === 0) return entries.slice()
  const isVoid = new Set(row.void)
  const isAltered = new Set(row.altered)
  return entries.map((entry) => {
    const at = entry.sequence - row.first
    if (isVoid.has(at)) return { ...entry, sinks: nowhere, duplicate: true }
    return isAltered.has(at) ? { ...entry, event: { ...entry.event, altered: true } } : entry
  })
}

/** Decodes the entries of a row. `damaged` is called with each sequence that can't be read as it was written. */
export const storedOf = (row: StreamRow, damaged: (sequence: number) => void): ReadonlyArray<Stored> => {
  const { stored, damaged: places } = decodeRow(row.bytes, 0, row.count)
  for (const at of places) damaged(row.first + at)
  for (const { entry } of stored) place(entry, row.first)
  if (row.void.length + row.altered.length === 0) return stored
  const entries = voided(
    stored.map(({ entry }) => entry),
    row,
  )
  return stored.map(({ entry, origin }, index) => ({ entry: entries[index] ?? entry, origin }))
}

/** Bytes of a hash in the column `ids`. */
export const idWidth = 4

const listed = (hashes: ReadonlyArray<number>): Buffer => Buffer.from(Int32Array.from(hashes).buffer)

/**
 * Hashes for searches: of the ids of a row's events, then of the JSON Pointers, then of the objects' ids that are
 * at these pointers. A row without the last two, or of other pointers, may hold any object's id.
 */
export const idsOf = (entries: ReadonlyArray<Entry>, searchIds: SearchIds): Uint8Array => {
  const ids = entries.map(({ event }) => crc32(event.id))
  const objects = entries.flatMap(({ event }) => searchIds.hashes(view(event.body)))
  return listed([...ids, searchIds.hash, ...new Set(objects)])
}

/** The hash of an event's id to search for. */
export const idOf = (id: string): Uint8Array => listed([crc32(id)])

/** The hash of an object's id to search for. */
export const objectOf = (id: string): Uint8Array => listed([hashOf(id)])

/** The hash of the JSON Pointers that a row's ids of objects are at. */
export const pointersOf = ({ hash }: SearchIds): Uint8Array => listed([hash])
