/**
 * Opens, renames and drops lanes of a stream.
 *
 * A lane that is renamed keeps its events where they are, and so their order.
 * If both names are lanes, `LaneEmptying.ts` appends what the former one holds
 * again for the other: behind the events that this one holds.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { returnedDelay } from "../../LaneInfo.ts"
import { ceilingOf, floorOf } from "../../Sequences.ts"
import { removal } from "../../stream/Removal.ts"
import type { Queries } from "../connection/Database.ts"
import type { Opened, Opening } from "../tables/LaneNames.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { change } from "./LaneChange.ts"
import type { StreamState } from "./StreamState.ts"

/** Retries and dead letters change lanes; of an event that both lanes have, one is enough. Four round trips. */
const moveKept = Effect.fnUntraced(function* (
  queries: Queries,
  { id }: StreamState,
  from: string,
  to: string,
  pausedLonger: number,
  isRenamed: boolean,
) {
  const { at, by } = yield* removal
  const range = [from, floorOf(id), ceilingOf(id)]
  const within = "lane = $1 AND sequence > $2 AND sequence < $3"
  const move = (table: string, set: string, params: ReadonlyArray<unknown>) =>
    queries.query<{ sequence: number; delay: number }>(
      `WITH moved AS (
         UPDATE ${table} SET lane = $4 ${set} WHERE ${within}
           AND NOT EXISTS (SELECT FROM ${table} AS own WHERE own.lane = $4 AND own.sequence = ${table}.sequence)
         RETURNING ${table}.*
       ), noted AS (
         INSERT INTO ended (sequence, lane, at, outcome, note)
         SELECT sequence, $1, $5, 'moved', $6 FROM moved WHERE NOT $7::boolean
       )
       SELECT sequence, ${table === "retry" ? "delay" : "0 AS delay"} FROM moved`,
      [...range, to, at, JSON.stringify({ by, to }), isRenamed, ...params],
    )
  const shifted =
    ", first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE greatest(first_attempt_at + $8::bigint, 1) END"
  // Dead letters first: one that is replayed meanwhile is among the retries before these change lanes, or not replayed.
  const letters = yield* move("dead", "", [])
  const twiceDead = yield* queries.query(`DELETE FROM dead WHERE ${within}`, range)
  const retries = yield* move("retry", shifted, [pausedLonger])
  const twice = yield* queries.query(`DELETE FROM retry WHERE ${within}`, range)
  return {
    retries: retries.rows.filter(({ delay }) => delay !== returnedDelay).map(({ sequence }) => sequence),
    letters: letters.count + twiceDead.count,
    count: retries.count + letters.count + twice.count + twiceDead.count,
  }
})

type Kept = Effect.Success<ReturnType<typeof moveKept>>

const isOpen = ({ names, backlogs }: StreamState, name: string, { renamedFrom }: Opening): boolean => {
  if (!backlogs.has(name) || !names.places.has(name) || names.aliases.has(name)) return false
  if (renamedFrom === undefined || renamedFrom === name) return true
  return names.aliases.has(renamedFrom) && !names.places.has(renamedFrom)
}

/**
 * Opens a lane of a stream. Where its former name is a lane, that one is renamed,
 * or its retries and dead letters change lanes and `empty` is to do the rest. How
 * many events came with it. No round trip where nothing is to be changed, else
 * eleven at most.
 */
export const open = Effect.fnUntraced(function* (
  stream: StreamState,
  name: string,
  opening: Opening,
): Effect.fn.Return<number, JournalError> {
  if (isOpen(stream, name, opening)) return 0
  return yield* change(stream, (before, head, queries) =>
    Effect.gen(function* () {
      const opened = before.opened(name, head, opening)
      const from = opened.renamed ?? opened.moving
      const pausedFor = (lane: string) => before.places.get(lane)?.pausedFor ?? 0
      const longer = opened.moving === undefined ? 0 : pausedFor(opened.moving) - pausedFor(name)
      const kept =
        from === undefined
          ? undefined
          : yield* moveKept(queries, stream, from, name, longer, opened.renamed !== undefined)
      const pending = opened.renamed === undefined ? 0 : (stream.backlogs.get(opened.renamed)?.size ?? 0)
      return {
        lanes: opened.lanes,
        value: opened.renamed === undefined ? (kept?.count ?? 0) : pending + (kept?.letters ?? 0),
        inMemory: (stream) => openInMemory(stream, name, opened, kept),
      }
    }),
  )
})

/** Creates lanes at the end of a stream. No round trip if all are there, else five. */
export const create = (stream: StreamState, names: ReadonlyArray<string>): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (stream.names.created(names, stream.end) === stream.names) return Effect.void
    return change(stream, (before, head) => {
      const inMemory = ({ names: { places }, backlogs }: StreamState): void => {
        for (const [name, cursor] of places) if (names.includes(name)) backlogs.begun(name, cursor)
      }
      return Effect.succeed({ lanes: before.created(names, head), value: undefined, inMemory })
    })
  })

const openInMemory = (stream: StreamState, name: string, { renamed, moving }: Opened, kept: Kept | undefined): void => {
  const { backlogs, names } = stream
  const former = renamed === undefined ? undefined : backlogs.get(renamed)
  const { pausedFor = 0, ...cursor } = names.places.get(name) ?? { sequence: stream.end, settled: [] }
  if (former !== undefined) backlogs.set(name, former.renamed(name))
  const backlog = backlogs.begun(name, cursor, pausedFor)
  if (renamed !== undefined) {
    backlogs.delete(renamed)
    stream.open.delete(renamed)
  }
  if (moving !== undefined) {
    backlogs.get(moving)?.endRetries()
    for (const sequence of kept?.retries ?? []) backlog.retries(sequence)
  }
  stream.recount()
}

/** Removes a lane from a stream with all that it holds there: how many events were given up. Nine round trips at most. */
export const remove = (stream: StreamState, name: string): Effect.Effect<number, JournalError> =>
  change(stream, (before, head, queries) =>
    Effect.gen(function* () {
      const why = yield* removal
      const params = [...OutcomeTables.removalParams(why), name, floorOf(stream.id), ceilingOf(stream.id)]
      const within = "t.lane = $3 AND t.sequence > $4 AND t.sequence < $5"
      // Recorded from its cursor on, with what waited in the log.
      const waiting = `waiting AS (
        INSERT INTO ended (sequence, last, lane, at, outcome, note)
        SELECT $6::bigint + 1, $7::bigint, $3, $1, 'laneRemoved', '{"by":' || $2 || '}' WHERE $6::bigint < $7::bigint), `
      const { count } = yield* queries.query(OutcomeTables.takenFrom("dead", within, "'dropped'", undefined, waiting), [
        ...params,
        before.places.get(name)?.sequence ?? head,
        head,
      ])
      // After the dead letters: one may be replayed meanwhile.
      yield* queries.query(OutcomeTables.takenFrom("retry", within, "'dropped'"), params)
      return {
        lanes: before.removed(name, head),
        value: (stream.backlogs.get(name)?.size ?? 0) + count,
        inMemory: (stream) => {
          stream.backlogs.delete(name)
          stream.open.delete(name)
          stream.recount()
        },
      }
    }),
  )

/** Fails where another relay's config has the sink: it would miss the events. */
export const requireOrphaned = (name: string, relays: ReadonlyArray<string>): Effect.Effect<void, JournalError> =>
  relays.length === 0
    ? Effect.void
    : unavailable(
        `The sink ${name} is in the config of ${relays.join(", ")}: only a lane that no relay has a sink for can be moved or dropped.`,
      )
