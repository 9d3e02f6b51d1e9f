/** The journal's lanes: opened and read by delivery, paused, moved and dropped by operators. */
import { Effect } from "effect"
import type { JournalError } from "../../JournalError.ts"
import type { OpenedLane } from "../../LaneInfo.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import { removal } from "../../stream/Removal.ts"
import type { WholeJournal } from "../../WholeJournal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, infoOf } from "../commit/LaneStore.ts"
import * as BulkOperations from "../operations/BulkOperations.ts"
import { attempt, patient, type Started, sliced } from "./EngineEffects.ts"

type Lanes = Pick<
  WholeJournal,
  | "holding"
  | "lanes"
  | "createLanes"
  | "openLane"
  | "limitBacklog"
  | "setPaused"
  | "moveLane"
  | "dropLane"
  | "returned"
  | "readRetries"
>

/** Creates the lanes that are new, at the head. */
const create = (engine: Engine, names: ReadonlyArray<string>): void => {
  const { lanes } = engine
  const missing = names.filter((name) => !lanes.backlogs.has(name))
  if (missing.length > 0) engine.apply(() => lanes.begin(missing, engine.head))
}

/** Opens a lane at its cursor; a new one at the head. */
const open = (engine: Engine, name: string): Effect.Effect<OpenedLane, JournalError> =>
  patient(() => {
    engine.flush()
    const { lanes } = engine
    create(engine, [name])
    const backlog = lanes.backlogs.get(name) as Backlog
    const retries = engine.guard(() => lanes.retries.ofLane(name))
    return { ...infoOf(backlog), pausedFor: backlog.pausedFor, retries }
  })

const setPaused = (engine: Engine, lane: string, paused: boolean) =>
  patient(() => engine.apply(() => engine.lanes.setPaused(lane, paused)))

const drop = (engine: Engine, name: string) =>
  Effect.flatMap(removal, (why) => sliced(engine, () => BulkOperations.dropLane(engine, name, why)))

const move = (engine: Engine, from: string, to: string) =>
  Effect.flatMap(removal, (why) => sliced(engine, () => BulkOperations.moveLane(engine, from, to, why)))

/** Removes a lane that holds nothing; whether it did: what it holds by now came while its events were moved. */
const dropEmpty = (engine: Engine, name: string) =>
  Effect.flatMap(removal, (why) =>
    patient(() =>
      engine.exclusively(() => {
        const left = engine.lanes.backlogs.get(name)
        if (left !== undefined && left.size + left.deadLetters > 0) return { result: false }
        return { result: true, committed: engine.lanes.drop(name, why, engine.head) }
      }),
    ),
  )

/** Reads retries; those that can't be read are removed. */
const readRetries = (engine: Engine, lane: string, sequences: ReadonlyArray<number>) =>
  patient(() => {
    const read = engine.guard(() => engine.lanes.readRetries(lane, sequences))
    if (read.lost.length > 0) {
      engine.apply(() => allOf(read.lost.map((sequence) => engine.lanes.loseRetry(lane, sequence))))
    }
    return read
  })

const limit = (engine: Engine, lane: string, max = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY) => {
  const backlog = engine.lanes.backlogs.get(lane)
  if (backlog !== undefined) Object.assign(backlog, { max, maxBytes })
}

/** The part of the journal and the archive that concerns lanes. */
export const lanesOf = (engine: Engine, started: Started): Lanes => {
  /** Lanes that have a sink: the others are not listed any more once they are empty. */
  const opened = new Set<string>()

  const openOne = (name: string) => Effect.tap(open(engine, name), () => Effect.sync(() => opened.add(name)))

  const moveLane = Effect.fnUntraced(function* (from: string, to: string) {
    let moved = yield* move(engine, from, to)
    if (opened.has(from) || from === to) return moved
    // A move is done in slices, and a replay may append to the lane in between.
    while (!(yield* dropEmpty(engine, from))) moved += yield* move(engine, from, to)
    return moved
  })

  /** A renamed sink stays paused, and nothing is left of the lane that it had. */
  const adopt = Effect.fnUntraced(function* (from: string, name: string) {
    yield* openOne(name)
    if (engine.lanes.backlogs.get(from)?.paused === true) yield* setPaused(engine, name, true)
    opened.delete(from)
    yield* moveLane(from, name)
    return yield* openOne(name)
  })

  const openLane: Lanes["openLane"] = (name, { renamedFrom } = {}) =>
    Effect.suspend(() =>
      renamedFrom !== undefined && renamedFrom !== name && engine.lanes.backlogs.has(renamedFrom)
        ? adopt(renamedFrom, name)
        : openOne(name),
    )

  const dropLane = (name: string) =>
    Effect.suspend(() => {
      opened.delete(name)
      return drop(engine, name)
    })

  return {
    holding: started(
      attempt(() => {
        engine.flush()
        return [...engine.lanes.backlogs.holding()].map(infoOf)
      }),
    ),
    lanes: started(
      attempt(() => {
        engine.flush()
        return engine.lanes.list(engine.head)
      }),
    ),
    createLanes: (names) =>
      started(
        patient(() => {
          engine.flush()
          create(engine, names)
        }),
      ),
    openLane: (name, options) => started(openLane(name, options)),
    limitBacklog: (lane, max, maxBytes) => started(Effect.sync(() => limit(engine, lane, max, maxBytes))),
    setPaused: (lane, paused) => started(setPaused(engine, lane, paused)),
    moveLane: (from, to) => started(moveLane(from, to)),
    dropLane: (name) => started(dropLane(name)),
    returned: (lane) => attempt(() => engine.guard(() => engine.lanes.retries.returned(lane))),
    readRetries: (lane, sequences) => readRetries(engine, lane, sequences),
  }
}
