/** Appends kept events again, for any sinks. It also has the steps that all changes with appends share. */
import { Effect } from "effect"
import type { ReplayCounts, ReplayTarget } from "../Archive.ts"
import { type JournalError, unavailable } from "../JournalError.ts"
import { type Again, firstOf, type Reappended, type Removal, removal, slice, toReplay } from "../stream/BulkSlices.ts"
import { Origin } from "../stream/Record.ts"
import type { JournalTables, SliceRows } from "./JournalTables.ts"

/** Fails if appends are refused. The message ends with `soFar`, which says how much was done. */
export const requireRoom = (tables: JournalTables, soFar: string): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    const why = tables.whyFull()
    return why === "" ? Effect.void : unavailable(`${why} ${soFar}`)
  })

/** Groups entries by log: each group is one commit. */
export const byLog = <A extends Reappended>(
  tables: JournalTables,
  entries: ReadonlyArray<A>,
): ReadonlyArray<ReadonlyArray<A>> => [...Map.groupBy(entries, ({ sinks }) => tables.logOf(sinks)).values()]

/** Appends as many of the first targets as fit into one commit. */
export const replay = Effect.fnUntraced(function* (
  tables: JournalTables,
  targets: ReadonlyArray<ReplayTarget>,
): Effect.fn.Return<ReplayCounts, JournalError> {
  const logs = targets.map(({ sinks }) => tables.logOf(sinks))
  const other = logs.findIndex((log) => log !== logs[0])
  const together = targets.slice(0, Math.min(slice.entries, other < 0 ? targets.length : other))
  if (together.length === 0) return { done: 0, gone: [] }
  yield* requireRoom(tables, "Nothing is replayed until there is.")
  // It is read here, because the slice may run without its caller's context.
  const why = yield* removal
  return yield* tables.slice((rows) => replaySome(rows, together, why))
})

const replaySome = Effect.fnUntraced(function* (
  rows: SliceRows,
  targets: ReadonlyArray<ReplayTarget>,
  { at, by }: Removal,
) {
  const found = yield* rows.entries(targets.map(({ sequence }) => sequence))
  const eventOf = ({ sequence }: ReplayTarget) => found.entries.get(sequence)?.event
  const done = firstOf(targets.slice(0, found.done), slice.entries, (one) => eventOf(one)?.body.length ?? 0)
  const again: Array<Again> = []
  const gone: Array<number> = []
  for (const target of targets.slice(0, done)) {
    const event = eventOf(target)
    if (event === undefined || event.erased !== undefined) gone.push(target.sequence)
    else again.push({ event: toReplay(event), ...target })
  }
  if (again.length > 0) {
    yield* rows.append(again, Origin.replayed, (copies) => ({
      ended: again.map(({ sequence }, index) => ({
        ...{ sequence, lane: "", at, outcome: "copied", copy: copies[index] ?? 0, note: { by } },
      })),
    }))
  }
  return { done, gone }
})
