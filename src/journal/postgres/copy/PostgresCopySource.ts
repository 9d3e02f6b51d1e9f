/** Reads a database's journal, to check it, or to copy it while no relay uses it. */
import { Effect } from "effect"
import type { AuditRecord } from "../../AuditLog.ts"
import type { ImportNote } from "../../archive/JournalTables.ts"
import { type After, type CopiedOutcomes, type CopiedStream, type CopySource, soundPages } from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import { floorOf, rangeOf, streamOf } from "../../Sequences.ts"
import { bucketOf } from "../../stream/OutcomeRecord.ts"
import { decode } from "../../stream/Record.ts"
import { erasuresOf } from "../archive/EventErasing.ts"
import type { Queries } from "../connection/Database.ts"
import * as PooledDatabase from "../connection/PooledDatabase.ts"
import type { PostgresConfig } from "../connection/PostgresConfig.ts"
import { beatEvery, pauseOf, type SinkRow } from "../fleet/Membership.ts"
import { find, latest } from "../tables/DatabaseSchema.ts"
import { allPlaces, LaneNames, nothingStored, type StoredLanes } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { type EndedRow, endedOf } from "../tables/OutcomeTables.ts"
import { columns, holding, type StreamRow, storedOf } from "../tables/StreamRows.ts"

/** Rows read at a time. */
export const page = 64

/** Reads rows. A database error ends the copy. */
export type ReadRows = <Row>(
  sql: string,
  params?: ReadonlyArray<unknown>,
) => Effect.Effect<ReadonlyArray<Row>, MaintenanceError>

export interface StreamSourceOptions {
  readonly read: ReadRows
  readonly id: number
  /** Its highest sequence, or `null` if it is empty. */
  readonly last: number | null
  readonly rows: number
  readonly names: LaneNames
  /** Called for each record that can't be read as it was written. */
  readonly lose: () => void
  /** Returns an event's stream, and its sequence there, by its sequence in the database. */
  readonly placeOf: (sequence: number) => { readonly stream: number; readonly sequence: number }
}

/** Returns a stream that reads on demand. It keeps nothing in memory. */
export const make = ({ read, id, last, rows, names, lose, placeOf }: StreamSourceOptions): CopiedStream => {
  const [floor, ceiling] = rangeOf(id)
  /** Returns pages of a lane's rows, numbered as in the stream. */
  const paged =
    <Row extends After>(table: "retry" | "dead") =>
    ({ lane, sequence }: After) =>
      read<Row>(
        `SELECT *, sequence - $1 AS sequence FROM ${table}
         WHERE sequence > $1 AND sequence < $2 AND (lane, sequence) > ($3, $4::bigint)
         ORDER BY lane, ${table}.sequence LIMIT $5`,
        [floor, ceiling, lane, floor + sequence, page],
      )
  const entryOf = ({ record, sequence }: { readonly record: Uint8Array; readonly sequence: number }) => {
    const entry = decode(record, floor + sequence)
    if (entry === undefined) lose()
    return entry === undefined ? [] : [{ ...entry, sequence }]
  }
  /** Returns the present names of lanes. A removed lane keeps its name, as in the history. */
  const presentOf = (sinks: ReadonlyArray<string>, sequence: number) =>
    names.isPlain ? sinks : [...new Set(sinks.map((name) => names.laneOf(name, sequence) || name))]
  const storedAbove = (after: number, row: StreamRow) =>
    storedOf(row, lose)
      .filter(({ entry }) => entry.sequence > after && !row.void.includes(entry.sequence - row.first))
      .map((one) => {
        const { sequence, sinks } = one.entry
        return { ...one, entry: { ...one.entry, sequence: sequence - floor, sinks: presentOf(sinks, sequence) } }
      })
  return {
    last: last === null ? 0 : last - floor,
    rows,
    lanes: [...names.places].map(([name, { sequence, settled, pausedFor }]) => ({
      name,
      cursor: { sequence: sequence - floor, settled: settled.map(([from, to]) => [from - floor, to - floor]) },
      pausedFor,
    })),
    events: Effect.fnUntraced(function* (after) {
      for (let from = floor + after; ; ) {
        const rows = yield* read<StreamRow>(`SELECT ${columns} FROM log WHERE ${holding} ORDER BY first LIMIT $4`, [
          floor,
          from + 1,
          ceiling,
          page,
        ])
        const stored = rows.flatMap((row) => storedAbove(floor + after, row))
        const end = rows.at(-1)
        if (end === undefined || stored.length > 0) return stored
        const next = end.first + end.count - 1
        if (next <= from) return []
        from = next
      }
    }),
    retries: soundPages(paged<LaneTables.RetryRow & LaneTables.LaneRow>("retry"), (row) =>
      entryOf(row).map((entry) => ({
        ...LaneTables.waitOf(row),
        lane: row.lane,
        attempts: LaneTables.attemptsOf(row.attempts),
        entry,
      })),
    ),
    letters: soundPages(paged<LaneTables.LetterRow>("dead"), (row) =>
      entryOf(row).map((entry) => ({
        lane: row.lane,
        at: row.at,
        attempts: LaneTables.attemptsOf(row.attempts),
        entry,
      })),
    ),
    outcomes: (from, to) =>
      read<CopiedOutcomes>("SELECT bucket - $1 AS bucket, lane, bytes FROM outcome WHERE bucket BETWEEN $2 AND $3", [
        bucketOf(floor),
        bucketOf(floor + from),
        bucketOf(floor + to),
      ]),
    ends: (after) =>
      Effect.map(
        read<EndedRow & { readonly id: number }>(
          "SELECT * FROM ended WHERE id > $1 AND sequence > $2 AND sequence < $3 ORDER BY id LIMIT $4",
          [after, floor, ceiling, page],
        ),
        (rows) =>
          rows.map((row) => {
            const { copy, last, ...end } = endedOf(row)
            return {
              ...end,
              id: row.id,
              sequence: end.sequence - floor,
              ...(last !== undefined && { last: last - floor }),
              ...(copy !== undefined && { copy: placeOf(copy) }),
            }
          }),
      ),
  }
}

