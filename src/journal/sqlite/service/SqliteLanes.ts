/** The journal's lanes: opened and read by delivery, paused, moved and dropped by operators. */

import { Effect } from "effect"
import { eventLoop } from "../../../event/EventLoop.ts"
import * as MovedLanes from "../../archive/MovedLanes.ts"
import { type LaneRows, laneChanged, type MovingLog } from "../../archive/MovedLanes.ts"
import type { JournalError } from "../../JournalError.ts"
import type { WholeJournal } from "../../JournalType.ts"
import type { Mute, OpenedLane, Paused } from "../../LaneInfo.ts"
import { cursorSettlement } from "../../Settlement.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import type { Removal } from "../../stream/BulkSlices.ts"
import { Origin } from "../../stream/Record.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed } from "../commit/LaneStore.ts"
import { attempt, entriesInSlice, inOneTurn, patient, type Started } from "./OpenEngine.ts"

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
    yield* eventLoop.turn
  }
})

const takeKept = Effect.fnUntraced(function* (engine: Engine, lane: string, why: Removal, to?: string) {
  const letters = yield* all(engine, () => engine.lanes.takeDeadLetter(lane, why, to))
  return letters + (yield* all(engine, () => engine.lanes.takeRetry(lane, why, to)))
})

const logOf = (engine: Engine, lane: string, to: string): MovingLog | undefined => {
  const { lanes } = engine
  const source = lanes.backlogs.get(lane)
  if (source === undefined) return undefined
  return {
    ...{ source, to, end: engine.head },
    slice: (work) => inOneTurn(engine, work),
    read: (after, limit) => attempt(() => engine.read(after, Math.min(limit, entriesInSlice()))),
    append: (again, ended, cursor) =>
      attempt(() => {
        if (lanes.backlogs.get(lane) !== source) throw laneChanged(source.name)
        const advance = () => lanes.settle(cursorSettlement(lane, cursor, source.pausedFor))
        if (again.length === 0) return engine.apply(advance)
        engine.appendWith(again, Origin.moved, ([first = 0]) => {
          for (const record of ended(first)) lanes.outcomes.ended(record)
          return advance()
        })
      }),
  }
}

/** Creates the lanes that are new, at the head. */
const create = (engine: Engine, names: ReadonlyArray<string>): void => {
  engine.flush()
  const { lanes } = engine
  const missing = names.map((name) => lanes.ids.claimed(name)).filter((lane) => !lanes.backlogs.has(lane))
  if (missing.length > 0) engine.apply(() => lanes.begin(missing, engine.head))
}

/** The lane of this name, if there is one. */
const lanesNamed = (engine: Engine, name: string) =>
  attempt((): ReadonlyArray<LaneRows> => {
    engine.flush()
    const { lanes } = engine
    const id = lanes.ids.idOf(name)
    if (!lanes.backlogs.has(id)) return []
    const size = () => {
      const { size = 0, deadLetters = 0 } = lanes.backlogs.get(id) ?? {}
      return size + deadLetters
    }
    const lane: LaneRows = {
      moveKept: Effect.fnUntraced(function* (to, why) {
        yield* patient(() => create(engine, [to]))
        const target = lanes.ids.idOf(to)
        yield* patient(() => engine.apply(() => lanes.moves(id, target)))
        const count = yield* takeKept(engine, id, why, target)
        return { count, log: logOf(engine, id, target) }
      }),
      removeEmpty: (why) =>
        patient(() =>
          engine.exclusively(() =>
            size() > 0 ? { result: false } : { result: true, committed: lanes.drop(id, why, engine.head) },
          ),
        ),
      drop: Effect.fnUntraced(function* (why) {
        const kept = yield* takeKept(engine, id, why)
        return yield* patient(() =>
          engine.exclusively(() => ({ result: kept + size(), committed: lanes.drop(id, why, engine.head) })),
        )
      }),
    }
    return [lane]
  })

/** Opens a lane at its cursor; a new one at the head. */
const open = (engine: Engine, name: string): Effect.Effect<OpenedLane, JournalError> =>
  patient(() => {
    const { lanes } = engine
    create(engine, [name])
    const backlog = lanes.backlogs.get(lanes.ids.idOf(name)) as Backlog
    if (lanes.ids.moves.some(([from]) => from === backlog.lane)) engine.apply(() => lanes.stays(backlog.lane))
    const retries = engine.guard(() => lanes.retries.ofLane(backlog.lane))
    const alerts = engine.guard(() => lanes.alerts.ofLane(backlog.lane))
    return { ...backlog.info, pausedFor: backlog.pausedFor, retries, alerts }
  })

