/**
 * Looks at the lanes over one stream each second: what the journal counts of
 * them, whether an operator has paused or resumed one at another relay, and
 * whether one stands still.
 */
import { Duration, Effect } from "effect"
import { rounds } from "../event/Rounds.ts"
import type { Log } from "../journal/Journal.ts"
import type { Lane } from "./lane/Lane.ts"

const countEvery = Duration.seconds(1)

/** Looks at the lanes for ever. */
export const looking = (log: Log, lanes: () => ReadonlyArray<Lane>): Effect.Effect<never> => {
  const count = Effect.gen(function* () {
    // Read before the journal counts: events that it does not know of by then have ended all the same.
    const before = lanes().map((lane) => ({ lane, ended: lane.progress.endedOnDisk }))
    const infos = new Map((yield* log.lanes).map((info) => [info.name, info]))
    const now = new Set(lanes())
    for (const { lane, ended } of before) {
      const info = infos.get(lane.config.name)
      if (info !== undefined && now.has(lane)) lane.counted(info, ended)
    }
  })
  // Also where the journal can't be asked: then by what it counted last.
  const watch = Effect.suspend(() =>
    Effect.forEach(
      lanes().filter((lane) => lane.watch()),
      ({ config: { name }, state: { stalled } }) =>
        Effect.annotateLogs(
          stalled === ""
            ? Effect.logInfo(`sink ${name}: its lane goes on`)
            : Effect.logError(`sink ${name}: its lane stands still: ${stalled}`),
          { sink: name },
        ),
      { discard: true },
    ),
  )
  const counting = rounds("counting dead letters and backlogs", Effect.ignore(count), countEvery)
  return Effect.delay(Effect.raceFirst(counting, rounds("watching the lanes", watch, countEvery)), countEvery)
}