/** Turns database errors into errors of `relay journal`. */
export const failing = Effect.mapError(({ message }: { readonly message: string }) => new MaintenanceError({ message }))

/** Fails if a relay sends heartbeats. */
const requireQuiet = Effect.fnUntraced(function* (read: ReadRows) {
  const look = read<{ readonly name: string; readonly sign: string }>(
    "SELECT name, instance || ' ' || beat AS sign FROM member ORDER BY name",
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

const requireLatest = Effect.fnUntraced(function* (queries: Queries, schema: string) {
  const { version, refusal } = yield* failing(find(queries, schema))
  if (version === latest) return
  const older = `The schema ${schema} has version ${version}, and this relay reads ${latest}: start it on the journal once`
  return yield* new MaintenanceError({ message: `${refusal ?? older}.` })
})

/** Returns the journal of a config. Its database stays open until the scope closes. */
export const source = Effect.fnUntraced(function* (config: PostgresConfig, use: "copy" | "check" = "copy") {
  const database = yield* PooledDatabase.ofConfig(config)
  const read: ReadRows = <Row>(sql: string, params?: ReadonlyArray<unknown>) =>
    failing(Effect.map(database.query<Row>(sql, params), ({ rows }) => rows))
  yield* requireLatest(database, config.schema)
  if (use === "copy") yield* requireQuiet(read)
  const [identity] = yield* read<{ readonly value: string }>("SELECT value FROM meta WHERE key = 'identity'")
  const streams = yield* read<{
    readonly id: number
    readonly last: number | null
    readonly rows: number
    readonly progress: StoredLanes | null
  }>(
    `SELECT id, to_jsonb(progress) || jsonb_build_object('lanes', ${allPlaces}) AS progress, last, rows
     FROM stream LEFT JOIN progress ON stream = id, LATERAL (
       SELECT max(first + count - 1) AS last, count(*) AS rows FROM log
       WHERE first > id * $1::bigint AND first < (id + 1) * $1::bigint
     ) AS held ORDER BY id`,
    [floorOf(1)],
  )
  const paused = yield* read<SinkRow>(
    "SELECT name, paused, until, mute FROM sink WHERE paused OR mute IS NOT NULL ORDER BY name",
  )
  const erasures = yield* failing(erasuresOf(database))
  let damaged = 0
  const common = {
    read,
    lose: () => {
      damaged += 1
    },
    placeOf: (sequence: number) => {
      const id = streamOf(sequence)
      return { stream: streams.findIndex((stream) => stream.id === id), sequence: sequence - floorOf(id) }
    },
  }
  return {
    identity: identity?.value ?? "",
    streams: streams.map(({ progress, ...stream }) =>
      make({ ...common, ...stream, names: LaneNames.of(progress ?? nothingStored) }),
    ),
    erasures,
    paused: new Map(paused.map((row) => [row.name, pauseOf(row)])),
    imported: ({ journal, sequence }) =>
      read<ImportNote>(
        `SELECT journal, sequence, lanes FROM imported WHERE (journal, sequence) > ($1, $2::bigint)
         ORDER BY journal, sequence LIMIT $3`,
        [journal, sequence, page],
      ),
    audit: (after) => read<AuditRecord>("SELECT * FROM audit WHERE id > $1 ORDER BY id LIMIT $2", [after, page]),
    damaged: () => damaged,
  } satisfies CopySource
})
