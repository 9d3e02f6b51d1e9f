/**
 * The sinks that are open, by type and resolved config.
 *
 * **Guarantee.** A sink keeps its connections while a lane uses it. A reload that
 * changes only a lane's name or its delivery settings opens no connection.
 */
import { Cause, Clock, Effect, Equal, Exit, Hash, RcMap, Scope, Semaphore } from "effect"
import { digestOf, type LaneConfig } from "../config/Config.ts"
import * as Monotonic from "../event/Monotonic.ts"
import * as Containment from "../sinks/Containment.ts"
import { type Sink, type SinkError, unavailable } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import { Tracing } from "../telemetry/Tracing.ts"
import { BugWaits } from "./Bugs.ts"
import type { LaneSpec } from "./LaneSpec.ts"
import type { AttemptStats } from "./lane/InFlight.ts"

/** Used until the sink is open, because its batch size is unknown: one event at a time. */
const cautious: Sink["batch"] = { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY }

/** A lane that uses the sink. */
interface User {
  readonly name: string
  /** Shared by all lanes of this name: a sink has one lane in each stream. */
  readonly stats: AttemptStats
  /** Called when the sink was closed because of a bug: attempts in flight get no response. */
  readonly broke: (message: string) => void
}

/** `libraries` as in `SinkType`. */
interface Kind {
  readonly type: string
  readonly libraries: ReadonlyArray<string>
}

interface Opened {
  readonly sink: Sink
  readonly scope: Scope.Closeable
}

/**
 * A sink that opens when it is first needed, and tries again if opening fails. So the relay starts and accepts
 * events while a broker is unavailable. The lane's circuit breaker paces the attempts to open it, as it paces
 * deliveries.
 *
 * **Guarantee.** An uncaught error of a client library affects only its own sink. The sink is closed and reopened
 * after a wait that doubles each time. Attempts in flight end immediately, and their events wait without being
 * charged an attempt.
 */
const makeLazy = Effect.fnUntraced(function* (kind: Kind, open: Effect.Effect<Sink, SinkError, Scope.Scope>) {
  const scope = yield* Scope.Scope
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const opening = yield* Semaphore.make(1)
  const users = new Set<User>()
  let opened: Opened | undefined
  /** Cancels an attempt to open the sink. */
  let abandon: (() => void) | undefined
  const waits = new BugWaits()
  let bug = { at: Number.NEGATIVE_INFINITY, until: Number.NEGATIVE_INFINITY, message: "" }

  const now = () => Monotonic.millis(clock)

  const broke = (error: unknown): void => {
    const at = now()
    const wait = waits.next(at - bug.at)
    const kindOf = error instanceof Error ? error.name : typeof error
    const message = `a bug in its client library (${kindOf}): the sink was closed and is reopened in ${wait / 1_000} s; the log has the cause`
    bug = { at, until: at + wait, message }
    const closing = opened
    opened = undefined
    abandon?.()
    const names = [...new Set([...users].map(({ name }) => name))]
    const affected = names.length === 0 ? `a sink of type ${kind.type} that is closed` : `sink ${names.join(", ")}`
    run(
      Effect.logError(`${affected}: ${message}`, Cause.die(error)).pipe(
        Effect.annotateLogs({ sink: names.join(", ") }),
      ),
    )
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
    /** Runs a send, so that errors that follow from it are attributed to this sink. */
    within: <A>(run: () => A): A => Containment.within(owner, run),
    /** Reports bugs to the lane until the scope closes. */
    use: (user: User): Effect.Effect<void, never, Scope.Scope> =>
      Effect.acquireRelease(Effect.asVoid(Effect.sync(() => users.add(user))), () =>
        Effect.sync(() => users.delete(user)),
      ),
  }
})
type LazySink = Effect.Success<ReturnType<typeof makeLazy>>

/** A sink in use by a lane. It stays open until its scope closes. */
export interface AcquiredSink extends Pick<LazySink, "sink" | "ensureOpen" | "within"> {
  readonly scope: Scope.Closeable
}

/** Sinks of the same type and config share one key. A sink without a config is identified by its `open` effect. */
class SinkKey implements Equal.Equal {
  readonly type: string
  readonly config: unknown
  readonly open: Effect.Effect<Sink, SinkError, Scope.Scope>

  constructor(type: string, config: unknown, open: SinkKey["open"]) {
    this.type = type
    this.config = config
    this.open = open
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      that instanceof SinkKey &&
      this.type === that.type &&
      Equal.equals(this.config, that.config) &&
      (this.config !== undefined || this.open === that.open)
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.hash(this.config))(Hash.hash(this.type))
  }
}

/** The part of a lane's config that concerns its sink. */
const sinkConfig = (lane: LaneConfig) => lane.config && [lane.config, digestOf(lane) && lane.key, lane.enrich]
const keyOf = ({ config, open }: LaneSpec) => new SinkKey(config.type, sinkConfig(config), open)

export const make = Effect.gen(function* () {
  const tracing = yield* Tracing
  const pool = yield* RcMap.make({
    lookup: ({ type, open }: SinkKey) => makeLazy({ type, libraries: sinkTypes[type]?.libraries ?? [] }, open),
  })
  return {
    /** Reports whether a lane of any stream uses this sink. */
    isOpen: (spec: LaneSpec) => RcMap.has(pool, keyOf(spec)),
    /**
     * Acquires a sink for a lane until the scope closes. It opens on first use, unless another lane has already opened
     * it.
     */
    acquire: Effect.fnUntraced(function* (spec: LaneSpec, user: User) {
      const { name, type } = spec.config
      const { sink, ensureOpen, within, use } = yield* RcMap.get(pool, keyOf(spec))
      yield* use(user)
      return { sink: tracing === undefined ? sink : tracing.traced(sink, name, type), ensureOpen, within }
    }),
  }
})
export type Pool = Effect.Success<typeof make>
