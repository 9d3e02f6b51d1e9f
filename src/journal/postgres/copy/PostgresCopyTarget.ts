/**
 * Stores a copy in the database, as a stream of its own.
 *
 * **Guarantee.** Relays may run meanwhile, because they can take a stream only once all of it is stored. A
 * complete copy isn't made twice.
 */
import { Clock, Duration, Effect } from "effect"
import {
  type CopiedRows,
  type CopySource,
  type CopyTarget,
  markOf,
  type Put,
  type StoredLane,
} from "../../JournalCopy.ts"
import { ceilingOf, floorOf, maxStreams, rangeOf } from "../../Sequences.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { Origin, type Stored } from "../../stream/Record.ts"
import { SearchIds } from "../../stream/SearchIds.ts"
import { Group } from "../append/Appends.ts"
import { keysOf, rowOf } from "../append/Commits.ts"
import { type Database, type Queries, unnested } from "../connection/Database.ts"
import * as PooledDatabase from "../connection/PooledDatabase.ts"
import type { PostgresConfig } from "../connection/PostgresConfig.ts"
import * as AuditTable from "../tables/AuditTable.ts"
import { migrate } from "../tables/DatabaseSchema.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { addDelivered, deliveredRows, putEnded } from "../tables/OutcomeTables.ts"
import { failing } from "./PostgresCopySource.ts"

/** The database's note of a copy, under the identity of its source. */
interface Copy {
  readonly stream: number
  readonly isDone: boolean
  /** The mark of the source when the copy began. */
  readonly mark: string
}

const metaKey = (identity: string): string => `copy:${identity}`

const note = (queries: Queries, identity: string, copy: Copy) =>
  queries.query("INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [
    metaKey(identity),
    JSON.stringify(copy),
  ])

/** Reserves a stream for the copy. It takes the highest free number, because relays take the lowest. */
const reserve = (database: Database, identity: string, mark: string) =>
  database.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query("LOCK TABLE meta IN SHARE ROW EXCLUSIVE MODE")
      const before = yield* queries.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = $1", [
        metaKey(identity),
      ])
      if (before.rows[0] !== undefined) return JSON.parse(before.rows[0].value) as Copy
      const { rows } = yield* queries.query<{ readonly id: number }>(
        `SELECT max(id) AS id FROM generate_series(2, ${maxStreams - 1}) AS free(id)
         WHERE NOT EXISTS (SELECT FROM stream WHERE stream.id = free.id)
         AND NOT EXISTS (SELECT FROM meta WHERE key LIKE 'copy:%' AND (value::jsonb ->> 'stream')::int = free.id)`,
      )
      const copy: Copy = { stream: rows[0]?.id ?? 0, isDone: false, mark }
      yield* note(queries, identity, copy)
      return copy
    }),
  )

/** Removes everything that an earlier try has stored. */
const clear = (database: Database, identity: string, copy: Copy) => {
  const range = rangeOf(copy.stream)
  return database.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query("DELETE FROM log WHERE first > $1 AND first < $2", range)
      yield* queries.query("DELETE FROM seen WHERE sequence > $1 AND sequence < $2", range)
      yield* queries.query("DELETE FROM outcome WHERE bucket >= $1 AND bucket < $2", range.map(bucketOf))
      yield* note(queries, identity, copy)
    }),
  )
}

/** Events received before `remembered` don't count as duplicates. */
const putEvents = (queries: Queries, events: ReadonlyArray<Stored>, remembered: number, searchIds: SearchIds) =>
  Effect.gen(function* () {
    for (let left = events; left.length > 0; ) {
      const group = new Group()
      const [first] = left
      for (const { entry, origin } of left) {
        const { event, sinks } = entry
        group.add(event, sinks, origin, keyOf(event))
        if (origin === Origin.delivered && event.receivedAt <= remembered) {
          for (const list of Object.values(group.keys)) list.pop()
        }
        if (group.batch.isFull) break
      }
      left = left.slice(group.batch.entries.length)
      yield* putGroup(queries, first?.entry.sequence ?? 0, group, searchIds)
    }
  })

