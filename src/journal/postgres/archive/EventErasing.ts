/**
 * Erases events, a few of one stream per transaction. No append and no settlement of
 * the stream overlaps with it. After a crash each event is whole or erased, and the
 * erasure can be started again.
 *
 * If a lane of another relay's stream gives up an event, that relay reads its stream
 * again, and so forgets the events that it had read (`LaneChange.ts`). If a replay
 * has read the event and not appended it yet, the count of erasures refuses the
 * append (`requireNoErasureSince`).
 *
 * **Guarantee.** If a replay and an erasure meet at one event, either the replay comes first and the erasure
 * finds its copy, or the replay is refused.
 */
import { Effect } from "effect"
import type { EpochMillis } from "../../../event/Quantities.ts"
import {
  chooseErased,
  elsewhere,
  erasedLetter,
  erasedNote,
  erasedRow,
  eraseEvents,
  resultOf,
} from "../../archive/Erasure.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import * as Sequences from "../../Sequences.ts"
import type { Removal } from "../../stream/BulkSlices.ts"
import { isPassed, settledAt } from "../../stream/Cursors.ts"
import { type Database, type Queries, unnested } from "../connection/Database.ts"
import { type DatabaseError, refusing } from "../connection/DatabaseError.ts"
import type { Member } from "../fleet/Member.ts"
import { change } from "../lanes/LaneChange.ts"
import { StreamState } from "../lanes/StreamState.ts"
import { LaneNames } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { columns, type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** The stored data of some events, by table. */
interface Kept {
  readonly rows: ReadonlyArray<StreamRow>
  readonly letters: ReadonlyArray<LaneTables.LetterRow>
  /** By sequence, the lanes that have not delivered the event yet. */
  readonly waiting: ReadonlyMap<number, ReadonlyArray<string>>
}

const keptOf = Effect.fnUntraced(function* (
  queries: Queries,
  stream: StreamState,
  names: LaneNames,
  sequences: ReadonlyArray<number>,
): Effect.fn.Return<Kept, DatabaseError> {
  const { rows } = yield* queries.query<StreamRow>(
    `SELECT ${columns} FROM log WHERE first IN (
       SELECT (SELECT max(first) FROM log WHERE first > $1 AND first <= asked) FROM unnest($2::bigint[]) AS asked)`,
    [Sequences.floorOf(stream.id), sequences],
  )
  const letters = yield* queries.query<LaneTables.LetterRow>(
    "SELECT lane, sequence, at, attempts, record FROM dead WHERE sequence = ANY($1::bigint[])",
    [sequences],
  )
  const retries = yield* queries.query<LaneTables.LaneRow>(
    "SELECT lane, sequence FROM retry WHERE sequence = ANY($1::bigint[])",
    [sequences],
  )
  const wanted = new Set(sequences)
  const pending = rows
    .flatMap((row) => storedOf(row, () => {}))
    .filter(({ entry }) => wanted.has(entry.sequence))
    .flatMap(({ entry: { sequence, sinks } }) =>
      names.lanesOf(sinks, sequence).flatMap((lane) => {
        const place = names.places.get(lane)
        return place === undefined || isPassed(place, sequence) ? [] : [{ lane, sequence }]
      }),
    )
  const waiting = Map.groupBy([...retries.rows, ...pending], ({ sequence }) => sequence)
  return {
    rows,
    letters: letters.rows,
    waiting: new Map([...waiting].map(([sequence, some]) => [sequence, some.map(({ lane }) => lane)])),
  }
})

/** Ends events at the lanes that wait for them. Returns the places of the lanes afterwards. */
const giveUp = Effect.fnUntraced(function* (
  queries: Queries,
  before: LaneNames,
  waiting: ReadonlyArray<LaneTables.LaneRow>,
  why: Removal,
): Effect.fn.Return<LaneNames, DatabaseError> {
  if (waiting.length === 0) return before
  const retries = yield* queries.query<LaneTables.LaneRow>(
    `${OutcomeTables.takenFrom("retry", "t.sequence = ANY($3::bigint[])", "'dropped'")}, lane`,
    [...OutcomeTables.removalParams(why), [...new Set(waiting.map(({ sequence }) => sequence))]],
  )
  const isRetry = new Set(retries.rows.map(({ lane, sequence }) => `${lane}:${sequence}`))
  yield* OutcomeTables.putEnded(
    queries,
    waiting
      .filter(({ lane, sequence }) => !isRetry.has(`${lane}:${sequence}`))
      .map((one) => ({ ...one, at: why.at, outcome: "dropped" as const, note: { by: why.by } })),
  )
  const places = new Map(before.places)
  for (const { lane, sequence } of waiting) {
    const place = places.get(lane)
    if (place !== undefined) places.set(lane, { ...place, ...settledAt(place, sequence) })
  }
  // This is a new object even if no place moves, so that the stream's owner reads the stream again.
  return new LaneNames(places, before.aliases, before.past)
})

/** Rewrites the rows that have bytes of the events. Returns the sequences that this call erased. */
const overwrite = Effect.fnUntraced(function* (
  queries: Queries,
  { rows, letters }: Kept,
  sequences: ReadonlySet<number>,
  at: EpochMillis,
): Effect.fn.Return<ReadonlySet<number>, DatabaseError> {
  const inRows = rows.flatMap((row) =>
    storedOf(row, () => {}).flatMap(({ entry: { sequence, event } }) =>
      sequences.has(sequence) && event.erased === undefined ? [{ sequence, row }] : [],
    ),
  )
  const changed = [...Map.groupBy(inRows, ({ row }) => row)].map(([row, some]) => {
    const places = new Set(some.map(({ sequence }) => sequence - row.first))
    return { first: row.first, bytes: Buffer.from(erasedRow(row.bytes, 0, row.count, places, at)) }
  })
  yield* queries.query(
    `UPDATE log SET bytes = new.bytes FROM unnest($1::bigint[], $2::bytea[]) AS new(first, bytes)
     WHERE log.first = new.first`,
    unnested(2, changed, ({ first, bytes }) => [first, bytes]),
  )
  const dead = letters.flatMap(({ lane, sequence, attempts, record }) => {
    if (!sequences.has(sequence)) return []
    const erased = erasedLetter(record, LaneTables.attemptsOf(attempts), sequence, at)
    return erased === undefined ? [] : [{ lane, sequence, ...erased }]
  })
  yield* queries.query(
    `UPDATE dead SET record = new.record, attempts = new.attempts, size = new.size
     FROM unnest($1::text[], $2::bigint[], $3::text[], $4::int[], $5::bytea[]) AS new(lane, sequence, attempts, size, record)
     WHERE dead.lane = new.lane AND dead.sequence = new.sequence`,
    unnested(5, dead, ({ lane, sequence, attempts, size, record }) => [
      ...[lane, sequence, attempts, size],
      Buffer.from(record),
    ]),
  )
  yield* forgetAnswers(queries, [...sequences])
  return new Set([...inRows, ...dead].map(({ sequence }) => sequence))
})

/**
 * Removes the answers from the outcomes of these events, and of the events that they
 * are copies of.
 */
const forgetAnswers = Effect.fnUntraced(function* (queries: Queries, sequences: ReadonlyArray<number>) {
  const { rows } = yield* queries.query<{ readonly id: number; readonly note: string }>(
    "SELECT id, note FROM ended WHERE sequence = ANY($1::bigint[]) OR copy = ANY($1::bigint[])",
    [sequences],
  )
  const notes = rows.flatMap(({ id, note }) => {
    const erased = erasedNote(JSON.parse(note))
    return erased === undefined ? [] : [{ id, note: JSON.stringify(erased) }]
  })
  yield* queries.query(
    "UPDATE ended SET note = new.note FROM unnest($1::bigint[], $2::text[]) AS new(id, note) WHERE ended.id = new.id",
    unnested(2, notes, ({ id, note }) => [id, note]),
  )
})

/** Erases some events of one stream in a transaction. */
const erasePart = (stream: StreamState, sequences: ReadonlyArray<number>, isGivingUp: boolean, why: Removal) =>
  change(stream, (before, _, queries) =>
    Effect.gen(function* () {
      yield* countErasure(queries)
      const kept = yield* keptOf(queries, stream, before, sequences)
      const choice = chooseErased(sequences, (sequence) => kept.waiting.get(sequence) ?? [], isGivingUp)
      const lanes = yield* giveUp(queries, before, choice.givenUp, why)
      const found = yield* overwrite(queries, kept, new Set(choice.wanted), why.at)
      return {
        lanes,
        value: resultOf(choice, found),
        inMemory: (stream) => {
          stream.forgetEntries()
          stream.recount()
          if (lanes === before) return
          for (const { lane, sequence } of choice.givenUp) stream.backlogs.get(lane)?.endRetry(sequence)
          for (const [lane, { pausedFor: _, ...cursor }] of lanes.places) stream.backlogs.get(lane)?.settle(cursor)
        },
      }
    }),
  )

/** Returns the stream of an id. It isn't read if another relay owns it, because an erasure doesn't need its content. */
const streamOf = ({ fleet }: Member, id: number): StreamState =>
  fleet.streams.find((stream) => stream.id === id && !stream.isLost) ?? new StreamState(fleet.owner, id, 0, true)

/** Takes eleven round trips for each 64 events of a stream, and two more if lanes give some up. */
export const erase = (member: Member, sequences: ReadonlyArray<number>, isGivingUp: boolean) =>
  eraseEvents(sequences, (part, why) =>
    Effect.retry(
      Effect.suspend(() => erasePart(streamOf(member, Sequences.streamOf(part[0] ?? 0)), part, isGivingUp, why)),
      // Another relay may have claimed the stream meanwhile.
      { times: 2, while: ({ reason }) => reason._tag === "JournalFenced" },
    ),
  )

/** The tables that contain bodies or receivers' answers. */
const tables = ["log", "dead", "retry", "ended"]

/** Fills every segment of the write-ahead log that is kept for later use. */
const fillSegments =
  "SELECT pg_logical_emit_message(false, 'relay', 'erased'), pg_switch_wal() FROM generate_series(1, (SELECT count(*)::int FROM pg_ls_waldir()))"

/**
 * The statements that overwrite the remaining copies in the server's files. The
 * first round turns a segment in use into one that is kept for later.
 */
export const statements = (schema: string) => ({
  asOwner: [`VACUUM (FULL, ANALYZE) ${tables.map((table) => `${schema}.${table}`).join(", ")}`],
  asSuperuser: ["VACUUM FULL pg_statistic", "CHECKPOINT", fillSegments, "CHECKPOINT", fillSegments, "CHECKPOINT"],
})

/**
 * Has PostgreSQL overwrite the bytes of erased events, and names the remaining copies.
 *
 * A row that changes leaves its former version, until `VACUUM`. The version's bytes stay in the free space of the
 * page until new rows fill it: only `VACUUM FULL` rewrites the tables. `ANALYZE` keeps samples of columns in
 * `pg_statistic`. The write-ahead log has all rows that were stored. Segments that are kept for later use still
 * have their former bytes.
 *
 * Drops former versions of rows if the relay's role may. Returns where copies may be, each with the statements
 * against it.
 */
export const scrub = Effect.fnUntraced(function* (db: Database): Effect.fn.Return<ReadonlyArray<string>, JournalError> {
  yield* refusing(OutcomeTables.forgetOutcomes(db))
  const { rows } = yield* refusing(
    db.query<{ readonly may: boolean; readonly schema: string }>(
      `SELECT bool_and(pg_has_role(relowner, 'USAGE')) AS may, quote_ident(current_schema()) AS schema
       FROM pg_class WHERE oid = ANY($1::regclass[])`,
      [`{${tables.join(",")}}`],
    ),
  )
  const [{ may, schema } = { may: false, schema: "relay" }] = rows
  // `VACUUM` can't run in a transaction. Each table has its own statement, and so its own timeout.
  if (may) {
    yield* Effect.forEach(tables, (table) => refusing(db.query(`VACUUM (ANALYZE) ${table}`)), { discard: true })
  }
  const { asOwner, asSuperuser } = statements(schema)
  return [
    `${may ? "free space of the tables' pages, until new rows fill it" : "former versions of rows, which the relay's role may not vacuum"}: \`${asOwner.join("; ")}\` as their owner, which locks each table while it is rewritten`,
    `samples in the server's statistics, and its write-ahead log: then \`${asSuperuser.join("; ")}\` as a superuser`,
    "the archive of the write-ahead log, standbys until they have followed, and snapshots",
    ...elsewhere,
  ]
})

// The count of erasures, which prevents data that was read before an erasure from being stored after it.

/** The count before the first erasure. */
const noErasure = "0"

/** Increments the count, within an erasure's transaction. */
const countErasure = (queries: Queries) =>
  queries.query(
    `INSERT INTO meta VALUES ('erasures', '1')
     ON CONFLICT (key) DO UPDATE SET value = (meta.value::bigint + 1)::text`,
  )

/** Returns the count before something is read. */
export const erasuresOf = (queries: Queries): Effect.Effect<string, DatabaseError> =>
  Effect.map(
    queries.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = 'erasures'"),
    ({ rows }) => rows[0]?.value ?? noErasure,
  )

/** Fails if events were erased since. Until the transaction ends, no erasure and no other replay passes this point. */
export const requireNoErasureSince = Effect.fnUntraced(function* (
  queries: Queries,
  before: string,
): Effect.fn.Return<void, DatabaseError | JournalError> {
  // Changes nothing, but locks the row. If nothing was erased yet, it creates the row.
  const { rows } = yield* queries.query<{ readonly value: string }>(
    `INSERT INTO meta VALUES ('erasures', $1) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value`,
    [noErasure],
  )
  if (rows[0]?.value !== before) return yield* unavailable("Events were erased meanwhile. Look again, and repeat it.")
})
