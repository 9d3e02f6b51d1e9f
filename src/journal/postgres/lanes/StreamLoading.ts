/** Reads a stream's state from the database into memory. */
import { Effect } from "effect"
import type { JournalError } from "../../JournalError.ts"
import { returnedDelay } from "../../LaneInfo.ts"
import { ceilingOf, floorOf, rangeOf } from "../../Sequences.ts"
import type { Cursor } from "../../Settlement.ts"
import { Backlog } from "../../stream/Backlog.ts"
import { keyAt } from "../../stream/DuplicateKey.ts"
import type { Queries } from "../connection/Database.ts"
import { type DatabaseError, refusing } from "../connection/DatabaseError.ts"
import { type KnownRow, knownColumns } from "../tables/KnownRows.ts"
import { allPlaces, LaneNames, nothingStored, type StoredLanes } from "../tables/LaneNames.ts"
import { holding, storedOf } from "../tables/StreamRows.ts"
import { partBytes, type StreamState } from "./StreamState.ts"

/** Rows of keys read at a time. */
const rowsAtOnce = 256

/**
 * Loads a stream, all of it from one server. It takes seven round trips, and one more for each 256 commits that
 * some lane has not settled. It fails if the stream is lost.
 */
export const load = (stream: StreamState): Effect.Effect<void, JournalError> =>
  stream
    .transact((queries) => loadAll(stream, queries))
    .pipe(Effect.andThen(refusing(passIdle(stream))), Effect.andThen(stream.letters.newest), Effect.asVoid)

/** Moves the cursors of idle lanes to the end. It takes a round trip for each megabyte of events above them. */
const passIdle = Effect.fnUntraced(function* (stream: StreamState): Effect.fn.Return<void, DatabaseError> {
  const { backlogs, end, names } = stream
  stream.readFrom = end
  // Another relay's stream is only looked at.
  const idle = stream.isVisited ? undefined : backlogs.probablyIdle(end)
  if (idle === undefined) return
  for (let { after } = idle; after < end; ) {
    const rows = yield* stream.rows(after, partBytes)
    for (const { entry } of rows.flatMap((row) => storedOf(row, stream.owner.damaged))) {
      for (const lane of names.lanesOf(entry.sinks, entry.sequence)) idle.lanes.delete(lane)
    }
    const last = rows.at(-1)
    if (last === undefined) break
    after = last.first + last.count - 1
  }
  for (const backlog of idle.lanes.values()) backlog.settle({ sequence: end, settled: [] })
})

const loadAll = Effect.fnUntraced(function* (stream: StreamState, queries: Queries) {
  const range = rangeOf(stream.id)
  const { rows: heads } = yield* queries.query<{ head: number | null; kept: number; void: number; bytes: number }>(
    `SELECT max(first + count - 1) AS head, coalesce(sum(count - cardinality(void)), 0)::bigint AS kept,
       coalesce(sum(cardinality(void)), 0)::bigint
         + coalesce((SELECT sum(void) FROM pruned WHERE stream = $3), 0)::bigint AS void,
       coalesce(sum(octet_length(bytes) + octet_length(keys)), 0)::bigint AS bytes
     FROM log WHERE first > $1 AND first < $2`,
    [...range, stream.id],
  )
  stream.end = heads[0]?.head ?? floorOf(stream.id)
  stream.kept = heads[0]?.kept ?? 0
  stream.void = heads[0]?.void ?? 0
  stream.bytes = heads[0]?.bytes ?? 0
  const { rows: newest } = yield* queries.query<KnownRow>(
    `SELECT ${knownColumns} FROM log WHERE first > $1 AND first < $2 ORDER BY first DESC LIMIT 1`,
    range,
  )
  for (const row of newest) stream.known.push(row)
  yield* loadPlaces(stream, queries)
  const { rows: retries } = yield* queries.query<{ lane: string; sequence: number }>(
    `SELECT lane, sequence FROM retry WHERE sequence > $1 AND sequence < $2 AND delay <> ${returnedDelay}`,
    range,
  )
  for (const { lane, sequence } of retries) stream.backlogs.get(lane)?.retries(sequence)
  let after = Math.min(...[...stream.backlogs.values()].map(({ cursor }) => cursor.sequence), stream.end)
  for (let more = after < stream.end; more; ) {
    const rows = yield* keysAbove(stream, queries, after)
    for (const row of rows) {
      addRow(stream, row)
      after = row.first + row.count - 1
    }
    more = rows.length === rowsAtOnce
  }
  for (const backlog of stream.backlogs.values()) backlog.recount()
})