const setPaused = (engine: Engine, name: string, paused: Paused, mute?: Mute) =>
  patient(() => engine.apply(() => engine.lanes.setPaused(engine.lanes.ids.idOf(name), paused, mute)))

/** Renames a lane. Its events stay where they are. */
const rename = (engine: Engine, lane: string, name: string) =>
  patient(() => {
    engine.flush()
    engine.apply(() => engine.lanes.rename(lane, name))
  })

/** Reads retries; those that can't be read are removed. */
const readRetries = (engine: Engine, name: string, sequences: ReadonlyArray<number>) =>
  patient(() => {
    const { ids } = engine.lanes
    const lane = ids.idOf(name)
    const read = engine.guard(() => engine.lanes.readRetries(lane, sequences))
    if (read.lost.length > 0) {
      engine.apply(() => allOf(read.lost.map((sequence) => engine.lanes.loseRetry(lane, sequence))))
    }
    return { ...read, entries: ids.entriesOf(read.entries) }
  })

/** The part of the journal and the archive that concerns lanes. */
export const lanesOf = (engine: Engine, started: Started) => {
  const { ids, backlogs } = engine.lanes
  const moveLane = (from: string, to: string) => MovedLanes.move(lanesNamed(engine, from), from, to)

  /**
   * Renames a lane, or moves the events of a renamed sink to a lane that has its new name already. The sink stays paused.
   * Then completes moves that were cut short, unless a sink has the name of their lane again.
   */
  const openLane: WholeJournal["openLane"] = Effect.fnUntraced(function* (name, options = {}) {
    const { renamedFrom = name, isConfigured = () => true } = options
    const isMoved = renamedFrom !== name && ids.isLane(renamedFrom) && ids.isLane(name)
    const renamed = ids.renamed(name, options)
    if (renamed !== undefined) yield* rename(engine, renamed, name)
    const opened = yield* open(engine, name)
    if (isMoved) {
      const { paused = false, mute } = backlogs.get(ids.idOf(renamedFrom)) ?? {}
      if (paused !== false || mute !== undefined) yield* setPaused(engine, name, paused, mute)
      yield* moveLane(renamedFrom, name)
    }
    const cut = ids.moves
      .filter(([from, to]) => backlogs.has(from) && to === ids.idOf(name))
      .map(([from]) => ids.nameOf(from))
      .filter((from) => !isConfigured(from))
    for (const from of cut) yield* MovedLanes.completing(moveLane(from, name), from, name, options)
    return isMoved || cut.length > 0 ? yield* open(engine, name) : opened
  })

  return {
    holding: started(
      attempt(() => {
        engine.flush()
        return [...backlogs.holding()].map(({ info }) => info)
      }),
    ),
    lanes: started(
      attempt(() => {
        engine.flush()
        return backlogs.infos(engine.lanes.readFrom, engine.head)
      }),
    ),
    alerts: started(
      attempt(() =>
        engine.guard(() => engine.lanes.alerts.all().map((one) => ({ ...one, lane: ids.nameOf(one.lane) }))),
      ),
    ),
    // A lane that had the name may get it back, which `openLane` decides.
    createLanes: (names) =>
      started(
        patient(() =>
          create(
            engine,
            names.filter((name) => ids.aliased(name) === undefined),
          ),
        ),
      ),
    openLane: (name, options) => started(openLane(name, options)),
    limitBacklog: (name, max, maxBytes) => started(Effect.sync(() => backlogs.limit(ids.idOf(name), max, maxBytes))),
    setPaused: (name, paused, mute) => started(setPaused(engine, name, paused, mute)),
    endPause: (name, until) =>
      started(
        patient(() => {
          const lane = ids.idOf(name)
          const { paused, mute } = backlogs.get(lane) ?? {}
          if (paused === until) engine.apply(() => engine.lanes.setPaused(lane, false, mute))
        }),
      ),
    moveLane: (from, to) => started(moveLane(from, to)),
    dropLane: (name) => started(MovedLanes.drop(lanesNamed(engine, name))),
    returned: (name) => attempt(() => engine.guard(() => engine.lanes.retries.returned(ids.idOf(name)))),
    readRetries: (lane, sequences) => readRetries(engine, lane, sequences),
  } satisfies Partial<WholeJournal>
}
