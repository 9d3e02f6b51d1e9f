/** The journal's lanes: opened and read by delivery, paused, moved and dropped by operators. */
import { Effect } from "effect"
import * as MovedLanes from "../../archive/MovedLanes.ts"
import type { JournalError } from "../../JournalError.ts"
import type { Mute, OpenedLane, Paused } from "../../LaneInfo.ts"
import type { Backlog } from "../../stream/Backlog.ts"
import type { WholeJournal } from "../../WholeJournal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf } from "../commit/LaneStore.ts"
import { attempt, patient, type Started } from "./EngineEffects.ts"
import { create, lanesNamed } from "./SqliteLaneRows.ts"

type Lanes = Pick<
  WholeJournal,
  | "holding"
  | "lanes"
  | "createLanes"
  | "openLane"
  | "limitBacklog"
  | "setPaused"
  | "endPause"
  | "moveLane"
  | "dropLane"
  | "returned"
  | "readRetries"
>

/** Opens a lane at its cursor; a new one at the head. */
const open = (engine: Engine, name: string): Effect.Effect<OpenedLane, JournalError> =>
  patient(() => {
    const { lanes } = engine
    create(engine, [name])
    const backlog = lanes.backlogs.get(name) as Backlog
    const retries = engine.guard(() => lanes.retries.ofLane(name))
    return { ...backlog.info, pausedFor: backlog.pausedFor, retries }
  })

const setPaused = (engine: Engine, lane: string, paused: Paused, mute?: Mute) =>
  patient(() => engine.apply(() => engine.lanes.setPaused(lane, paused, mute)))

/** Reads retries; those that can't be read are removed. */
const readRetries = (engine: Engine, lane: string, sequences: ReadonlyArray<number>) =>
  patient(() => {
    const read = engine.guard(() => engine.lanes.readRetries(lane, sequences))
    if (read.lost.length > 0) {
      engine.apply(() => allOf(read.lost.map((sequence) => engine.lanes.loseRetry(lane, sequence))))
    }
    return read
  })

/** The part of the journal and the archive that concerns lanes. */
export const lanesOf = (engine: Engine, started: Started): Lanes => {
  /** Lanes that have a sink: the others are not listed any more once they are empty. */
  const opened = new Set<string>()

  const openOne = (name: string) => Effect.tap(open(engine, name), () => Effect.sync(() => opened.add(name)))

  const lanesOf = (name: string) => lanesNamed(engine, name, () => opened.has(name))
  const moveLane = (from: string, to: string) => MovedLanes.move(lanesOf(from), from, to)

  /** A renamed sink stays paused, and nothing is left of the lane that it had. */
  const adopt = Effect.fnUntraced(function* (from: string, name: string) {
    yield* openOne(name)
    const { paused = false, mute } = engine.lanes.backlogs.get(from) ?? {}
    if (paused !== false || mute !== undefined) yield* setPaused(engine, name, paused, mute)
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
      return MovedLanes.drop(lanesOf(name))
    })

  return {
    holding: started(
      attempt(() => {
        engine.flush()
        return [...engine.lanes.backlogs.holding()].map(({ info }) => info)
      }),
    ),
    lanes: started(
      attempt(() => {
        engine.flush()
        return engine.lanes.backlogs.infos(engine.lanes.readFrom, engine.head)
      }),
    ),
    createLanes: (names) => started(patient(() => create(engine, names))),
    openLane: (name, options) => started(openLane(name, options)),
    limitBacklog: (lane, max, maxBytes) => started(Effect.sync(() => engine.lanes.backlogs.limit(lane, max, maxBytes))),
    setPaused: (lane, paused, mute) => started(setPaused(engine, lane, paused, mute)),
    endPause: (lane, until) =>
      started(
        patient(() => {
          const { paused, mute } = engine.lanes.backlogs.get(lane) ?? {}
          if (paused === until) engine.apply(() => engine.lanes.setPaused(lane, false, mute))
        }),
      ),
    moveLane: (from, to) => started(moveLane(from, to)),
    dropLane: (name) => started(dropLane(name)),
    returned: (lane) => attempt(() => engine.guard(() => engine.lanes.retries.returned(lane))),
    readRetries: (lane, sequences) => readRetries(engine, lane, sequences),
  }
}
