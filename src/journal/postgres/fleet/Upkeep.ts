/** Maintains a relay's own streams while it runs: deletes old rows, and counts dead letters. */
import { Clock, Duration, Effect } from "effect"
import { rounds } from "../../../event/Rounds.ts"
import { isSurplus, type Room } from "../../archive/Room.ts"
import { floorOf } from "../../Sequences.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import type { Database } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"
import type { OwnedStream } from "../lanes/OwnedStream.ts"
import { loadPlaces } from "../lanes/StreamLoading.ts"
import { isOwned } from "../lanes/StreamState.ts"
import { forgetOutcomes, pruneOutcomes } from "../tables/OutcomeTables.ts"
import type { FleetReport } from "./FleetReport.ts"
import type { Member } from "./Member.ts"

/** Rows deleted at a time. */
const rowsAtOnce = 256

interface OldRow {
  readonly first: number
  readonly count: number
  readonly received_to: number
  readonly void: number
  readonly bytes: number
}

/**
 * Deletes rows older than `before`. Also deletes younger rows, oldest first, until `tooMany` bytes are gone.
 * Returns true if there may be more to delete.
 */
const pruneRows = Effect.fnUntraced(function* (
  stream: OwnedStream,
  before: number,
  tooMany: number,
): Effect.fn.Return<boolean, DatabaseError> {
  const { db } = stream.owner
  // The newest rows are kept: they show the end of the stream, and that no row was lost.
  const { rows } = yield* db.query<OldRow>(
    `SELECT first, count, received_to, cardinality(void) AS void, octet_length(bytes) + octet_length(keys) AS bytes FROM log
     WHERE first >= $1 AND first < $2 ORDER BY first LIMIT ${rowsAtOnce}`,
    [stream.prunedTo, stream.known.unconfirmed[0]?.first ?? 0],
  )
  let excess = tooMany
  const old: Array<OldRow> = []
  let isYoung = false
  for (const row of rows) {
    isYoung = !isSurplus(row.received_to, before, excess > 0)
    if (isYoung) break
    if (stream.backlogs.isPending(row.first, row.first + row.count - 1)) continue
    old.push(row)
    excess -= row.bytes
  }
  if (old.length > 0) {
    const firsts = old.map(({ first }) => first)
    yield* db.query(
      `WITH gone AS (
         DELETE FROM log WHERE first = ANY($3::bigint[]) AND EXISTS (SELECT FROM stream WHERE ${isOwned})
         RETURNING first, count, timeline, cardinality(void) AS void
       ), ${pruneOutcomes}
       INSERT INTO pruned AS p SELECT $1, timeline, max(first + count - 1), sum(void) FROM gone GROUP BY timeline
       ON CONFLICT (stream, timeline) DO UPDATE
       SET last = greatest(p.last, excluded.last), void = p.void + excluded.void`,
      [stream.id, stream.claim, firsts],
    )
    stream.kept -= old.reduce((sum, row) => sum + row.count - row.void, 0)
    stream.bytes -= old.reduce((sum, { bytes }) => sum + bytes, 0)
  }
  // A row that a lane waits for is checked again after all others. The search continues from here, and after
  // the newest row it starts over.
  const last = isYoung ? undefined : rows.at(-1)
  stream.prunedTo = rows.length === rowsAtOnce && last !== undefined ? last.first + 1 : floorOf(stream.id)
  return old.length > 0
})

/** Forgets deliveries that arrived more than `age` milliseconds ago, and about as many as exceed `count`. */
export const forgetDuplicates = Effect.fnUntraced(function* (
  db: Database,
  { age, count }: { readonly age: number; readonly count: number },
): Effect.fn.Return<void, DatabaseError> {
  const { rows } = yield* db.query<{ known: number; oldest: number | null; now: number }>(
    `SELECT (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'seen'::regclass) AS known,
       (SELECT min(at) FROM seen) AS oldest, (extract(epoch FROM now()) * 1000)::bigint AS now`,
  )
  const [{ known, oldest, now } = { known: 0, oldest: null, now: 0 }] = rows
  if (oldest === null) return
  // This assumes that they arrived evenly.
  const surplus = known <= count ? oldest : oldest + Math.floor((now - oldest) * (1 - count / known))
  const until = Math.max(now - age, surplus)
  for (let more = true; more; ) {
    const { count: forgotten } = yield* db.query(
      "DELETE FROM seen WHERE ctid = ANY(ARRAY(SELECT ctid FROM seen WHERE at < $1 LIMIT 5000))",
      [until],
    )
    more = forgotten === 5_000
  }
})

/** How often old rows are deleted, and old duplicates forgotten. */
const pruneEvery = Duration.seconds(1)
const forgetEvery = Duration.seconds(60)
/** Outcomes of events that were kept beyond the log are deleted in the first round, and then once an hour. */
const roundsAnHour = 60

/** The limits of the journal. */
export interface UpkeepOptions {
  readonly retention: Duration.Duration
  /** In bytes, for all relays together. */
  readonly maxSize: number
  readonly duplicates: { readonly age: Duration.Duration; readonly count: number }
}

/** Runs until the scope closes. It deletes nothing by age while the wall clock can't be trusted. */
export const run = Effect.fnUntraced(function* (
  db: Database,
  { fleet }: Member,
  report: FleetReport,
  { retention, duplicates }: UpkeepOptions,
  room: Room,
  wallClock: WallClock,
) {
  const tidy = Effect.gen(function* () {
    const before = expiredBefore(wallClock, yield* Clock.currentTimeMillis, Duration.toMillis(retention))
    for (const stream of fleet.streams) {
      if (stream.isLost) continue
      // Another relay may be emptying one of its lanes.
      if (stream.names.isMoving) yield* fleet.owner.exclusively(stream, loadPlaces(stream, db))
      while (yield* pruneRows(stream, before, room.excess(report.usedBytes()))) yield* Effect.sleep(20)
    }
  })
  let forgotten = 0
  const forget = Effect.gen(function* () {
    if (fleet.shared === undefined) return
    yield* forgetDuplicates(db, { age: Duration.toMillis(duplicates.age), count: duplicates.count })
    if (forgotten++ % roundsAnHour === 0) yield* forgetOutcomes(db)
  })
  yield* Effect.forkScoped(rounds("deleting old events", tidy, pruneEvery))
  yield* Effect.forkScoped(rounds("forgetting old deliveries", forget, forgetEvery))
})
