/** Lanes that are moved or dropped. Each step of a generator is one slice, in one transaction. */
import { unavailable } from "../../JournalError.ts"
import { moved, moveSlice, slice } from "../../stream/BulkSlices.ts"
import { Origin } from "../../stream/Record.ts"
import type { Removal } from "../../stream/Removal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"

/** Milliseconds that a slice of many small changes may take. */
const budget = 2

/** Applies changes until there are no more, as many in a transaction as fit into its time; how many. */
const sliced = function* (engine: Engine, change: () => Committed | undefined): Generator<void, number> {
  let count = 0
  for (;;) {
    const { changed, more } = engine.exclusively(() => {
      const started = performance.now()
      const committed: Array<Committed> = []
      let next: Committed | undefined
      do {
        next = change()
        if (next !== undefined) committed.push(next)
      } while (next !== undefined && performance.now() - started < budget)
      return { result: { changed: committed.length, more: next !== undefined }, committed: allOf(committed) }
    })
    count += changed
    if (!more) return count
    yield
  }
}

/** Removes a lane with all that it holds; how many events were given up. */
export const dropLane = function* (engine: Engine, name: string, why: Removal): Generator<void, number> {
  engine.flush()
  const backlog = engine.lanes.backlogs.get(name)
  const count = backlog === undefined ? 0 : backlog.size + backlog.deadLetters
  yield* sliced(engine, () => engine.lanes.takeRetry(name, why))
  yield* sliced(engine, () => engine.lanes.takeDeadLetter(name, why))
  engine.apply(() => engine.lanes.drop(name, why, engine.head))
  return count
}

/** Moves everything that `from` holds to `to`; `from` is left empty, at the head. How many events. */
export const moveLane = function* (engine: Engine, from: string, to: string, why: Removal): Generator<void, number> {
  engine.flush()
  const source = engine.lanes.backlogs.get(from)
  if (source === undefined) throw unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  if (from === to) return 0
  const end = engine.head
  if (!engine.lanes.backlogs.has(to)) engine.apply(() => engine.lanes.begin([to], end))
  // First: a move that is cut short must not leave them behind later events of their key.
  let count = yield* sliced(engine, () => engine.lanes.takeRetry(from, why, to))
  while (source.cursor.sequence < end) {
    const { again, cursor } = moveSlice(engine.read(source.cursor.sequence, slice.entries), source, to, end)
    const { pausedFor } = source
    const nothingElse = { takeBack: [], retry: [], endRetry: [], deadLetter: [], delivered: [], late: [] }
    const advance = () => engine.lanes.settle({ lane: from, cursor, ...nothingElse, pausedFor })
    if (again.length > 0) {
      engine.appendWith(again, Origin.moved, ([first = 0]) => {
        for (const one of moved(again, first, why, from, to)) engine.lanes.outcomes.ended(one)
        return advance()
      })
    } else engine.apply(advance)
    count += again.length
    yield
  }
  return count + (yield* sliced(engine, () => engine.lanes.takeDeadLetter(from, why, to)))
}
