/**
 * Loads the state in memory at the start: the duplicates and each lane's backlog. It
 * works in slices, because the relay is up meanwhile. Appends are refused until it
 * is done.
 */
import { Duration } from "effect"
import { readBytes } from "../../stream/BulkSlices.ts"
import { keyAt } from "../../stream/DuplicateKey.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import type { RowKeys } from "../rows/LogRows.ts"
import { meta } from "../rows/Rows.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"
import { forgetOutcomes } from "./Retention.ts"

const rowsASlice = 64

/** Each step reads one slice of the log, oldest first. The last step makes the journal ready. */
export const scan = function* (engine: Engine, options: SqliteConfig, now: number): Generator<void> {
  repairNames(engine)
  repairCursors(engine)
  yield* loadPending(engine)
  const windowStart = engine.log.rowStart(engine.head - options.duplicates.count + 1)
  const keysSince = now - Duration.toMillis(options.duplicates.age)
  const lowest = engine.lanes.passed
  const passed = Math.min(Math.max(lowest, pruned(engine)), engine.head)
  // A row's first sequence, so that the row that holds the lowest cursor is read too.
  let after = Math.min(windowStart, engine.log.rowStart(passed + 1)) - 1
  let expected: number | undefined
  for (;;) {
    const rows = engine.log.keysOf(after, rowsASlice)
    for (const row of rows) {
      const due = expected ?? passed + 1
      if (row.first > due) engine.log.missing(due, row.first - 1)
      expected = row.first + row.count
      loadRow(engine, row, { lowest, windowStart, keysSince })
      after = row.first
    }
    if (rows.length < rowsASlice) break
    yield
  }
  removeUnknownRetries(engine)
  reportUnknownDeadLetters(engine)
  for (const backlog of engine.lanes.backlogs.values()) backlog.recount()
  yield* passIdle(engine)
  engine.ready()
  forgetOutcomes(engine)
}

/** Idle lanes begin at the head. */
const passIdle = function* ({ lanes, log, head }: Engine): Generator<void> {
  const idle = lanes.backlogs.probablyIdle(head)
  if (idle === undefined) return
  for (let { after } = idle; after < head; ) {
    const entries = log.read(after, rowsASlice, readBytes)
    for (const { sinks } of entries) for (const sink of sinks) idle.lanes.delete(sink)
    const last = entries.at(-1)
    if (last === undefined) break
    after = last.sequence
    yield
  }
  for (const backlog of idle.lanes.values()) backlog.settle({ sequence: head, settled: [] })
}

/** A renamed lane whose name is damaged has its first name again. */
const repairNames = (engine: Engine): void => {
  const { ids, backlogs } = engine.lanes
  if (!ids.damaged) return
  withAlarm(engine, () => {
    engine.raiseAlarm(
      'The name of a renamed lane was damaged in the journal, so the lane has its first name again. `relay lanes list` shows it without a sink: set "renamedFrom" of its sink to the name there, and reload.',
    )
    ids.repair(backlogs.keys())
    for (const backlog of backlogs.values()) backlog.name = ids.nameOf(backlog.lane)
    return []
  })
}

/** Lanes whose cursor is damaged start again at the oldest event that is kept. */
const repairCursors = (engine: Engine): void => {
  const { damaged, lost } = engine.lanes.found
  if (!damaged) return
  withAlarm(engine, () => {
    for (const lane of lost) {
      engine.raiseAlarm(
        `The place of lane ${engine.lanes.ids.nameOf(lane)} in the journal was damaged: it begins again at the oldest event that is kept, so some are sent twice.`,
      )
    }
    if (lost.length === 0) engine.raiseAlarm("The place of a lane that is not known was damaged in the journal.")
    return [engine.lanes.repairCursors((engine.pending.first ?? engine.log.oldestRow()?.first ?? engine.head + 1) - 1)]
  })
}

/** The log was pruned up to here. Older events that lanes still wait for are in the table of pending events. */
const pruned = ({ store }: Engine): number => {
  const sequence = Number(meta(store.db, "pruned") ?? 0)
  return Number.isSafeInteger(sequence) ? sequence : 0
}

const loadPending = function* (engine: Engine): Generator<void> {
  let after = 0
  for (;;) {
    const rows = engine.pending.sinks(after)
    for (const [sequence, sinks] of rows) {
      for (const sink of sinks) engine.lanes.backlogs.get(sink)?.routed(sequence)
      after = sequence
    }
    if (rows.length === 0) return
    yield
  }
}

/** Retries of an unknown lane can't be sent: they are removed and reported. */
const removeUnknownRetries = (engine: Engine): void => {
  const unknown = engine.lanes.unknownRetries()
  if (unknown.length === 0) return
  withAlarm(engine, () => unknown.map(({ lane, sequence }) => engine.lanes.loseRetry(lane, sequence)))
}

/** Dead letters of an unknown lane are kept, and reported. */
const reportUnknownDeadLetters = (engine: Engine): void => {
  for (const lane of engine.lanes.unknownDeadLetterLanes()) {
    engine.raiseAlarm(
      `Dead letters stand under ${JSON.stringify(lane)}, which is no lane that the journal knows: its name can't be read as it was written. \`relay dlq list\` shows them.`,
    )
  }
}

/** The removal and the alarm are one transaction. */
const withAlarm = (engine: Engine, work: () => ReadonlyArray<Committed>): void =>
  engine.apply(() => {
    const committed = work()
    engine.alarm.store()
    return allOf(committed)
  })

/** Events above `lowest` may be pending. Deliveries from `windowStart` on, and since `keysSince`, are remembered. */
interface ToLoad {
  readonly lowest: number
  readonly windowStart: number
  readonly keysSince: number
}

const loadRow = (engine: Engine, row: RowKeys, { lowest, windowStart, keysSince }: ToLoad): void => {
  const remembered = row.first >= windowStart && row.receivedTo >= keysSince
  const isPending = lowest < row.first + row.count - 1
  if (!remembered && !isPending) return
  for (let index = 0; index < row.count; index++) {
    const key = keyAt(row.keys, index)
    if (key === undefined) break
    const delivered = key.isDelivery && !engine.losses.has(row.first + index)
    if (remembered && delivered) engine.duplicates.restore(key, row.receivedTo)
    if (!isPending) continue
    for (const sink of row.routes[key.route] ?? []) {
      engine.lanes.backlogs.get(sink)?.routed(row.first + index)
    }
  }
}
