/**
 * Stores the settlements of lanes. Mostly these are only cursors, in one statement; with retries or dead
 * letters they are a transaction.
 *
 * **Guarantee.** If a settlement's answer was lost, it can be stored again together with later changes.
 * Whatever it stored the first time is found and kept.
 *
 * **Guarantee.** If the database refuses one lane's data, the settlements of the other lanes are stored.
 */
import { Effect } from "effect"
import type { Entry } from "../../../event/Event.ts"
import { isRefusedData, type JournalError } from "../../JournalError.ts"
import { type Cursor, cursorSettlement, type RefusedSettlement, type Settlement } from "../../Settlement.ts"
import { type LetterToPut, later, type RetryToPut, rowsOf, whyUnstorable } from "../../stream/Cursors.ts"
import type { Ended } from "../../stream/OutcomeRecord.ts"
import type { Queries } from "../connection/Database.ts"
import { type DatabaseError, refusing } from "../connection/DatabaseError.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { countAsBeat, hasNewestRow, isOwned, type StreamState } from "./StreamState.ts"

/** Settlements of idle lanes: their cursors move to the end of the log. */
export const passedBy = ({ backlogs, readFrom, end }: StreamState): ReadonlyArray<Settlement> =>
  backlogs
    .behind(readFrom, end)
    .map(({ lane, pausedFor }) => cursorSettlement(lane, { sequence: end, settled: [] }, pausedFor))

/** Adds the cursors of idle lanes. */
const withIdle = (stream: StreamState, settlements: ReadonlyArray<Settlement>): ReadonlyArray<Settlement> => {
  const settled = new Set(settlements.map(({ lane }) => lane))
  return [...settlements, ...passedBy(stream).filter(({ lane }) => !settled.has(lane))]
}

/**
 * It takes one round trip for cursors alone, and at most nine with retries or dead letters, whatever their
 * number. It takes more only if the database refuses a lane's data.
 */
export const settle = Effect.fnUntraced(function* (
  stream: StreamState,
  settlements: ReadonlyArray<Settlement>,
): Effect.fn.Return<ReadonlyArray<RefusedSettlement>, JournalError> {
  const refused: Array<RefusedSettlement> = []
  const known: Array<Settlement> = []
  const isWhole = stream.passing.isDue(stream.end, stream.owner.now())
  for (const settlement of isWhole ? withIdle(stream, settlements) : settlements) {
    const { lane } = settlement
    if (!stream.backlogs.has(lane)) continue
    const error = whyUnstorable(settlement)
    if (error === undefined) known.push(settlement)
    else refused.push({ lane, error })
  }
  return [...refused, ...(yield* storeOrSplit(stream, known, isWhole))]
})

/**
 * Stores settlements together. If the database refuses a lane's data, it halves the settlements until that lane is
 * alone. `isWhole`: it also moves the changed places to those of all lanes.
 */
const storeOrSplit = (
  stream: StreamState,
  settlements: ReadonlyArray<Settlement>,
  isWhole: boolean,
): Effect.Effect<ReadonlyArray<RefusedSettlement>, JournalError> => {
  const [first] = settlements
  if (first === undefined) return Effect.succeed([])
  return store(stream, settlements, isWhole).pipe(
    Effect.as([]),
    Effect.catchIf(isRefusedData, (error) => {
      if (settlements.length === 1) return Effect.succeed([{ lane: first.lane, error }])
      const half = settlements.length >> 1
      const halves = [settlements.slice(0, half), settlements.slice(half)]
      return Effect.map(
        Effect.forEach(halves, (some) => storeOrSplit(stream, some, isWhole)),
        (refused) => refused.flat(),
      )
    }),
  )
}

/** Stores the settlements of lanes in one transaction, then applies them in memory. */
const store = Effect.fnUntraced(function* (
  stream: StreamState,
  settlements: ReadonlyArray<Settlement>,
  isWhole: boolean,
): Effect.fn.Return<void, JournalError> {
  const cursors = new Map(
    settlements.map((one) => [one.lane, later(stream.backlogs.get(one.lane)?.cursor, one.cursor)]),
  )
  const isPlain = settlements.every(({ takeBack, retry, endRetry, deadLetter, late, dropped, counted, alerts }) =>
    [takeBack, retry, endRetry, deadLetter, late, dropped, counted, alerts].every((changes) => changes.length === 0),
  )
  const { lost, beat } = isPlain
    ? yield* storeCursors(stream, settlements, cursors, isWhole)
    : yield* stream.transact((queries) => storeAll(stream, queries, settlements, cursors, isWhole))
  stream.beatStored(beat)
  for (const { lane, takeBack, retry, endRetry, deadLetter, alerts, pausedFor } of settlements) {
    const backlog = stream.backlogs.get(lane)
    const cursor = cursors.get(lane)
    if (backlog === undefined || cursor === undefined) continue
    for (const { sequence } of [...takeBack, ...retry]) if (!lost.has(`${lane}:${sequence}`)) backlog.retries(sequence)
    for (const sequence of endRetry) backlog.endRetry(sequence)
    for (const { sequence } of deadLetter) backlog.endRetry(sequence)
    if (takeBack.length + deadLetter.length + backlog.returned > 0) stream.recount()
    if (alerts.length > 0) stream.alerting.add(lane)
    backlog.pausedFor = pausedFor
    backlog.settle(cursor)
  }
})

const placesOf = (settlements: ReadonlyArray<Settlement>, cursors: ReadonlyMap<string, Cursor>): string =>
  JSON.stringify(
    Object.fromEntries(settlements.map(({ lane, pausedFor }) => [lane, { ...cursors.get(lane), pausedFor }])),
  )

