/**
 * Stores a copy in the database. Each stream of the source becomes a stream of its own, with the same cursors
 * of its lanes, the same retries and the same dead letters.
 *
 * **Guarantee.** Relays may run meanwhile, because they can take a stream only once all of it is stored. An
 * interrupted copy continues, unless events of the source were erased since. A complete copy isn't made twice.
 *
 * **Gotcha.** An event gets a new sequence. So a replayed event that isn't delivered yet is sent with another
 * idempotency key than at the source.
 */
import { Clock, Duration, Effect } from "effect"
import {
  type CopiedImport,
  type CopiedOutcomes,
  type CopiedStream,
  type CopyCounts,
  type CopySource,
  type CopyTarget,
  each,
} from "../../JournalCopy.ts"
import { ceilingOf, floorOf, maxStreams, rangeOf } from "../../Sequences.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { Origin, type Stored } from "../../stream/Record.ts"
import { SearchIds } from "../../stream/SearchIds.ts"
import { keysOf, rowOf } from "../append/Commits.ts"
import { Group } from "../append/Group.ts"
import type { Database, Queries } from "../connection/Database.ts"
import * as PooledDatabase from "../connection/PooledDatabase.ts"
import type { PostgresConfig } from "../connection/PostgresConfig.ts"
import * as AuditTable from "../tables/AuditTable.ts"
import { migrate } from "../tables/DatabaseSchema.ts"
import type { Place } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { putEnded } from "../tables/OutcomeTables.ts"
import { unnested } from "../tables/Unnested.ts"
import { failing } from "./PostgresCopySource.ts"

/** The database's note of a copy, under the stream's name in the source. */
interface Copy {
  readonly stream: number
  readonly isDone: boolean
  /** The source's count of erasures when the copy began. */
  readonly erasures: string
}

const metaKey = (name: string): string => `copy:${name}`

const find = (queries: Queries, name: string) =>
  Effect.map(
    queries.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = $1", [metaKey(name)]),
    ({ rows }) => (rows[0] === undefined ? undefined : (JSON.parse(rows[0].value) as Copy)),
  )

const note = (queries: Queries, name: string, copy: Copy) =>
  queries.query("INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [
    metaKey(name),
    JSON.stringify(copy),
  ])

/** Reserves a stream for the copy. It takes the highest free number, because relays take the lowest. */
const reserve = (database: Database, name: string, erasures: string) =>
  database.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query("LOCK TABLE meta IN SHARE ROW EXCLUSIVE MODE")
      const before = yield* find(queries, name)
      if (before !== undefined) return before
      const { rows } = yield* queries.query<{ readonly id: number }>(
        `SELECT max(id) AS id FROM generate_series(2, ${maxStreams - 1}) AS free(id)
         WHERE NOT EXISTS (SELECT FROM stream WHERE stream.id = free.id)
         AND NOT EXISTS (SELECT FROM meta WHERE key LIKE 'copy:%' AND (value::jsonb ->> 'stream')::int = free.id)`,
      )
      const copy: Copy = { stream: rows[0]?.id ?? 0, isDone: false, erasures }
      yield* note(queries, name, copy)
      return copy
    }),
  )

/** Removes everything that an earlier try has stored. */
const clear = (database: Database, name: string, copy: Copy) => {
  const range = rangeOf(copy.stream)
  const buckets = range.map(bucketOf)
  return database.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query("DELETE FROM log WHERE first > $1 AND first < $2", range)
      for (const table of ["seen", "retry", "dead", "ended"]) {
        yield* queries.query(`DELETE FROM ${table} WHERE sequence > $1 AND sequence < $2`, range)
      }
      yield* queries.query("DELETE FROM outcome WHERE bucket >= $1 AND bucket < $2", buckets)
      yield* note(queries, name, copy)
    }),
  )
}

interface Run {
  readonly first: number
  readonly group: Group
}

/**
 * Groups events without gaps into rows of the log. Events for which `isRemembered` is true count as duplicates
 * from now on.
 */