const putGroup = (queries: Queries, first: number, group: Group, searchIds: SearchIds) =>
  Effect.andThen(
    queries.query(
      `INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, bytes, void, altered)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '{}', '{}')`,
      [first, ...rowOf(group, searchIds)],
    ),
    queries.query(
      `INSERT INTO seen (lo, hi, crc, at, sequence)
       SELECT lo, hi, crc, $5::bigint, $6::bigint + place
       FROM unnest($1::int[], $2::int[], $3::int[], $4::int[]) AS key(lo, hi, crc, place) ORDER BY lo, hi, crc
       ON CONFLICT DO NOTHING`,
      [...keysOf(group), group.batch.receivedTo, first],
    ),
  )

const putDelivered = (queries: Queries, delivered: CopiedRows["delivered"]) =>
  queries.query(`WITH ${addDelivered("$1::bigint[], $2::text[], $3::bytea[]")} SELECT`, deliveredRows(delivered))

const putLanes = Effect.fnUntraced(function* (queries: Queries, stream: number, lanes: ReadonlyArray<StoredLane>) {
  const paused = lanes.filter(({ paused, mute }) => paused !== false || mute !== undefined)
  yield* queries.query(
    `INSERT INTO sink (name, paused, until, mute)
     SELECT name, paused, until, mute::jsonb
     FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::text[]) AS copied(name, paused, until, mute)
     ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, until = excluded.until, mute = excluded.mute`,
    unnested(4, paused, ({ name, paused, mute }) => [
      ...[name, paused !== false, typeof paused === "number" ? paused : null],
      mute === undefined ? null : JSON.stringify(mute),
    ]),
  )
  const places = lanes.map(({ name, cursor, pausedFor }) => [name, { ...cursor, pausedFor }])
  yield* queries.query("INSERT INTO progress (stream, lanes) VALUES ($1, $2)", [
    stream,
    JSON.stringify(Object.fromEntries(places)),
  ])
})

/** Opens the database of a config, with the newest schema, and reserves a stream for the copy. */
export const target = (config: PostgresConfig, source: CopySource) =>
  Effect.gen(function* () {
    const { identity } = source
    const mark = markOf(source)
    const database = yield* PooledDatabase.ofConfig(config)
    yield* migrate(database, config.schema)
    const { stream, isDone, ...begun } = yield* reserve(database, identity, mark)
    if (!isDone && begun.mark !== mark) yield* clear(database, identity, { stream, isDone, mark })
    const floor = floorOf(stream)
    const { rows } = yield* database.query<{ readonly known: number }>(
      "SELECT coalesce(sum(count), 0)::bigint AS known FROM log WHERE first > $1 AND first < $2",
      [floor, ceilingOf(stream)],
    )
    const remembered = (yield* Clock.currentTimeMillis) - Duration.toMillis(config.duplicates.age)
    const searchIds = new SearchIds(config.searchIds)
    const putInto =
      (queries: Queries): Put =>
      ({ events = [], delivered = [], retries = [], letters = [], ended = [], imported = [], audit = [], lanes }) =>
        failing(
          Effect.gen(function* () {
            yield* putEvents(queries, events, remembered, searchIds)
            if (delivered.length > 0) yield* putDelivered(queries, delivered)
            yield* LaneTables.putRetries(queries, retries)
            yield* LaneTables.putLetters(queries, letters)
            yield* putEnded(queries, ended)
            yield* LaneTables.noteImports(queries, imported)
            if (audit.length > 0) yield* AuditTable.put(queries, audit)
            if (lanes !== undefined) yield* putLanes(queries, stream, lanes)
          }),
        )
    return {
      first: floor + 1,
      known: rows[0]?.known ?? 0,
      isComplete: isDone,
      commit: (work) => failing(database.transact((queries) => work(putInto(queries)))),
      complete: (work) =>
        failing(
          database.transact((queries) =>
            Effect.tap(work(putInto(queries)), () =>
              Effect.andThen(
                queries.query("INSERT INTO stream (id) VALUES ($1)", [stream]),
                note(queries, identity, { stream, isDone: true, mark }),
              ),
            ),
          ),
        ),
    } satisfies CopyTarget
  }).pipe(failing)