/**
 * Reads the names of a stream's lanes, and their cursors. Running lanes keep their cursors in memory, which are
 * ahead. It takes one round trip.
 */
export const loadPlaces = Effect.fnUntraced(function* (stream: StreamState, queries: Queries) {
  const { backlogs, open } = stream
  const before = [...backlogs.keys()]
  const { rows } = yield* queries.query<StoredLanes & { readonly alerting: ReadonlyArray<string> }>(
    `SELECT ${allPlaces} AS lanes, names, past, ARRAY(SELECT DISTINCT lane FROM alert WHERE stream = $1) AS alerting
     FROM progress WHERE stream = $1`,
    [stream.id],
  )
  stream.names = LaneNames.of(rows[0] ?? nothingStored)
  for (const lane of rows[0]?.alerting ?? []) stream.alerting.add(lane)
  for (const [lane, { pausedFor, ...place }] of stream.names.places) {
    if (open.has(lane)) continue
    const cursor = within(place, stream.end)
    const backlog = backlogs.begun(lane, cursor)
    backlog.pausedFor = pausedFor
    if (backlog.cursor.sequence !== cursor.sequence) backlog.settle(cursor)
  }
  // Another relay has emptied these lanes.
  for (const lane of before) if (!open.has(lane) && !stream.names.places.has(lane)) backlogs.delete(lane)
})

/** Limits a cursor to the end of the log: events that a server has lost count as not settled. */
const within = ({ sequence, settled }: Cursor, end: number): Cursor => ({
  sequence: Math.min(sequence, end),
  settled: settled.filter(([from]) => from <= end).map(([from, to]) => [from, Math.min(to, end)]),
})

interface KeysRow {
  readonly first: number
  readonly count: number
  readonly routes: string
  readonly keys: Uint8Array
  readonly void: ReadonlyArray<number>
}

const keysAbove = (stream: StreamState, queries: Queries, after: number) =>
  Effect.map(
    queries.query<KeysRow>(
      `SELECT first, count, routes, keys, void FROM log WHERE ${holding} ORDER BY first LIMIT ${rowsAtOnce}`,
      [floorOf(stream.id), after + 1, ceilingOf(stream.id)],
    ),
    ({ rows }) => rows,
  )

/** Calls `use` with each event of a row and the lanes that it is routed to. */
const eachOf = (
  { first, count, routes, keys, void: voids }: KeysRow,
  names: LaneNames,
  use: (sequence: number, lanes: ReadonlyArray<string>) => void,
): void => {
  const lists = JSON.parse(routes) as ReadonlyArray<ReadonlyArray<string>>
  const view = Buffer.from(keys.buffer, keys.byteOffset, keys.byteLength)
  for (let place = 0; place < count; place++) {
    const key = voids.includes(place) ? undefined : keyAt(view, place)
    if (key !== undefined) use(first + place, names.lanesOf(lists[key.route] ?? [], first + place))
  }
}

const addRow = ({ names, backlogs }: StreamState, row: KeysRow): void =>
  eachOf(row, names, (sequence, lanes) => {
    for (const lane of lanes) backlogs.get(lane)?.routed(sequence)
  })

/**
 * Counts the events in the log, up to its head, that a lane has not settled, as the transaction sees them. Memory may
 * lag behind: other relays append to the shared stream, and the owner of a visited stream settles. It takes a round
 * trip for each 256 commits that memory doesn't have.
 */
export const pendingIn = Effect.fnUntraced(function* (
  stream: StreamState,
  queries: Queries,
  names: LaneNames,
  lane: string,
  head: number,
): Effect.fn.Return<number, DatabaseError> {
  const place = names.places.get(lane)
  if (place === undefined) return 0
  const known = stream.backlogs.get(lane)
  const pending = known?.renamed(lane) ?? new Backlog(lane, place)
  pending.endRetries()
  for (let after = known === undefined ? place.sequence : stream.end; after < head; ) {
    const rows = yield* keysAbove(stream, queries, after)
    for (const row of rows) {
      eachOf(row, names, (sequence, lanes) => {
        if (lanes.includes(lane)) pending.routed(sequence)
      })
    }
    const last = rows.at(-1)
    after = last === undefined ? head : last.first + last.count - 1
  }
  // A running lane's cursor in memory is ahead.
  if (place.sequence >= pending.cursor.sequence) pending.settle(within(place, head))
  return pending.size
})