const runsOf = (stored: ReadonlyArray<Stored>, isRemembered: (stored: Stored) => boolean): ReadonlyArray<Run> => {
  const runs: Array<Run> = []
  let run: Run | undefined
  for (const one of stored) {
    const { sequence, event, sinks } = one.entry
    const follows = run !== undefined && sequence === run.first + run.group.batch.entries.length
    if (run === undefined || !follows || run.group.batch.isFull) {
      run = { first: sequence, group: new Group() }
      runs.push(run)
    }
    const key = keyOf(event)
    const { origin } = one
    run.group.add(event, sinks, origin, key)
    if (origin === Origin.delivered && !isRemembered(one)) {
      for (const list of Object.values(run.group.keys)) list.pop()
    }
  }
  return runs
}

const putRun = (queries: Queries, floor: number, { first, group }: Run, searchIds: SearchIds) =>
  Effect.andThen(
    queries.query(
      `INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, bytes, void, altered)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '{}', '{}')`,
      [floor + first, ...rowOf(group, searchIds)],
    ),
    queries.query(
      `INSERT INTO seen (lo, hi, crc, at, sequence)
       SELECT lo, hi, crc, $5::bigint, $6::bigint + place
       FROM unnest($1::int[], $2::int[], $3::int[], $4::int[]) AS key(lo, hi, crc, place) ORDER BY lo, hi, crc
       ON CONFLICT DO NOTHING`,
      [...keysOf(group), group.batch.receivedTo, floor + first],
    ),
  )

/** A bucket may hold events of two pages, so its row may exist already. */
const putOutcomes = (queries: Queries, floor: number, outcomes: ReadonlyArray<CopiedOutcomes>) =>
  queries.query(
    `INSERT INTO outcome (bucket, lane, bytes) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
     ON CONFLICT DO NOTHING`,
    unnested(3, outcomes, ({ bucket, lane, bytes }) => [bucketOf(floor) + bucket, lane, Buffer.from(bytes)]),
  )

/** Stores the ends again that an earlier try has stored. */
const putEnds = (database: Database, floor: number, ceiling: number, source: CopySource, from: CopiedStream) =>
  Effect.andThen(
    database.query("DELETE FROM ended WHERE sequence > $1 AND sequence < $2", [floor, ceiling]),
    each.end(from.ends, (some) =>
      putEnded(
        database,
        some.map(({ id, copy, last, ...end }) => ({
          ...end,
          sequence: floor + end.sequence,
          ...(last !== undefined && { last: floor + last }),
          ...(copy !== undefined && source.streams[copy.stream] === from && { copy: floor + copy.sequence }),
        })),
      ),
    ),
  )

