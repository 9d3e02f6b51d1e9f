/**
 * A sink that is opened when it is first needed, and again after opening
 * failed: the relay starts and accepts events while a broker is away, and the
 * lane's circuit breaker paces the attempts as it paces any other.
 *
 * **Guarantee.** An error of its client library that nobody caught costs this
 * sink alone: it is closed, and opened anew after a wait that doubles. Attempts
 * in flight end at once, and their events wait uncharged.
 */
import { Cause, Clock, Effect, Exit, Scope, Semaphore } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import * as Containment from "../sinks/Containment.ts"
import { type Sink, type SinkError, unavailable } from "../sinks/Sink.ts"
import { BugWaits } from "./Bugs.ts"
import type { AttemptStats } from "./lane/AttemptStats.ts"

/** Until it is open nothing is known about its batches: one event at a time. */
const cautious: Sink["batch"] = { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY }

/** A user of a sink: a lane. */
export interface User {
  readonly name: string
  /** The lanes of a name: a sink has one in each stream. */
  readonly stats: AttemptStats
  /** The sink was closed for a bug: what is in flight won't be answered. */
  readonly broke: (message: string) => void
}

/** `libraries` as in `SinkType`. */
export interface Kind {
  readonly type: string
  readonly libraries: ReadonlyArray<string>
}

interface Opened {
  readonly sink: Sink
  readonly scope: Scope.Closeable
}

export const make = Effect.fnUntraced(function* (kind: Kind, open: Effect.Effect<Sink, SinkError, Scope.Scope>) {
  const scope = yield* Scope.Scope
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const opening = yield* Semaphore.make(1)
  const users = new Set<User>()
  let opened: Opened | undefined
  /** Ends an opening under way. */
  let abandon: (() => void) | undefined
  const waits = new BugWaits()
  let bug = { at: Number.NEGATIVE_INFINITY, until: Number.NEGATIVE_INFINITY, message: "" }

  const now = () => Monotonic.millis(clock)

  const broke = (error: unknown): void => {
    const at = now()
    const wait = waits.next(at - bug.at)
    const kindOf = error instanceof Error ? error.name : typeof error
    const message = `a bug in its client library (${kindOf}): the sink was closed and is opened anew in ${wait / 1_000} s; the log has the cause`
    bug = { at, until: at + wait, message }
    const closing = opened
    opened = undefined
    abandon?.()
    const names = [...new Set([...users].map(({ name }) => name))]
    const said = names.length === 0 ? `a sink of type ${kind.type} that is closed` : `sink ${names.join(", ")}`
    run(Effect.logError(`${said}: ${message}`, Cause.die(error)).pipe(Effect.annotateLogs({ sink: names.join(", ") })))
    for (const stats of new Set([...users].map((user) => user.stats))) stats.bug(message, at)
    for (const user of users) user.broke(message)
    if (closing !== undefined) run(asOwner(Scope.close(closing.scope, Exit.void)))
  }
  const owner: Containment.Owner = { ...kind, broke }
  const asOwner = Containment.as(owner)
  yield* Containment.register(owner)

  const brokeMeanwhile = Effect.callback<never, SinkError>((resume) => {
    abandon = () => resume(Effect.fail(unavailable(bug.message)))
    return Effect.sync(() => {
      abandon = undefined
    })
  })

  const ensureOpen = opening.withPermits(1)(
    Effect.suspend(() => {
      if (opened !== undefined) return Effect.succeed(opened.sink)
      if (now() < bug.until) return Effect.fail(unavailable(bug.message))
      return Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const own = yield* Scope.fork(scope)
          const exit = yield* Effect.exit(restore(Effect.raceFirst(brokeMeanwhile, asOwner(Scope.provide(open, own)))))
          if (Exit.isFailure(exit)) {
            yield* Scope.close(own, exit)
            return yield* exit
          }
          opened = { sink: exit.value, scope: own }
          return exit.value
        }),
      )
    }),
  )

  const sink: Sink = {
    get batch() {
      return opened?.sink.batch ?? cautious
    },
    send: (batch) =>
      opened === undefined ? Effect.flatMap(ensureOpen, (sink) => sink.send(batch)) : opened.sink.send(batch),
    check: asOwner(Effect.flatMap(ensureOpen, (sink) => sink.check)),
  }
  return {
    sink,
    ensureOpen,
    /** Runs what sends: what comes of it is this sink's. */
    within: <A>(run: () => A): A => Containment.within(owner, run),
    /** Tells a lane of bugs until its scope closes. */
    use: (user: User): Effect.Effect<void, never, Scope.Scope> =>
      Effect.acquireRelease(Effect.asVoid(Effect.sync(() => users.add(user))), () =>
        Effect.sync(() => users.delete(user)),
      ),
  }
})
export type LazySink = Effect.Success<ReturnType<typeof make>>
