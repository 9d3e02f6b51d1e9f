/**
 * Starts a lane's attempts, times them, interrupts overdue ones, and counts them
 * when they end.
 *
 * Attempts are not children of the pump's fiber, so that a drain can let them end
 * after the pump has stopped.
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
import type { LaneClock } from "./LaneClock.ts"
import type { Item } from "./Queue.ts"

/** Upper bounds in seconds of the delivery duration histogram. */
export const durationBuckets = [0.005, 0.025, 0.1, 0.5, 1, 5, 10, 30] as const
/** Upper bounds in seconds of the histogram of the time from acceptance to delivery: 10 ms to a day. */
export const latencyBuckets = [0.01, 0.1, 1, 10, 60, 300, 1_800, 7_200, 43_200, 86_400] as const

/** Counts of values by bucket, and their sum. */
class Histogram {
  /** One count for each bound, and one above them all. */
  readonly counts: Array<number>
  sum = 0
  readonly #bounds: ReadonlyArray<number>

  constructor(bounds: ReadonlyArray<number>) {
    this.#bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    const bucket = this.#bounds.findIndex((bound) => value <= bound)
    const index = bucket === -1 ? this.#bounds.length : bucket
    this.counts[index] = (this.counts[index] ?? 0) + 1
    this.sum += value
  }
}

/**
 * Counts a sink's attempts since the start, by outcome and by duration. A new lane
 * of the sink continues the counts of the last one.
 */
export class AttemptStats {
  /** Events by the outcome of their attempt: `delivered`, or a reason's tag. */
  readonly outcomes: Record<string, number> = {}
  /** Attempts by duration, in seconds. */
  readonly durations = new Histogram(durationBuckets)
  /** Events by the time from their acceptance to their delivery, in seconds. Replays from the journal don't count. */
  readonly latencies = new Histogram(latencyBuckets)
  /** The last failed attempt; `at` is in monotonic milliseconds. */
  lastFailure: { readonly at: number; readonly message: string } | undefined

  /** The number of times that the sink was closed because of a bug in its client library. */
  bugs = 0

  bug(message: string, at: number): void {
    this.bugs += 1
    this.lastFailure = { at, message }
  }

  count(outcome: string, events: number): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + events
  }

  failed(tag: string, message: string, at: number): void {
    this.count(tag, 1)
    this.lastFailure = { at, message }
  }
}

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
  /** Why the event at this index was not delivered, or `undefined` if it was. */
  readonly failure: (index: number) => Failure | undefined
  /** The number of delivered events. */
  readonly delivered: number
  /** The response code for the delivered events, if the sink has one. */
  readonly code: number | undefined
  /** The service's reference to the message of an alert, if it returned one. */
  readonly reference: string | undefined
  /** The bug that ended it, for the log. */
  readonly defect: Cause.Cause<unknown> | undefined
}

/** Milliseconds after which a running attempt is reported, although some protocols allow many minutes for an answer. */
const longestUnreported = 60_000

type Running = Fiber.Fiber<Failures, SinkError>
export type Fork = (attempt: Effect.Effect<Failures, SinkError>) => Running
/** `fiber` is absent while the attempt starts. */
interface Started {
  readonly batch: Batch
  /** The attempt has no timeout. See `Sink.batch`. */
  readonly isAwaited: boolean
  fiber?: Running
}
type Ended = (batch: Batch, exit: Exit.Exit<Failures, SinkError>, now: number) => void

export class InFlight {
  /**
   * An array, not a map: JavaScriptCore's maps keep removed entries from their last rehash alive until a full
   * collection, and each batch keeps its events alive.
   */
  readonly #running: Array<Started> = []
  readonly #fork: Fork
  readonly #clock: LaneClock
  readonly #stats: AttemptStats
  readonly #timeout: Duration.Duration
  /** Attempts that were interrupted for another reason than a timeout. */
  readonly #interrupted = new WeakMap<Batch, Failure>()
  #stopping = false

  constructor(fork: Fork, clock: LaneClock, timeout: Duration.Duration, stats: AttemptStats) {
    this.#fork = fork
    this.#clock = clock
    this.#timeout = timeout
    this.#stats = stats
  }

