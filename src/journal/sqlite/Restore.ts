/**
 * What the journal holds is read back into memory at start: the duplicate
 * window and each lane's backlog. In slices, because the relay is up meanwhile;
 * appends are refused until it is done.
 */
import { Duration } from "effect"
import { keyWidth, notDelivered } from "./CommitBatch.ts"
import type { Engine, Options } from "./Engine.ts"
import { meta } from "./file/Meta.ts"
import type { Committed } from "./LaneStore.ts"
import type { RowKeys } from "./Log.ts"

const rowsASlice = 64

/** Each step reads one slice of the log, oldest first; the last one makes the journal ready. */
export const recover = function* (engine: Engine, options: Options, now: number): Generator<void> {
  beginAgain(engine)
  yield* restoreOwed(engine)
  const windowStart = engine.log.rowStart(engine.head - options.duplicates.count + 1)
  const keysSince = now - Duration.toMillis(options.duplicates.age)
  const passed = Math.min(Math.max(engine.lanes.passed, pruned(engine)), engine.head)
  // A row's first sequence, so that the row that holds the lowest cursor is read too.
  let after = Math.min(windowStart, engine.log.rowStart(passed + 1)) - 1
  let expected: number | undefined
  for (;;) {
    const rows = engine.log.keysOf(after, rowsASlice)
    for (const row of rows) {
      const due = expected ?? passed + 1
      if (row.first > due) engine.log.missing(due, row.first - 1)
      expected = row.first + row.count
      restore(engine, row, windowStart, keysSince)
      after = row.first
    }
    if (rows.length < rowsASlice) break
    yield
  }
  forgetStrayed(engine)
  nameStrayed(engine)
  for (const backlog of engine.lanes.backlogs.values()) backlog.recount()
  engine.ready()
}

/** Lanes whose place is damaged begin again at the oldest event that is kept. */
const beginAgain = (engine: Engine): void => {
  const { damaged, lost } = engine.lanes.found
  if (!damaged) return
  mend(engine, () => {
    for (const name of lost) {
      engine.raiseAlarm(
        `The place of lane ${name} in the journal was damaged: it begins again at the oldest event that is kept, so some are sent twice.`,
      )
    }
    if (lost.length === 0) engine.raiseAlarm("The place of a lane that is not known was damaged in the journal.")
    return [engine.lanes.beginAgain((engine.owed.first ?? engine.log.oldestRow()?.first ?? engine.head + 1) - 1)]
  })
}

/** The log was pruned up to here: what was waited for stands in what is owed. */
const pruned = ({ store }: Engine): number => {
  const sequence = Number(meta(store.db, "pruned") ?? 0)
  return Number.isSafeInteger(sequence) ? sequence : 0
}

const restoreOwed = function* (engine: Engine): Generator<void> {
  let after = 0
  for (;;) {
    const rows = engine.owed.sinks(after)
    for (const [sequence, sinks] of rows) {
      for (const sink of sinks) engine.lanes.backlogs.get(sink)?.routed(sequence)
      after = sequence
    }
    if (rows.length === 0) return
    yield
  }
}

/** What is parked for a lane that is not known can't be sent: it is named and given up. */
const forgetStrayed = (engine: Engine): void => {
  const strayed = engine.lanes.strayedRetries()
  if (strayed.length === 0) return
  mend(engine, () => strayed.map(({ lane, sequence }) => engine.lanes.forget(lane, sequence)))
}

/** Dead letters are never given up: that they strayed is said. */
const nameStrayed = (engine: Engine): void => {
  for (const lane of engine.lanes.strayed()) {
    engine.raiseAlarm(
      `Dead letters stand under ${JSON.stringify(lane)}, which is no lane that the journal knows: its name can't be read as it was written. \`relay dlq list\` shows them.`,
    )
  }
}

/** In one transaction with what is said about it. */
const mend = (engine: Engine, work: () => ReadonlyArray<Committed>): void =>
  engine.exclusively(() => {
    const committed = work()
    engine.alarm.store()
    return {
      result: undefined,
      committed: () => {
        for (const apply of committed) apply()
      },
    }
  })

const restore = (engine: Engine, row: RowKeys, windowStart: number, keysSince: number): void => {
  const remembered = row.first >= windowStart && row.receivedTo >= keysSince
  const pending = [...engine.lanes.backlogs.values()].some(
    (backlog) => backlog.cursor.sequence < row.first + row.count - 1,
  )
  if (!remembered && !pending) return
  for (let index = 0; index < row.count; index++) {
    const at = index * keyWidth
    if (at + keyWidth > row.keys.length) break
    const route = row.keys.readUInt32LE(at + 12)
    const delivered = (route & notDelivered) === 0 && !engine.losses.has(row.first + index)
    if (remembered && delivered) {
      engine.duplicates.restore(
        row.keys.readUInt32LE(at),
        row.keys.readUInt32LE(at + 4),
        row.keys.readUInt32LE(at + 8),
        row.receivedTo,
      )
    }
    if (!pending) continue
    for (const sink of row.routes[route & ~notDelivered] ?? []) {
      engine.lanes.backlogs.get(sink)?.routed(row.first + index)
    }
  }
}
