/** A lane's rows on SQLite, as a move and a drop change them. */
import { Effect } from "effect"
import { type LaneRows, laneChanged, type MovingLog } from "../../archive/MovedLanes.ts"
import { Origin } from "../../stream/Record.ts"
import type { Removal } from "../../stream/Removal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { attempt, inOneTurn, macrotask, patient } from "./EngineEffects.ts"

/** Milliseconds that a transaction of many small changes may take. */
const budget = 2

/** Applies changes until none is left, as many in a transaction as fit into its time. Returns their number. */
const all = Effect.fnUntraced(function* (engine: Engine, change: () => Committed | undefined) {
  let count = 0
  for (;;) {
    const { changed, more } = yield* patient(() =>
      engine.exclusively(() => {
        const started = performance.now()
        const committed: Array<Committed> = []
        let next: Committed | undefined
        do {
          next = change()
          if (next !== undefined) committed.push(next)
        } while (next !== undefined && performance.now() - started < budget)
        return { result: { changed: committed.length, more: next !== undefined }, committed: allOf(committed) }
      }),
    )
    count += changed
    if (!more) return count
    yield* macrotask
  }
})

const takeKept = Effect.fnUntraced(function* (engine: Engine, name: string, why: Removal, to?: string) {
  const letters = yield* all(engine, () => engine.lanes.takeDeadLetter(name, why, to))
  return letters + (yield* all(engine, () => engine.lanes.takeRetry(name, why, to)))
})

const logOf = (engine: Engine, lane: string, to: string): MovingLog | undefined => {
  const { lanes } = engine
  const source = lanes.backlogs.get(lane)
  if (source === undefined) return undefined
  return {
    ...{ source, to, end: engine.head },
    slice: (work) => inOneTurn(engine, work),
    read: (after, limit) => attempt(() => engine.read(after, limit)),
    append: (again, ended, cursor) =>
      attempt(() => {
        if (lanes.backlogs.get(lane) !== source) throw laneChanged(lane)
        const nothingElse = {
          takeBack: [],
          retry: [],
          endRetry: [],
          deadLetter: [],
          delivered: [],
          late: [],
          dropped: [],
        }
        const advance = () => lanes.settle({ lane, cursor, ...nothingElse, pausedFor: source.pausedFor })
        if (again.length === 0) return engine.apply(advance)
        engine.appendWith(again, Origin.moved, ([first = 0]) => {
          for (const one of ended(first)) lanes.outcomes.ended(one)
          return advance()
        })
      }),
  }
}

/** Creates the lanes that are new, at the head. */
export const create = (engine: Engine, names: ReadonlyArray<string>): void => {
  engine.flush()
  const { lanes } = engine
  const missing = names.filter((name) => !lanes.backlogs.has(name))
  if (missing.length > 0) engine.apply(() => lanes.begin(missing, engine.head))
}

/** A lane of this name, if there is one. A lane that `isOpen` has a sink, and stays when it was moved. */
export const lanesNamed = (engine: Engine, name: string, isOpen: () => boolean) =>
  attempt((): ReadonlyArray<LaneRows> => {
    engine.flush()
    const { lanes } = engine
    if (!lanes.backlogs.has(name)) return []
    const size = () => {
      const { size = 0, deadLetters = 0 } = lanes.backlogs.get(name) ?? {}
      return size + deadLetters
    }
    const lane: LaneRows = {
      moveKept: Effect.fnUntraced(function* (to, why) {
        yield* patient(() => create(engine, [to]))
        const count = yield* takeKept(engine, name, why, to)
        return { count, log: logOf(engine, name, to) }
      }),
      removeEmpty: (why) =>
        patient(() =>
          engine.exclusively(() => {
            if (isOpen()) return { result: true }
            if (size() > 0) return { result: false }
            return { result: true, committed: lanes.drop(name, why, engine.head) }
          }),
        ),
      drop: Effect.fnUntraced(function* (why) {
        const count = size()
        yield* takeKept(engine, name, why)
        yield* patient(() => engine.apply(() => lanes.drop(name, why, engine.head)))
        return count
      }),
    }
    return [lane]
  })
