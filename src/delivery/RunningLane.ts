/**
 * Runs a lane over its sink. If a bug ends the lane, it is recreated from the
 * journal, and the events that it held in memory are read again.
 */
import { Duration, Effect, Exit, Schedule } from "effect"
import { rounds } from "../event/Rounds.ts"
import type { OpenedLane } from "../journal/Journal.ts"
import { BugWaits, logBug } from "./Bugs.ts"
import { type LaneSpec, openOptions } from "./LaneSpec.ts"
import * as Lane from "./lane/Lane.ts"
import { settleEvery } from "./ProgressStore.ts"
import type { AcquiredSink } from "./SinkPool.ts"

/** The retries for storing the decisions of an ended lane. */
const settleRetries = Schedule.max([Schedule.spaced(settleEvery), Schedule.recurs(20)])
/** How often the deadlines of a lane's last attempts are checked. */
const pollEvery = Duration.millis(25)

export interface Options extends Pick<Lane.LaneOptions, "log" | "events" | "stats" | "wallClock"> {
  readonly spec: LaneSpec
  readonly acquired: AcquiredSink
  /** Time limit for attempts in flight when the lane ends. */
  readonly grace: () => Duration.Duration
  /** Stores the progress: see `ProgressStore.ts`. */
  readonly settle: Effect.Effect<ReadonlySet<Lane.Lane>>
}

export const make = Effect.fnUntraced(function* (options: Options, opened: OpenedLane) {
  const { spec, acquired, log, events, stats, wallClock, grace, settle } = options
  const { config, key } = spec
  const { name } = config
  const place = (state: OpenedLane) =>
    Lane.make({ config, key, sink: acquired.sink, within: acquired.within, log, state, events, stats, wallClock })
  let lane = yield* place(opened)

  /** Starts no more attempts and waits for those in flight, which keep their deadline. */
  const end = Effect.suspend(() => {
    const ending = lane
    const endAttempts = Effect.sync(() => ending.endAttempts())
    const keepTime = Effect.delay(rounds("ending attempts", endAttempts, pollEvery), pollEvery)
    return Effect.andThen(
      Effect.raceFirst(ending.drain(grace()), keepTime),
      Effect.sync(() => ending.state.end()),
    )
  })
  const isStored = (unstored: ReadonlySet<Lane.Lane>) => !unstored.has(lane)
  /**
   * Ends the lane and stores its decisions. If they can't be stored within the retries, the deliveries are repeated, as
   * after a crash.
   */
  const finish = Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))

  const withSink = Effect.annotateLogs({ sink: name })
  const waits = new BugWaits()
  const run = Effect.gen(function* () {
    for (;;) {
      const started = lane.clock.now()
      const exit = yield* Effect.exit(Effect.andThen(Effect.ignore(acquired.ensureOpen), lane.run))
      if (Exit.isSuccess(exit)) return
      const wait = waits.next(lane.clock.now() - started)
      const within = `it restarts within ${wait / 1_000} s`
      lane.state.fail(`a bug in relay ended the lane; ${within}, and the log has the cause`)
      yield* withSink(logBug(`the lane of sink ${name} ended, ${waits.inARow} in a row; ${within}`, exit.cause))
      yield* finish
      yield* Effect.sleep(wait)
      const opening = log.openLane(name, openOptions(config))
      const next = yield* place(yield* Effect.retry(opening, { schedule: Schedule.spaced("1 second") }))
      next.state.inherit(lane.state.blocked)
      lane = next
      yield* withSink(Effect.logInfo(`sink ${name}: the lane was restarted`))
    }
  })

  return {
    acquired,
    /** The lane that runs now. */
    current: (): Lane.Lane => lane,
    run,
    end,
    finish,
  }
})
export type RunningLane = Effect.Success<ReturnType<typeof make>>
