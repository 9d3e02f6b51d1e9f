/**
 * A lane's attempts in flight: started, timed, interrupted when they are
 * overdue, and counted when they end.
 *
 * Attempts are not children of the pump: when it has stopped, a drain lets them
 * end.
 */
import { Cause, Duration, Effect, Exit, Fiber } from "effect"
import * as Containment from "../../sinks/Containment.ts"
import {
  DeliveryFailed,
  type Failures,
  type Reason,
  type Sink,
  type SinkError,
  SinkUnavailable,
} from "../../sinks/Sink.ts"
import type { AttemptStats } from "./AttemptStats.ts"
import type { Item } from "./Queue.ts"

export interface Batch {
  readonly items: ReadonlyArray<Item>
  /** Monotonic milliseconds. */
  readonly startedAt: number
}

/** Why an event was not delivered: the sink's reason, a bug, or the relay stopped during the attempt. */
export type Failure =
  | Reason
  | { readonly _tag: "Interrupted"; readonly message: string }
  | { readonly _tag: "Defect"; readonly message: string }

/** An attempt that has ended. */
export interface Attempt extends Batch {
  /** Why the batch failed as a whole. */
  readonly whole: Failure | undefined
  /** Why the event at this place was not delivered; `undefined` when it was. */
  readonly failure: (index: number) => Failure | undefined
  /** How many were delivered. */
  readonly delivered: number
  /** The code of the answer that delivered events, where the sink has one. */
  readonly code: number | undefined
  /** The bug that ended it, for the log. */
  readonly defect: Cause.Cause<unknown> | undefined
}

/** An attempt that takes longer is reported, in milliseconds. Some protocols give an answer many minutes. */
const longestUnreported = 60_000

type Running = Fiber.Fiber<Failures, SinkError>
export type Fork = (attempt: Effect.Effect<Failures, SinkError>) => Running
/** `fiber` is absent while it starts. */
interface Started {
  readonly batch: Batch
  /** It has no timeout. See `Sink.batch`. */
  readonly isAwaited: boolean
  fiber?: Running
}
type Ended = (batch: Batch, exit: Exit.Exit<Failures, SinkError>, now: number) => void

export class InFlight {
  /**
   * Not a map: what JavaScriptCore's maps held at their last rehash stays until a full collection, and with each batch
   * its events would.
   */
  readonly #running: Array<Started> = []
  readonly #fork: Fork
  /** Monotonic milliseconds. */
  readonly #now: () => number
  readonly #stats: AttemptStats
  readonly #timeout: Duration.Duration
  /** Attempts that were interrupted, and not for their time. */
  readonly #interrupted = new WeakMap<Batch, Failure>()
  #stopping = false

  constructor(fork: Fork, now: () => number, timeout: Duration.Duration, stats: AttemptStats) {
    this.#fork = fork
    this.#now = now
    this.#timeout = timeout
    this.#stats = stats
  }

  get size(): number {
    return this.#running.length
  }

