/**
 * Finds events that are kept in any stream, and their state at each sink.
 *
 * It searches the rows of all streams by the time of their newest event, and then
 * the retries and dead letters that are no longer in the log. The database finds the
 * id of an event or an object by its hash.
 */
import { Effect } from "effect"
import type { DeliveryStatus } from "../../DeliveryStatus.ts"
import { type EventPage, type EventQuery, type FoundEvent, matchOf } from "../../EventQuery.ts"
import type { JournalError } from "../../JournalError.ts"
import { streamOf } from "../../Sequences.ts"
import { maxEvents } from "../../stream/CommitBatch.ts"
import { bucketOf, findDelivery } from "../../stream/OutcomeRecord.ts"
import { decodeStored, type Stored } from "../../stream/Record.ts"
import { type SearchIds, textsOf } from "../../stream/SearchIds.ts"
import {
  foundEvent,
  heldStatus,
  type LaneFacts,
  type LaneStates,
  laneStates,
  noPlace,
  pageTimeout,
} from "../../stream/SearchResult.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import { allPlaces, LaneNames, nothingStored, type StoredLanes } from "../tables/LaneNames.ts"
import { type EndedRow, endedOf } from "../tables/OutcomeTables.ts"
import { columns, idOf, idWidth, objectOf, pointersOf, type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** The maximum number of rows, or kept events, that one query searches. */
const atOnce = 64
/** The maximum bytes of these rows. They are decoded without a pause, so more would delay heartbeats. */
const maxBytes = 4 * 1024 * 1024
/** The approximate number of events that the first query reads, unless the page is larger. Each query doubles it. */
const firstLook = 128
/** `firstLook` for an object or a text. Its events are in few rows, and each query for an object reads the hashes of all rows. */
const firstLookInFewRows = 2_048

/**
 * The place of a search: after an entry of a row of the log, or among the retries
 * and dead letters that are read from their own tables. Those count as the oldest.
 */
interface At {
  /** When the row's newest event was received; -1 for a retry or dead letter that is read from its own table. */
  readonly receivedTo: number
  /** The row's first sequence, or the sequence itself. */
  readonly first: number
  /** The entry's place in the row. */
  readonly place: number
}

const newest: At = { receivedTo: Number.MAX_SAFE_INTEGER, first: Number.MAX_SAFE_INTEGER, place: 0 }
const firstRow: At = { receivedTo: 0, first: 0, place: 0 }
const newestKept: At = { ...newest, receivedTo: -1 }
const oldest: At = { ...firstRow, receivedTo: -1 }

const isKept = ({ receivedTo }: At): boolean => receivedTo < 0

const textOf = ({ receivedTo, first, place }: At): string => [receivedTo, first, place].join(".")

const parse = (text: string): Effect.Effect<At, JournalError> => {
  const [, receivedTo, first, place] = /^(-1|\d+)\.(\d+)\.(\d+)$/.exec(text) ?? []
  return receivedTo === undefined
    ? Effect.fail(noPlace(text))
    : Effect.succeed({ receivedTo: Number(receivedTo), first: Number(first), place: Number(place) })
}

const compare = (a: At, b: At): number => a.receivedTo - b.receivedTo || a.first - b.first || a.place - b.place

/** The tables that have all events that the query can find, or `undefined` if the log must be read. */
const onlyIn = ({ outcome }: EventQuery): ReadonlyArray<string> | undefined =>
  outcome === "dead" ? ["dead"] : outcome === "retrying" ? ["retry"] : undefined

interface Candidate extends Stored {
  readonly at: At
}

/** A row of the log. It has no bytes if it was read for a text that it doesn't have. */
interface LogRow extends Omit<StreamRow, "bytes"> {
  readonly bytes: StreamRow["bytes"] | null
  readonly received_to: number
  readonly found: number
}

const storedIn = ({ bytes, ...row }: LogRow): ReadonlyArray<Stored> =>
  bytes === null ? [] : storedOf({ ...row, bytes }, () => {})

/** Searches the events of all streams. `now` returns monotonic milliseconds. */
export class EventFinder {
  readonly #db: Database
  readonly #searchIds: SearchIds
  readonly #now: () => number

  constructor(db: Database, searchIds: SearchIds, now: () => number) {
    this.#db = db
    this.#searchIds = searchIds
    this.#now = now
  }

  readonly end: Effect.Effect<string, JournalError> = Effect.suspend(() =>
    Effect.map(
      refusing(
        this.#db.query<{ received_to: number; first: number; count: number }>(
          "SELECT received_to, first, count FROM log ORDER BY received_to DESC, first DESC LIMIT 1",
        ),
      ),
      ({ rows: [row] }) =>
        textOf(row === undefined ? oldest : { receivedTo: row.received_to, first: row.first, place: row.count }),
    ),
  )

  /**
   * Takes two round trips for each 64 rows of the log, or kept events, that it searches. A row can have hundreds of
   * events, so it begins with the rows of a page, and doubles their number each time.
   */
  readonly page = Effect.fnUntraced(function* (
    this: EventFinder,
    query: EventQuery,
  ): Effect.fn.Return<EventPage, JournalError> {
    const isForward = query.after !== undefined
    const start = isForward ? query.after : query.before
    let at = start === undefined || start === "" ? (isForward ? oldest : newest) : yield* parse(start)
    const through = query.through === undefined ? newest : query.through === "" ? oldest : yield* parse(query.through)
    const match = matchOf(query, this.#searchIds)
    const events: Array<FoundEvent> = []
    let looked = 0
    let lookedTo = 0
    const deadline = this.#now() + pageTimeout
    const first = query.object === undefined && query.mentioned === undefined ? firstLook : firstLookInFewRows
    for (let size = Math.max(query.limit, first); ; size *= 2) {
      const { candidates, passed, next } = yield* this.#look(query, at, isForward, size)
      looked += passed
      const wanted = candidates.filter(({ at }) => !isForward || compare(at, through) <= 0)
      const matching = wanted.filter(({ entry }) => match.event(entry.sequence, entry.event, entry.sinks))
      const deliveries = yield* this.#deliveries(matching)
      for (const { entry, origin, at: place } of wanted) {
        looked += 1
        lookedTo = entry.event.receivedAt
        at = place
        const states = deliveries.get(entry.sequence)
        if (states === undefined || !match.deliveries(states.deliveries)) continue
        events.push(foundEvent({ entry, origin }, textOf(place), query, states))
        if (events.length >= query.limit) return { events, looked, lookedTo, next: textOf(place) }
      }
      const isAtEnd = next === undefined || (isForward && compare(next, through) >= 0)
      if (isAtEnd || wanted.length < candidates.length) return { events, looked, lookedTo }
      at = next
      if (passed > 0 && at.receivedTo > 0) lookedTo = at.receivedTo
      if (this.#now() > deadline) return { events, looked, lookedTo, next: textOf(at) }
    }
  })

  /** Returns the next candidates after `at`. `next` is the place to continue from, absent at the end. */
  readonly #look = Effect.fnUntraced(function* (
    this: EventFinder,
    query: EventQuery,
    at: At,
    isForward: boolean,
    size: number,
  ) {
    const isLogged = onlyIn(query) === undefined
    if (isKept(at) || !(isLogged || isForward)) {
      const found = yield* this.#kept(query, isKept(at) ? at : newestKept, isForward)
      return { ...found, passed: 0, next: found.next ?? (isForward && isLogged ? firstRow : undefined) }
    }
    if (!isLogged) return { candidates: [], passed: 0, next: undefined }
    const found = yield* this.#rows(query, at, isForward, size)
    return { ...found, next: found.next ?? (isForward ? undefined : newestKept) }
  })

  /**
   * Reads rows of the log: the row of `at`, and then others until they have `size` events. For a text that is anywhere in
   * a body, the database reads the rows, and returns the bytes of those that have it. `passed` counts the other events.
   */
  #rows = Effect.fnUntraced(function* (this: EventFinder, query: EventQuery, at: At, isForward: boolean, size: number) {
    const [compared, order] = isForward ? [">=", "ASC"] : ["<=", "DESC"]
    const { rows } = yield* refusing(
      this.#db.query<LogRow>(
        `SELECT first, count, void, altered, received_to, found,
           CASE WHEN $10::bytea[] IS NULL OR EXISTS (SELECT FROM unnest($10) AS texts (text) WHERE position(text IN bytes) > 0)
             THEN bytes END AS bytes
         FROM (
           SELECT *, count(*) OVER () AS found, sum(count) OVER looked - count - first_value(count) OVER looked AS before,
             sum(octet_length(bytes)) OVER looked - octet_length(bytes) AS bytes_before
           FROM (
             SELECT ${columns}, received_to FROM log
             WHERE (received_to, first) ${compared} ($1::bigint, $2::bigint)
               AND ($3::bytea IS NULL OR position($3 IN ids) > 0)
               AND ($4::bigint IS NULL OR (first > $4 - ${maxEvents} AND first <= $4 AND first + count > $4))
               AND ($5::bigint IS NULL OR received_to >= $5) AND ($6::bigint IS NULL OR received_from < $6)
               AND ($8::bytea IS NULL OR position($8 IN ids) > 0
                 OR substring(ids FROM count * ${idWidth} + 1 FOR ${idWidth}) <> $9::bytea)
             ORDER BY received_to ${order}, first ${order} LIMIT ${atOnce}
           ) AS next WINDOW looked AS (ORDER BY received_to ${order}, first ${order})
         ) AS counted WHERE before < $7 AND bytes_before < ${maxBytes} ORDER BY received_to ${order}, first ${order}`,
        [
          at.receivedTo,
          at.first,
          query.id === undefined ? null : idOf(query.id),
          query.sequence ?? null,
          query.since ?? null,
          query.until ?? null,
          size,
          query.object === undefined ? null : objectOf(query.object),
          query.object === undefined ? null : pointersOf(this.#searchIds),
          query.mentioned === undefined ? null : textsOf(query.mentioned).map((text) => Buffer.from(text)),
        ],
      ),
    )
    const direction = isForward ? 1 : -1
    // The row of `at` was passed before.
    const isNew = ({ first, received_to }: LogRow) => first !== at.first || received_to !== at.receivedTo
    const passed = rows.reduce((sum, row) => (row.bytes === null && isNew(row) ? sum + row.count : sum), 0)
    const candidates = rows
      .flatMap((row) =>
        storedIn(row).map(({ entry, origin }): Candidate => {
          const place = entry.sequence - row.first + 1
          return { entry, origin, at: { receivedTo: row.received_to, first: row.first, place } }
        }),
      )
      .filter(
        (one) => (query.duplicates === true || one.entry.duplicate !== true) && compare(one.at, at) * direction > 0,
      )
      .sort((a, b) => compare(a.at, b.at) * direction)
    const last = rows.at(-1)
    if (last === undefined || (rows.length === last.found && last.found < atOnce))
      return { candidates, passed, next: undefined }
    const { received_to, first, count } = last
    return { candidates, passed, next: { receivedTo: received_to, first, place: isForward ? count : 1 } }
  })

  /** Reads retries and dead letters: those that are no longer in the log, or all with the query's outcome. */
  #kept = Effect.fnUntraced(function* (this: EventFinder, query: EventQuery, at: At, isForward: boolean) {
    const [compared, order] = isForward ? [">", "ASC"] : ["<", "DESC"]
    const only = onlyIn(query)
    const tables = only ?? ["dead", "retry"]
    const each = tables.map(
      (table) =>
        `(SELECT DISTINCT ON (sequence) sequence, record FROM ${table}
          WHERE sequence ${compared} $1::bigint AND ($2::bigint IS NULL OR sequence = $2)
            AND ($3::boolean OR NOT EXISTS (
              SELECT FROM log WHERE first > ${table}.sequence - ${maxEvents} AND first <= ${table}.sequence
                AND first + count > ${table}.sequence))
          ORDER BY sequence ${order} LIMIT ${atOnce})`,
    )
    const { rows } = yield* refusing(
      this.#db.query<{ sequence: number; record: Uint8Array }>(
        `SELECT DISTINCT ON (sequence) sequence, record FROM (${each.join(" UNION ALL ")}) AS kept
         ORDER BY sequence ${order} LIMIT ${atOnce}`,
        [at.first, query.sequence ?? null, only !== undefined],
      ),
    )
    const placeOf = (sequence: number): At => ({ receivedTo: -1, first: sequence, place: 0 })
    const candidates = rows.flatMap(({ sequence, record }): ReadonlyArray<Candidate> => {
      const stored = decodeStored(record, sequence)
      return stored === undefined ? [] : [{ ...stored, at: placeOf(sequence) }]
    })
    const last = rows.at(-1)
    return { candidates, next: rows.length < atOnce || last === undefined ? undefined : placeOf(last.sequence) }
  })

  /** Returns the state of events at their sinks, and in lanes to which they were moved. */
  #deliveries = Effect.fnUntraced(function* (this: EventFinder, found: ReadonlyArray<Candidate>) {
    const states = new Map<number, LaneStates>()
    if (found.length === 0) return states
    const sequences = found.map(({ entry }) => entry.sequence)
    const { rows } = yield* refusing(
      this.#db.query<{
        retries: ReadonlyArray<{ lane: string; sequence: number; due: number; attempts: string }> | null
        letters: ReadonlyArray<{ lane: string; sequence: number; at: number; attempts: string }> | null
        places: Readonly<Record<string, StoredLanes>> | null
        delivered: ReadonlyArray<{ bucket: number; lane: string; bytes: string }> | null
        ended: ReadonlyArray<EndedRow> | null
      }>(
        `SELECT
          (SELECT json_agg(json_build_object('lane', lane, 'sequence', sequence, 'due', due, 'attempts', attempts) ORDER BY lane)
           FROM retry WHERE sequence = ANY($1::bigint[])) AS retries,
          (SELECT json_agg(json_build_object('lane', lane, 'sequence', sequence, 'at', at, 'attempts', attempts) ORDER BY lane)
           FROM dead WHERE sequence = ANY($1::bigint[])) AS letters,
          (SELECT json_object_agg(stream, json_build_object('lanes', ${allPlaces}, 'names', names, 'past', past))
           FROM progress WHERE stream = ANY($2::int[])) AS places,
          (SELECT json_agg(json_build_object('bucket', bucket, 'lane', lane, 'bytes', encode(bytes, 'base64')))
           FROM outcome WHERE bucket = ANY($3::bigint[])) AS delivered,
          (SELECT json_agg(found ORDER BY found.id) FROM (
             SELECT * FROM ended WHERE sequence = ANY($1::bigint[]) AND last IS NULL
             UNION SELECT * FROM ended WHERE copy = ANY($1::bigint[])
             UNION SELECT * FROM ended WHERE last >= $4::bigint AND sequence <= $5::bigint
           ) AS found) AS ended`,
        [
          sequences,
          [...new Set(sequences.map(streamOf))],
          [...new Set(sequences.map(bucketOf))],
          Math.min(...sequences),
          Math.max(...sequences),
        ],
      ),
    )
    const { retries, letters, places, delivered, ended } = rows[0] ?? {}
    const all = (ended ?? []).map(endedOf)
    const held = new Map<number, Map<string, DeliveryStatus>>()
    const hold = (sequence: number, status: DeliveryStatus) => {
      const own = held.get(sequence) ?? new Map<string, DeliveryStatus>()
      held.set(sequence, own.set(status.sink, status))
    }
    for (const { lane, sequence, due, attempts } of retries ?? []) {
      hold(sequence, heldStatus(lane, { due }, JSON.parse(attempts)))
    }
    for (const { lane, sequence, at, attempts } of letters ?? []) {
      hold(sequence, heldStatus(lane, { at }, JSON.parse(attempts)))
    }
    for (const { entry } of found) {
      const { sequence, sinks } = entry
      const names = LaneNames.of(places?.[streamOf(sequence)] ?? nothingStored)
      const rows = (delivered ?? []).filter(({ bucket }) => bucket === bucketOf(sequence))
      const facts: LaneFacts = {
        held: held.get(sequence) ?? new Map(),
        ended: all,
        cursorOf: (lane) => names.places.get(lane),
        deliveryOf: (isName) =>
          rows
            .filter(({ lane }) => isName(lane))
            .flatMap(({ bytes }) => findDelivery(Buffer.from(bytes, "base64"), sequence) ?? [])
            .sort((a, b) => a.at - b.at)
            .at(-1),
        laneOf: (name) => names.laneOf(name, sequence),
        nameOf: (name) => names.nameOf(name, sequence),
      }
      states.set(sequence, laneStates(sequence, sinks, facts))
    }
    return states
  })
}
