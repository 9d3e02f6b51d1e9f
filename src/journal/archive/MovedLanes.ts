/**
 * Moves all events of a lane to another lane, or drops them.
 *
 * The order is the same on every journal. Dead letters leave first: if an operator replays one meanwhile, it is
 * among the retries before these leave. Retries leave before the log is read: a move that is cut short must not leave them
 * behind later events of their keys. The lane itself is removed last.
 *
 * **Gotcha.** A rename moves nothing: it changes the name of the lane. It is a move only if both names are lanes.
 */
import { Effect } from "effect"
import type { Entry } from "../../event/Event.ts"
import type { OpenOptions } from "../Journal.ts"
import { isNotFenced, type JournalError, unavailable } from "../JournalError.ts"
import type { Cursor } from "../Settlement.ts"
import type { Backlog } from "../stream/Backlog.ts"
import { type Again, type Removal, removal, slice, toMove } from "../stream/BulkSlices.ts"
import type { Ended } from "../stream/OutcomeRecord.ts"

type Rows<A> = Effect.Effect<A, JournalError>

type Source = Pick<Backlog, "lane" | "cursor" | "isPending">

/** The events in the log that a lane waits for, while they are moved. */
export interface MovingLog {
  /** The lane as it is stored. `append` moves its cursor. */
  readonly source: Source
  /** The lane that gets the events. */
  readonly to: string
  /** The sequence of the last event that is moved. */
  readonly end: number
  /** Runs a slice as `JournalTables.slice` does. */
  slice<A>(work: Rows<A>): Rows<A>
  read(after: number, limit: number): Rows<ReadonlyArray<Entry>>
  /** Appends entries again, if there are any, in one commit with the cursor and the entries' outcomes. */
  append(again: ReadonlyArray<Again>, ended: (first: number) => ReadonlyArray<Ended>, cursor: Cursor): Rows<void>
}

/** A lane in one stream. */
export interface LaneRows {
  /**
   * Creates `to`, and moves dead letters and retries to it. Returns their number, and the log if no other relay has
   * moved it.
   */
  moveKept(to: string, why: Removal): Rows<{ readonly count: number; readonly log: MovingLog | undefined }>
  /** Removes the lane in one transaction. Returns false and removes nothing if the lane has events again. */
  removeEmpty(why: Removal): Rows<boolean>
  /** Removes the lane with all its events. Returns the number of events that were given up. */
  drop(why: Removal): Rows<number>
}

/** The failure of a move if the lane has changed between two steps. */
export const laneChanged = (lane: string): JournalError =>
  unavailable(`The lane ${lane} has changed meanwhile. Look again, and repeat it.`)

/** The lane in each stream that has it. */
type Lanes = Rows<ReadonlyArray<LaneRows>>

/** Chooses the entries to append again for `to` among `entries`, which follow the lane's cursor, and moves the cursor past them. */
export const moveSlice = (
  entries: ReadonlyArray<Entry>,
  source: Source,
  to: string,
  end: number,
): { readonly again: ReadonlyArray<Again>; readonly cursor: Cursor } => {
  const again: Array<Again> = []
  let last = end
  let size = 0
  for (const entry of entries) {
    const { sequence, event, sinks } = entry
    if (sequence > end) break
    last = sequence
    if (!sinks.includes(source.lane) || !source.isPending(sequence)) continue
    again.push({ event: toMove(entry), sinks: [to], sequence })
    size += event.body.length
    if (size >= slice.bytes) break
  }
  return { again, cursor: { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) } }
}

/** Appends again the events that a lane waits for. Returns the number of events. */
export const moveLog = Effect.fnUntraced(function* (log: MovingLog, { at, by }: Removal) {
  const { source, to, end } = log
  let count = 0
  const some = Effect.gen(function* () {
    const { again, cursor } = moveSlice(yield* log.read(source.cursor.sequence, slice.entries), source, to, end)
    const ended = (first: number) =>
      again.map(
        ({ sequence }, index): Ended => ({
          ...{ sequence, lane: source.lane, at, outcome: "moved", copy: first + index },
          note: { by, to },
        }),
      )
    yield* log.append(again, ended, cursor)
    count += again.length
  })
  while (source.cursor.sequence < end) yield* log.slice(some)
  return count
})

/** Moves all events of a lane. Returns the number of events. */
export const move = Effect.fnUntraced(function* (
  lanes: Lanes,
  from: string,
  to: string,
): Effect.fn.Return<number, JournalError> {
  const why = yield* removal
  const found = yield* lanes
  if (found.length === 0)
    return yield* unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  let count = 0
  for (const lane of from === to ? [] : found) {
    do {
      const { count: kept, log } = yield* lane.moveKept(to, why)
      count += kept
      if (log === undefined) break
      count += yield* moveLog(log, why)
      // An event may have reached the lane meanwhile.
    } while (!(yield* lane.removeEmpty(why)))
  }
  return count
})

/**
 * Completes a move that was cut short, when the target is opened. A failure to do so fails a rename, which is repeated.
 * Without a rename, the target opens, and the next time that it opens the move continues.
 */
export const completing = (
  move: Rows<unknown>,
  from: string,
  to: string,
  { renamedFrom }: OpenOptions,
): Rows<unknown> =>
  renamedFrom === undefined
    ? Effect.catchIf(move, isNotFenced, ({ message }) =>
        Effect.logWarning(
          `the move of the lane ${from} to ${to}, which was cut short, could not be completed: ${message} Until the next start, \`relay lanes move ${from} ${to}\` completes it.`,
        ),
      )
    : move

/** Removes a lane with all its events. Returns the number of events that were given up. */
export const drop = Effect.fnUntraced(function* (lanes: Lanes): Effect.fn.Return<number, JournalError> {
  const why = yield* removal
  let count = 0
  for (const lane of yield* lanes) count += yield* lane.drop(why)
  return count
})