  /** Epoch milliseconds when the oldest event in flight was received; infinite when there is none. */
  get oldestReceivedAt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { batch } of this.#running) {
      for (const { entry } of batch.items) oldest = Math.min(oldest, entry.event.receivedAt)
    }
    return oldest
  }

  /**
   * Whether an attempt may still take its time without a report: up to its timeout, and for a minute at most. The circuit
   * breaker reports those that have no timeout.
   */
  mayTakeTime(now: number): boolean {
    const unreported = Math.min(Duration.toMillis(this.#timeout), longestUnreported)
    return this.#running.some(({ batch, isAwaited }) => isAwaited || now - batch.startedAt < unreported)
  }

  /** Why nothing has ended although attempts are in flight. */
  standsBecause(now: number): string {
    return this.#running.some(({ batch }) => !this.#isOverdue(batch, now))
      ? `the sink has not answered for more than ${Duration.format(Duration.millis(longestUnreported))}; an attempt may take ${Duration.format(this.#timeout)}`
      : "an attempt has had its time, and does not end"
  }

  /** Starts an attempt. It may end before this returns. */
  start(sink: Sink, items: ReadonlyArray<Item>, ended: Ended): void {
    const batch: Batch = { items, startedAt: this.#now() }
    const started: Started = { batch, isAwaited: sink.batch.isAwaited === true }
    this.#running.push(started)
    const fiber = this.#fork(Effect.suspend(() => sink.send(items.map((item) => item.entry))))
    started.fiber = fiber
    const onEnd = (exit: Exit.Exit<Failures, SinkError>): void => {
      this.#running.splice(this.#running.indexOf(started), 1)
      const now = this.#now()
      this.#stats.observe((now - batch.startedAt) / 1_000)
      ended(batch, exit, now)
    }
    // The lane, and no more the sink, answers for all that follows from its end.
    fiber.addObserver((exit) => Containment.within(undefined, () => onEnd(exit)))
  }

  /** Interrupts attempts that have had their time; what is wrong with one that has, and is waited for all the same. */
  interruptOverdue(now: number): string | undefined {
    let stalled: string | undefined
    for (const { batch, isAwaited, fiber } of [...this.#running]) {
      if (!this.#isOverdue(batch, now)) continue
      if (isAwaited) stalled = this.#noAnswer
      else fiber?.interruptUnsafe()
    }
    return stalled
  }

  /** Interrupts all: another relay may send their events. They go back into the queue uncharged. */
  cutOff(): void {
    this.#interrupt(this.#running, { _tag: "Interrupted", message: "the stream may be another relay's" })
  }

  /** Interrupts those that the sink, which was closed, won't answer. Their events go back into the queue uncharged. */
  giveBack(message: string): void {
    const timed = this.#running.filter(({ isAwaited }) => !isAwaited)
    this.#interrupt(timed, new SinkUnavailable({ message }))
  }

  #interrupt(running: ReadonlyArray<Started>, failure: Failure): void {
    for (const { batch, fiber } of [...running]) {
      if (!this.#interrupted.has(batch)) this.#interrupted.set(batch, failure)
      fiber?.interruptUnsafe()
    }
  }

  /** Waits until all have ended, for `grace` at most; then interrupts them, and waits for those without a timeout no longer. */
  readonly stop = Effect.fnUntraced(function* (this: InFlight, grace: Duration.Duration) {
    this.#stopping = true
    const fibers = this.#running.flatMap(({ fiber }) => fiber ?? [])
    const timed = this.#running.flatMap(({ fiber, isAwaited }) => (isAwaited ? [] : (fiber ?? [])))
    yield* Effect.timeoutOption(Effect.forEach(fibers, Fiber.await, { concurrency: "unbounded" }), grace)
    for (const fiber of fibers) fiber.interruptUnsafe()
    yield* Fiber.awaitAll(timed)
  })

  /** Returns the outcome of an ended attempt, and counts it. */
  result(batch: Batch, exit: Exit.Exit<Failures, SinkError>, now: number): Attempt {
    const whole = Exit.isFailure(exit) ? this.#failure(exit.cause, batch, now) : undefined
    const failures = Exit.isSuccess(exit) ? exit.value : undefined
    const attempt: Attempt = {
      ...batch,
      whole,
      failure: (index) => whole ?? failures?.get(index)?.reason,
      code: failures?.code,
      delivered: failures === undefined ? 0 : batch.items.length - failures.size,
      defect: Exit.isFailure(exit) && whole?._tag === "Defect" ? exit.cause : undefined,
    }
    this.#count(attempt, now)
    return attempt
  }

  get #noAnswer(): string {
    return `no answer within ${Duration.format(this.#timeout)}`
  }

  #isOverdue(batch: Batch, now: number): boolean {
    return now - batch.startedAt >= Duration.toMillis(this.#timeout)
  }

  #failure(cause: Cause.Cause<SinkError>, batch: Batch, now: number): Failure {
    const error = Cause.findErrorOption(cause)
    if (error._tag === "Some") return error.value.reason
    if (!Cause.hasInterruptsOnly(cause)) {
      return { _tag: "Defect", message: "a bug in relay while sending; the log has its cause" }
    }
    const known = this.#interrupted.get(batch)
    if (known !== undefined) return known
    return this.#stopping && !this.#isOverdue(batch, now)
      ? { _tag: "Interrupted", message: "the relay stopped" }
      : new DeliveryFailed({ message: this.#noAnswer })
  }

  #count({ items, delivered, failure }: Attempt, now: number): void {
    if (delivered > 0) this.#stats.count("delivered", delivered)
    for (let index = 0; delivered < items.length && index < items.length; index++) {
      const why = failure(index)
      if (why !== undefined && why._tag !== "Interrupted") this.#stats.failed(why._tag, why.message, now)
    }
  }
}