  get size(): number {
    return this.#running.length
  }

  /** Epoch milliseconds when the oldest event in flight was received, or infinity if there is none. */
  get oldestReceivedAt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { batch } of this.#running) {
      for (const { entry } of batch.items) oldest = Math.min(oldest, entry.event.receivedAt)
    }
    return oldest
  }

  /**
   * Reports whether some attempt is still within its time: up to its timeout, and at most a minute. Attempts without a
   * timeout always are, because the circuit breaker reports them.
   */
  mayTakeTime(now: number): boolean {
    const unreported = Math.min(Duration.toMillis(this.#timeout), longestUnreported)
    return this.#running.some(({ batch, isAwaited }) => isAwaited || now - batch.startedAt < unreported)
  }

  /** Explains why no attempt in flight has ended. */
  stallCause(now: number): string {
    return this.#running.some(({ batch }) => !this.#isOverdue(batch, now))
      ? `the sink has not answered for more than ${Duration.format(Duration.millis(longestUnreported))}; an attempt may take ${Duration.format(this.#timeout)}`
      : "an attempt has had its time, and does not end"
  }

  /** Starts an attempt. It may end before this returns. */
  start(sink: Sink, items: ReadonlyArray<Item>, ended: Ended): void {
    const batch: Batch = { items, startedAt: this.#clock.now() }
    const started: Started = { batch, isAwaited: sink.batch.isAwaited === true }
    this.#running.push(started)
    const fiber = this.#fork(Effect.suspend(() => sink.send(items.map((item) => item.entry))))
    started.fiber = fiber
    const onEnd = (exit: Exit.Exit<Failures, SinkError>): void => {
      this.#running.splice(this.#running.indexOf(started), 1)
      const now = this.#clock.now()
      this.#stats.durations.observe((now - batch.startedAt) / 1_000)
      ended(batch, exit, now)
    }
    // After the attempt has ended, uncaught errors belong to the lane and not to the sink.
    fiber.addObserver((exit) => Containment.within(undefined, () => onEnd(exit)))
  }

  /**
   * Interrupts overdue attempts. Attempts without a timeout continue; if one is overdue, returns a message about it.
   */
  interruptOverdue(now: number): string | undefined {
    let stalled: string | undefined
    for (const { batch, isAwaited, fiber } of [...this.#running]) {
      if (!this.#isOverdue(batch, now)) continue
      if (isAwaited) stalled = this.#noAnswer
      else fiber?.interruptUnsafe()
    }
    return stalled
  }

  /**
   * Interrupts all attempts, because another relay may send their events. The events go back into the queue uncharged.
   */
  cutOff(): void {
    this.#interrupt(this.#running, { _tag: "Interrupted", message: "the stream may be another relay's" })
  }

  /**
   * Interrupts the attempts with a timeout, because the sink was closed and won't answer. Their events go back into the
   * queue uncharged.
   */
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

  /**
   * Waits up to `grace` for all attempts to end, then interrupts the rest. Waits for their end, except for attempts
   * without a timeout.
   */
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
      reference: failures?.reference ?? (whole !== undefined && "reference" in whole ? whole.reference : undefined),
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
      return { _tag: "Defect", message: "internal error while sending; the log has the cause, please report it" }
    }
    const known = this.#interrupted.get(batch)
    if (known !== undefined) return known
    return this.#stopping && !this.#isOverdue(batch, now)
      ? { _tag: "Interrupted", message: "the relay stopped" }
      : new DeliveryFailed({ message: this.#noAnswer })
  }

  #count({ items, delivered, failure }: Attempt, now: number): void {
    if (delivered > 0) this.#stats.count("delivered", delivered)
    const wall = this.#clock.wall()
    items.forEach(({ entry }, index) => {
      const why = failure(index)
      if (why !== undefined && why._tag !== "Interrupted") this.#stats.failed(why._tag, why.message, now)
      if (why === undefined && !entry.replayed) {
        this.#stats.latencies.observe(Math.max(0, wall - entry.event.receivedAt) / 1_000)
      }
    })
  }
}
