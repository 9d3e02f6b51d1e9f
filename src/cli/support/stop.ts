/**
 * The stop of `relay run`, up to the drain that the end of its scope begins.
 *
 * SIGTERM first makes `/readyz` false and goes on accepting deliveries for
 * `drain.delay`, until load balancers have noticed. Then deliveries get 503 for
 * `drain.refuse`. SIGINT comes from a person at a terminal and skips both waits.
 */
import { Clock, type Context, Duration, Effect } from "effect"
import { type StopWaits, stopDeadline } from "../../config/Config.ts"
import type { Listening } from "../../Relay.ts"
import { Notify } from "../../runtime/Notify.ts"
import { awaitSignal, type Signal, stopItself } from "../../runtime/Runtime.ts"
import { Stderr } from "../../runtime/Stderr.ts"
import { again, type CommandError } from "./CommandError.ts"

type Relay = Context.Service.Shape<typeof Listening>

export interface Stop {
  /** Called once the relay listens. Before that a stop has no waits. */
  readonly started: (relay: Relay) => void
  /** Ends when the drain should begin. */
  readonly stopped: Effect.Effect<void>
  /** Begins the stop. */
  readonly startAgain: Effect.Effect<void>
  /** Succeeds after a stop, or fails so that the service manager starts the relay again, if `startAgain` began it. */
  readonly ended: Effect.Effect<void, CommandError>
}

const kept = "everything accepted is on disk, and what was in flight is sent again after the next start"
const noWaits: StopWaits = { delay: Duration.zero, refuse: Duration.zero }

/** Waits, and says so, unless the wait is zero. */
const wait = (time: Duration.Duration, message: string): Effect.Effect<void> =>
  Duration.isZero(time)
    ? Effect.void
    : Effect.andThen(Effect.logInfo(`${message} for ${Duration.format(time)}`), Effect.sleep(time))

export const makeStop = (): Stop => {
  let relay: Relay | undefined
  let isStartedAgain = false
  const waitsAt = (signal: Signal): StopWaits =>
    relay === undefined || signal === "SIGINT" ? noWaits : relay.config().drain

  const stopped = Effect.gen(function* () {
    const log = Effect.runSyncWith(yield* Effect.context<never>())
    const { flush } = yield* Stderr
    const signal = yield* awaitSignal({
      deadline: (signal) => stopDeadline(waitsAt(signal)),
      onExit: (why) => {
        log(Effect.logWarning(`${why}: exiting immediately; ${kept}`))
        return flush()
      },
    })
    const waits = waitsAt(signal)
    yield* relay?.leave ?? Effect.void
    const deadline = Duration.toMillis(stopDeadline(waits))
    const until = new Date((yield* Clock.currentTimeMillis) + deadline).toISOString()
    yield* Effect.logInfo(`${signal}: draining, until ${until} at the latest; a second signal exits immediately`)
    yield* (yield* Notify).say("STOPPING=1", `STATUS=draining, until ${until} at the latest`)
    yield* wait(waits.delay, "not ready, and still accepting deliveries")
    yield* relay?.refuse ?? Effect.void
    yield* wait(waits.refuse, "refusing deliveries")
  })
  return {
    started: (listening) => {
      relay = listening
    },
    stopped,
    startAgain: Effect.suspend(() => {
      isStartedAgain = true
      return stopItself
    }),
    ended: Effect.suspend(() =>
      isStartedAgain ? Effect.fail(again("stopped, so that the service manager starts the relay again")) : Effect.void,
    ),
  }
}