/**
 * SQL that sets the changed places of lanes, or the places of all lanes. For all lanes it takes time proportional to
 * their number.
 */
const setPlaces = (places: string, isWhole: boolean): string =>
  isWhole
    ? `lanes = lanes || among(lanes, changed || ${places}::jsonb), changed = '{}'`
    : `changed = changed || ${places}::jsonb`

interface Settled {
  /** The retries and dead letters that were not stored, as `lane:sequence`. */
  readonly lost: ReadonlySet<string>
  /** The heartbeat that the transaction counts as. */
  readonly beat?: number | undefined
}

const none: Settled = { lost: new Set() }
/** Milliseconds that a statement may take. A stopping relay waits for it. */
const timeout = 10_000

const storeCursors = Effect.fnUntraced(function* (
  stream: StreamState,
  settlements: ReadonlyArray<Settlement>,
  cursors: ReadonlyMap<string, Cursor>,
  isWhole: boolean,
): Effect.fn.Return<Settled, JournalError> {
  const { count } = yield* refusing(
    stream.owner.db.query(
      `WITH owned AS MATERIALIZED (SELECT id FROM stream WHERE ${isOwned} AND ${hasNewestRow(7)} FOR SHARE),
         ${OutcomeTables.addDelivered("$4::bigint[], $5::text[], $6::bytea[]", "owned, ")}
       UPDATE progress SET ${setPlaces("$3", isWhole)} FROM owned WHERE stream = owned.id`,
      [
        ...[stream.id, stream.claim, placesOf(settlements, cursors)],
        ...OutcomeTables.deliveredRows(settlements),
        ...stream.newestRow,
      ],
      { name: isWhole ? "settle all" : "settle", timeout },
    ),
  )
  if (count > 0) return none
  stream.lost()
  return yield* stream.fencedError
})

/**
 * A retry or dead letter is lost if its event can't be found. A dead letter to take back is lost if it no longer
 * exists.
 */
const storeAll = Effect.fnUntraced(function* (
  stream: StreamState,
  queries: Queries,
  settlements: ReadonlyArray<Settlement>,
  cursors: ReadonlyMap<string, Cursor>,
  isWhole: boolean,
): Effect.fn.Return<Settled, JournalError | DatabaseError> {
  const taken = settlements.flatMap(({ lane, takeBack }) => takeBack.map((wait) => ({ lane, ...wait })))
  yield* LaneTables.takeBack(queries, taken)
  const changes = settlements.flatMap(({ lane, retry, deadLetter }) =>
    [...retry, ...deadLetter].map(({ sequence }) => ({ lane, sequence })),
  )
  const late = settlements.flatMap(({ lane, late }) => late.map(({ sequence }) => ({ lane, sequence })))
  const kept = yield* LaneTables.keptRetries(queries, [...taken, ...changes, ...late])
  const isKept = (lane: string, sequence: number) => kept.get(`${lane}:${sequence}`)
  const unkept = changes.flatMap(({ lane, sequence }) => (isKept(lane, sequence) === undefined ? [sequence] : []))
  const found: ReadonlyMap<number, Entry> = yield* stream.find(queries, unkept)
  const unfound: Array<{ readonly lane: string; readonly sequence: number }> = []
  const puts: Array<RetryToPut> = []
  const letters: Array<LetterToPut> = []
  const ends: Array<{ readonly lane: string; readonly sequence: number }> = []
  const ended: Array<Ended> = []
  for (const settlement of settlements) {
    const { lane } = settlement
    const rows = rowsOf(
      settlement,
      (sequence) => isKept(lane, sequence),
      (sequence) => found.get(sequence),
    )
    puts.push(...rows.retries)
    letters.push(...rows.letters)
    ended.push(...rows.ended)
    for (const sequence of rows.ends) ends.push({ lane, sequence })
    for (const sequence of rows.lost) unfound.push({ lane, sequence })
  }
  const dead = yield* LaneTables.deadAmong(queries, unfound)
  // An operator has replayed or dropped the dead letter.
  const gone = taken.filter(({ lane, sequence }) => isKept(lane, sequence) === undefined)
  const lost = new Set(gone.map(({ lane, sequence }) => `${lane}:${sequence}`))
  for (const { lane, sequence } of unfound) {
    if (dead.has(`${lane}:${sequence}`)) continue
    lost.add(`${lane}:${sequence}`)
    stream.owner.damaged(sequence)
  }
  yield* LaneTables.putRetries(queries, puts)
  yield* LaneTables.endRetries(queries, ends)
  yield* LaneTables.putLetters(queries, letters)
  const alerts = settlements.flatMap(({ lane, alerts }) => alerts.map((change) => ({ lane, ...change })))
  yield* LaneTables.putAlerts(queries, stream.id, alerts)
  const { rows } = yield* queries.query<{ beat: number }>(
    `WITH ${OutcomeTables.addDelivered("$3::bigint[], $4::text[], $5::bytea[]")},
       late AS (
         INSERT INTO ended (${OutcomeTables.endedColumns})
         SELECT * FROM unnest(${OutcomeTables.endedTypes(6)}) AS new(${OutcomeTables.endedColumns}) WHERE NOT EXISTS (
           SELECT FROM ended WHERE (sequence, lane, at, outcome) = (new.sequence, new.lane, new.at, new.outcome))),
       moved AS (UPDATE progress SET ${setPlaces("$2", isWhole)} WHERE stream = $1),
       ${countAsBeat("$13", "$14")}
     SELECT beat FROM counted`,
    [
      stream.id,
      placesOf(settlements, cursors),
      ...OutcomeTables.deliveredRows(settlements),
      ...OutcomeTables.endedRows(ended),
      ...stream.beatParams,
    ],
  )
  return { lost, beat: rows[0]?.beat }
})
