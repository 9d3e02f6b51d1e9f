/**
 * Checks the lanes over one stream each second, except idle ones. It reads the
 * journal's counts, notices that an operator paused or resumed a lane at another
 * relay, makes lanes take up replayed dead letters, and finds stalled lanes.
 */
import { Duration, Effect } from "effect"
import { rounds } from "../event/Rounds.ts"
import type { JournalError, Log } from "../journal/Journal.ts"
import type { Counted, Lane } from "./lane/Lane.ts"

const countEvery = Duration.seconds(1)
const idle: Counted = { backlog: 0, deadLetterBytes: 0, paused: false }

/**
 * Checks the lanes of `log`. `get` finds a lane by its name, and `takeUp` makes a
 * lane take up its replayed dead letters.
 */
export const make = (
  log: Log,
  get: (name: string) => Lane | undefined,
  takeUp: (lane: Lane) => Effect.Effect<void, JournalError>,
) => {
  const active = new Set<string>()
  const attend = (name: string): void => {
    if (active.has(name)) return
    active.add(name)
    get(name)?.watchAgain()
  }
  const lanes = (): ReadonlyArray<Lane> => [...active].flatMap((name) => get(name) ?? [])

  const count = Effect.gen(function* () {
    // Read before the journal counts, because events may end before the journal stores that they did.
    const before = lanes().map((lane) => ({ lane, ended: lane.progress.endedOnDisk }))
    const infos = new Map((yield* log.holding).map((info) => [info.name, info]))
    for (const { lane, ended } of before) {
      const { name } = lane.config
      if (get(name) === lane) lane.counted(infos.get(name) ?? idle, ended)
      if (!infos.has(name) && lane.isIdle) active.delete(name)
      if (get(name) === lane && (infos.get(name)?.returned ?? 0) > 0) yield* takeUp(lane)
      infos.delete(name)
    }
    // An operator has paused it at another relay.
    for (const [name, info] of infos) {
      const lane = get(name)
      if (lane === undefined) continue
      attend(name)
      lane.counted(info, lane.progress.endedOnDisk)
      if (info.returned > 0) yield* takeUp(lane)
    }
  })
  // Runs even if the journal can't be read; then it uses the last counts.
  const watch = Effect.suspend(() =>
    Effect.forEach(
      lanes().filter((lane) => lane.watch()),
      ({ config: { name }, state: { stalled } }) =>
        Effect.annotateLogs(
          stalled === ""
            ? Effect.logInfo(`sink ${name}: its lane continues`)
            : Effect.logError(`sink ${name}: its lane has stalled: ${stalled}`),
          { sink: name },
        ),
      { discard: true },
    ),
  )
  const counting = rounds("counting dead letters and backlogs", Effect.ignore(count), countEvery)
  return {
    /** Called when a lane did something. The lane is checked until it is idle. */
    active: attend,
    /** Checks the lanes forever. */
    looking: Effect.delay(Effect.raceFirst(counting, rounds("watching the lanes", watch, countEvery)), countEvery),
  }
}
