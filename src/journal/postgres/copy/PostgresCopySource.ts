/** Reads the journal of a database: for a copy, while no relay uses it; or to check it. */
import { Effect } from "effect"
import {
  type After,
  type CopiedImport,
  type CopiedOutcomes,
  type CopiedStream,
  type CopySource,
  soundPages,
} from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import type { Attempt } from "../../Settlement.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { decode } from "../../stream/Record.ts"
import type { Database } from "../connection/Database.ts"
import * as PooledDatabase from "../connection/PooledDatabase.ts"
import type { PostgresConfig } from "../connection/PostgresConfig.ts"
import { beatEvery } from "../fleet/Membership.ts"
import { latest, versionOf } from "../tables/DatabaseSchema.ts"
import { LaneNames, nothingStored, type StoredLanes } from "../tables/LaneNames.ts"
import { type EndedRow, endedOf } from "../tables/OutcomeTables.ts"
import { ceilingOf, floorOf, streamOf as streamOfSequence } from "../tables/Sequences.ts"
import { columns, type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** Rows that are read at a time. */
const page = 64

const failing = Effect.mapError(({ message }: { readonly message: string }) => new MaintenanceError({ message }))

/** Relays that show a sign of life. */
const requireQuiet = Effect.fnUntraced(function* (database: Database) {
  const look = Effect.map(
    database.query<{ readonly name: string; readonly sign: string }>(
      "SELECT name, instance || ' ' || beat AS sign FROM member ORDER BY name",
    ),
    ({ rows }) => rows,
  )
  const before = yield* look
  if (before.length === 0) return
  for (let waited = 0; waited < 3 * beatEvery; waited += beatEvery / 2) {
    yield* Effect.sleep(beatEvery / 2)
    const alive = (yield* look).filter(({ name, sign }) => before.find((one) => one.name === name)?.sign !== sign)
    if (alive.length === 0) continue
    const names = alive.map(({ name }) => name).join(", ")
    return yield* new MaintenanceError({ message: `Relays run on this journal: ${names}. Stop them first.` })
  }
})

interface RetryRow {
  readonly lane: string
  readonly sequence: number
  readonly key: string
  readonly due: number
  readonly delay: number
  readonly first_attempt_at: number
  readonly tried: number
  readonly attempts: string
  readonly record: Uint8Array
}

interface LetterRow {
  readonly lane: string
  readonly sequence: number
  readonly at: number
  readonly attempts: string
  readonly record: Uint8Array
}

export const source = (config: PostgresConfig, use: "copy" | "check" = "copy") =>
  Effect.gen(function* () {
    const database = yield* PooledDatabase.ofConfig(config)
    const version = yield* versionOf(database)
    if (version !== latest) {
      const message = `The schema ${config.schema} has version ${version}, and this relay reads ${latest}: start it on the journal once.`
      return yield* new MaintenanceError({ message })
    }
    if (use === "copy") yield* requireQuiet(database)
    let damaged = 0
    const lose = () => {
      damaged += 1
    }

    /** The place of a copy in its stream, which is told by its index among the source's. */
    const inStream = (sequence: number) => {
      const id = streamOfSequence(sequence)
      return { stream: streams.rows.findIndex((stream) => stream.id === id), sequence: sequence - floorOf(id) }
    }

    const streamOf = (identity: string, id: number, last: number, names: LaneNames): CopiedStream => {
      const [floor, ceiling] = [floorOf(id), ceilingOf(id)]
      /** Rows of a lane's own, in pages; numbered as in the stream. */
      const paged =
        <Row extends After>(table: "retry" | "dead") =>
        ({ lane, sequence }: After) =>
          failing(
            Effect.map(
              database.query<Row>(
                `SELECT *, sequence - $1 AS sequence FROM ${table}
                 WHERE sequence > $1 AND sequence < $2 AND (lane, sequence) > ($3, $4::bigint)
                 ORDER BY lane, ${table}.sequence LIMIT $5`,
                [floor, ceiling, lane, floor + sequence, page],
              ),
              ({ rows }) => rows,
            ),
          )
      const entryOf = ({ record, sequence }: { readonly record: Uint8Array; readonly sequence: number }) => {
        const entry = decode(record, floor + sequence)
        if (entry === undefined) lose()
        return entry === undefined ? [] : [{ ...entry, sequence }]
      }
      return {
        name: `${identity}/${id}`,
        last,
        lanes: [...names.places].map(([name, { sequence, settled, pausedFor }]) => ({
          name,
          cursor: { sequence: sequence - floor, settled: settled.map(([from, to]) => [from - floor, to - floor]) },
          pausedFor,
        })),
        events: (after) =>
          failing(
            Effect.gen(function* () {
              for (let from = floor + after; ; ) {
                const { rows } = yield* database.query<StreamRow>(
                  `SELECT ${columns} FROM log
                   WHERE first >= coalesce((SELECT max(first) FROM log WHERE first > $1 AND first <= $2), $2)
                   AND first < $3 ORDER BY first LIMIT $4`,
                  [floor, from + 1, ceiling, page],
                )
                const stored = rows.flatMap((row) =>
                  storedOf(row, lose)
                    .filter(
                      ({ entry }) => entry.sequence > floor + after && !row.void.includes(entry.sequence - row.first),
                    )
                    .map((one) => {
                      const { sequence, sinks } = one.entry
                      const entry = { ...one.entry, sequence: sequence - floor, sinks: names.lanesOf(sinks, sequence) }
                      return { ...one, entry }
                    }),
                )
                const end = rows.at(-1)
                if (end === undefined || stored.length > 0) return stored
                const next = end.first + end.count - 1
                if (next <= from) return []
                from = next
              }
            }),
          ),
        retries: soundPages(paged<RetryRow>("retry"), (row) =>
          entryOf(row).map((entry) => ({
            lane: row.lane,
            sequence: row.sequence,
            key: JSON.parse(row.key) as string,
            due: row.due,
            delay: row.delay,
            firstAttemptAt: row.first_attempt_at,
            tried: row.tried,
            attempts: JSON.parse(row.attempts) as ReadonlyArray<Attempt>,
            entry,
          })),
        ),
        letters: soundPages(paged<LetterRow>("dead"), (row) =>
          entryOf(row).map((entry) => ({
            lane: row.lane,
            at: row.at,
            attempts: JSON.parse(row.attempts) as ReadonlyArray<Attempt>,
            entry,
          })),
        ),
        outcomes: (from, to) =>
          failing(
            Effect.map(
              database.query<CopiedOutcomes>(
                "SELECT bucket - $1 AS bucket, lane, bytes FROM outcome WHERE bucket BETWEEN $2 AND $3",
                [bucketOf(floor), bucketOf(floor + from), bucketOf(floor + to)],
              ),
              ({ rows }) => rows,
            ),
          ),
        ends: (after) =>
          failing(
            Effect.map(
              database.query<EndedRow & { readonly id: number }>(
                "SELECT * FROM ended WHERE id > $1 AND sequence > $2 AND sequence < $3 ORDER BY id LIMIT $4",
                [after, floor, ceiling, page],
              ),
              ({ rows }) =>
                rows.map((row) => {
                  const { copy, last, ...end } = endedOf(row)
                  return {
                    ...end,
                    id: row.id,
                    sequence: end.sequence - floor,
                    ...(last !== undefined && { last: last - floor }),
                    ...(copy !== undefined && { copy: inStream(copy) }),
                  }
                }),
            ),
          ),
      }
    }

    const identity = yield* database.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = 'identity'")
    const streams = yield* database.query<{
      readonly id: number
      readonly last: number | null
      readonly progress: StoredLanes | null
    }>(
      `SELECT id, to_jsonb(progress) AS progress, (
         SELECT max(first + count - 1) FROM log WHERE first > id * $1::bigint AND first < (id + 1) * $1::bigint
       ) AS last FROM stream LEFT JOIN progress ON stream = id ORDER BY id`,
      [floorOf(1)],
    )
    const paused = yield* database.query<{ readonly name: string }>("SELECT name FROM sink WHERE paused ORDER BY name")
    return {
      streams: streams.rows.map(({ id, last, progress }) =>
        streamOf(
          identity.rows[0]?.value ?? "",
          id,
          last === null ? 0 : last - floorOf(id),
          LaneNames.of(progress ?? nothingStored),
        ),
      ),
      paused: paused.rows.map(({ name }) => name),
      imported: ({ journal, sequence }) =>
        failing(
          Effect.map(
            database.query<CopiedImport>(
              `SELECT journal, sequence, lanes FROM imported WHERE (journal, sequence) > ($1, $2::bigint)
               ORDER BY journal, sequence LIMIT $3`,
              [journal, sequence, page],
            ),
            ({ rows }) => rows,
          ),
        ),
      damaged: () => damaged,
    } satisfies CopySource
  }).pipe(failing)