const put = Effect.fnUntraced(function* (
  database: Database,
  config: PostgresConfig,
  source: CopySource,
  from: CopiedStream,
  onProgress: (share: number) => Effect.Effect<void>,
) {
  const { erasures } = source
  const { stream, isDone, ...begun } = yield* reserve(database, from.name, erasures)
  const floor = floorOf(stream)
  // The earlier try may have stored events in clear that were erased in the source since.
  if (!isDone && begun.erasures !== erasures) yield* clear(database, from.name, { stream, isDone, erasures })
  const ends = yield* database.query<{ readonly last: number; readonly events: number }>(
    `SELECT coalesce(max(first + count - 1), $1::bigint) AS last, coalesce(sum(count), 0)::bigint AS events
     FROM log WHERE first > $1 AND first < $2`,
    [floor, ceilingOf(stream)],
  )
  const known = ends.rows[0]?.events ?? 0
  if (isDone) return { events: 0, retries: 0, deadLetters: 0, known }
  const now = yield* Clock.currentTimeMillis
  const remembered = now - Duration.toMillis(config.duplicates.age)
  const searchIds = new SearchIds(config.searchIds)
  const counts = { events: 0, retries: 0, deadLetters: 0, known }
  yield* each.event((ends.rows[0]?.last ?? floor) - floor)(from.events, (stored) =>
    Effect.gen(function* () {
      const runs = runsOf(stored, ({ entry }) => entry.event.receivedAt > remembered)
      const last = stored.at(-1)?.entry.sequence ?? 0
      const outcomes = yield* from.outcomes(stored[0]?.entry.sequence ?? 0, last)
      yield* database.transact((queries) =>
        Effect.andThen(
          Effect.forEach(runs, (run) => putRun(queries, floor, run, searchIds), { discard: true }),
          putOutcomes(queries, floor, outcomes),
        ),
      )
      counts.events += stored.length
      yield* onProgress(last / Math.max(1, from.last))
    }),
  )
  yield* each.retry(from.retries, (some) => {
    counts.retries += some.length
    return LaneTables.putRetries(
      database,
      some.map(({ lane, attempts, entry, ...wait }) => ({
        lane,
        change: { ...wait, sequence: floor + wait.sequence, refunded: 0, failed: [] },
        attempts,
        entry: { ...entry, sequence: floor + wait.sequence },
      })),
    )
  })
  yield* each.letter(from.letters, (some) => {
    counts.deadLetters += some.length
    return LaneTables.putLetters(
      database,
      some.map((letter) => ({ ...letter, entry: { ...letter.entry, sequence: floor + letter.entry.sequence } })),
    )
  })
  yield* putEnds(database, floor, ceilingOf(stream), source, from)
  const places = from.lanes.map(({ name, cursor, pausedFor }): readonly [string, Place] => [
    name,
    {
      sequence: floor + cursor.sequence,
      settled: cursor.settled.map(([first, last]) => [floor + first, floor + last]),
      pausedFor,
    },
  ])
  yield* database.transact((queries) =>
    Effect.gen(function* () {
      yield* queries.query(
        `INSERT INTO sink (name, paused, until, mute)
         SELECT name, true, until, mute::jsonb FROM unnest($1::text[], $2::bigint[], $3::text[]) AS copied(name, until, mute)
         ON CONFLICT (name) DO UPDATE SET paused = true, until = excluded.until, mute = excluded.mute`,
        [
          [...source.paused.keys()],
          [...source.paused.values()].map(({ paused }) => (typeof paused === "number" ? paused : null)),
          [...source.paused.values()].map(({ mute }) => (mute === undefined ? null : JSON.stringify(mute))),
        ],
      )
      yield* queries.query("INSERT INTO progress (stream, lanes) VALUES ($1, $2)", [
        stream,
        JSON.stringify(Object.fromEntries(places)),
      ])
      yield* queries.query("INSERT INTO stream (id) VALUES ($1)", [stream])
      // Stored once, because a repeated copy finds the first stream done.
      if (from === source.streams[0]) yield* each.record(source.audit, (some) => AuditTable.put(queries, some))
      yield* note(queries, from.name, { stream, isDone: true, erasures })
    }),
  )
  return counts
})

const putImports = (database: Database, some: ReadonlyArray<CopiedImport>) =>
  database.query(
    `INSERT INTO imported (journal, sequence, lanes) SELECT * FROM unnest($1::text[], $2::bigint[], $3::jsonb[])
     ON CONFLICT DO NOTHING`,
    unnested(3, some, ({ journal, sequence, lanes }) => [journal, sequence, JSON.stringify(lanes)]),
  )

/** Opens the database of a config, with the newest schema, as the target of a copy. */
export const target = (config: PostgresConfig) =>
  Effect.gen(function* () {
    const database = yield* PooledDatabase.ofConfig(config)
    yield* migrate(database, config.schema)
    return {
      put: (source, onProgress) =>
        Effect.gen(function* () {
          const sum = { events: 0, retries: 0, deadLetters: 0, known: 0 }
          for (const [index, stream] of source.streams.entries()) {
            const share = (own: number) => onProgress((index + own) / source.streams.length)
            const counts: CopyCounts = yield* put(database, config, source, stream, share)
            sum.events += counts.events
            sum.retries += counts.retries
            sum.deadLetters += counts.deadLetters
            sum.known += counts.known
          }
          yield* each.import(source.imported, (some) => putImports(database, some))
          return sum
        }).pipe(failing),
    } satisfies CopyTarget
  }).pipe(failing)
