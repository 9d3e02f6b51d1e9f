/** Reads a database's journal, to check it, or to copy it while no relay uses it. */
import { Effect } from "effect"
import type { AuditRecord } from "../../AuditLog.ts"
import type { CopiedImport, CopySource } from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import { floorOf, streamOf } from "../../Sequences.ts"
import type { Queries } from "../connection/Database.ts"
import * as PooledDatabase from "../connection/PooledDatabase.ts"
import type { PostgresConfig } from "../connection/PostgresConfig.ts"
import { beatEvery, pauseOf, type SinkRow } from "../fleet/Membership.ts"
import { find, latest } from "../tables/DatabaseSchema.ts"
import * as Erasures from "../tables/Erasures.ts"
import { LaneNames, nothingStored, type StoredLanes } from "../tables/LaneNames.ts"
import * as StreamSource from "./StreamSource.ts"

/** Turns database errors into errors of `relay journal`. */
export const failing = Effect.mapError(({ message }: { readonly message: string }) => new MaintenanceError({ message }))

/** Fails if a relay sends heartbeats. */
const requireQuiet = Effect.fnUntraced(function* (read: StreamSource.ReadRows) {
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
  const read: StreamSource.ReadRows = <Row>(sql: string, params?: ReadonlyArray<unknown>) =>
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
    `SELECT id, to_jsonb(progress) AS progress, last, rows FROM stream LEFT JOIN progress ON stream = id, LATERAL (
       SELECT max(first + count - 1) AS last, count(*) AS rows FROM log
       WHERE first > id * $1::bigint AND first < (id + 1) * $1::bigint
     ) AS held ORDER BY id`,
    [floorOf(1)],
  )
  const paused = yield* read<SinkRow>(
    "SELECT name, paused, until, mute FROM sink WHERE paused OR mute IS NOT NULL ORDER BY name",
  )
  const erasures = yield* failing(Erasures.counted(database))
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
      StreamSource.make({ ...common, ...stream, names: LaneNames.of(progress ?? nothingStored) }),
    ),
    erasures,
    paused: new Map(paused.map((row) => [row.name, pauseOf(row)])),
    imported: ({ journal, sequence }) =>
      read<CopiedImport>(
        `SELECT journal, sequence, lanes FROM imported WHERE (journal, sequence) > ($1, $2::bigint)
         ORDER BY journal, sequence LIMIT $3`,
        [journal, sequence, StreamSource.page],
      ),
    audit: (after) =>
      read<AuditRecord>("SELECT * FROM audit WHERE id > $1 ORDER BY id LIMIT $2", [after, StreamSource.page]),
    damaged: () => damaged,
  } satisfies CopySource
})
