/**
 * The attempts of a lane that are under way: started, timed, cut off when they
 * are overdue, and counted when they land.
 *
 * Attempts are no children of the pump: when it has stopped, a drain lets them
 * end.
 */
import { Duration, Effect, type Exit, Fiber } from "effect"
import type { Failures, Sink, SinkError } from "../../sinks/Sink.ts"
import type { Item } from "./Queue.ts"

export interface Batch {
  readonly items: ReadonlyArray<Item>
  /** Monotonic milliseconds. */
  readonly startedAt: number
}

type Attempt = Effect.Effect<Failures, SinkError>
type Running = Fiber.Fiber<Failures, SinkError>
export type Fork = (attempt: Attempt) => Running
export type Completed = (flight: Batch, exit: Exit.Exit<Failures, SinkError>) => void

/** Upper bounds in seconds of the delivery duration histogram. */
export const durationBuckets = [0.005, 0.025, 0.1, 0.5, 1, 5, 10, 30] as const

export class InFlight {
  /** Events by what became of an attempt with them: `delivered`, or a reason's tag. */
  readonly outcomes: Record<string, number> = {}
  /** Attempts by duration: one count a bucket and one above them all; the sum is in seconds. */
  readonly durations = { counts: new Array<number>(durationBuckets.length + 1).fill(0), sum: 0 }
  readonly #underWay = new Map<Batch, Running | undefined>()
  readonly #fork: Fork
  readonly #timeout: number

  constructor(fork: Fork, timeout: Duration.Duration) {
    this.#fork = fork
    this.#timeout = Duration.toMillis(timeout)
  }

  get size(): number {
    return this.#underWay.size
  }

  all(): Iterable<Batch> {
    return this.#underWay.keys()
  }

  /** Starts an attempt. It may land before this returns. */
  start(sink: Sink, items: ReadonlyArray<Item>, now: () => number, landed: Completed): void {
    const flight: Batch = { items, startedAt: now() }
    this.#underWay.set(flight, undefined)
    const fiber = this.#fork(Effect.suspend(() => sink.send(items.map((item) => item.entry))))
    this.#underWay.set(flight, fiber)
    fiber.addObserver((exit) => {
      this.#underWay.delete(flight)
      this.#observe((now() - flight.startedAt) / 1_000)
      landed(flight, exit)
    })
  }

  /** Goes on counting where the lane's flights before these ended. */
  takeOver({ outcomes, durations }: InFlight): void {
    for (const [outcome, events] of Object.entries(outcomes)) this.count(outcome, events)
    durations.counts.forEach((count, bucket) => {
      this.durations.counts[bucket] = (this.durations.counts[bucket] ?? 0) + count
    })
    this.durations.sum += durations.sum
  }

  count(outcome: string, events: number): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + events
  }

  isOverdue(flight: Batch, now: number): boolean {
    return now - flight.startedAt >= this.#timeout
  }

  /** Cuts off what has had its time. */
  interruptOverdue(now: number): void {
    for (const [flight, fiber] of this.#underWay) if (this.isOverdue(flight, now)) fiber?.interruptUnsafe()
  }

  /** Waits until all have landed, and cuts off those that don't within `grace`. */
  settleAll(grace: Duration.Duration): Effect.Effect<void> {
    return Effect.suspend(() => {
      const fibers = [...this.#underWay.values()].flatMap((fiber) => fiber ?? [])
      return Effect.forEach(fibers, Fiber.await, { concurrency: "unbounded", discard: true }).pipe(
        Effect.timeoutOption(grace),
        Effect.andThen(Fiber.interruptAll(fibers)),
      )
    })
  }

  #observe(seconds: number): void {
    const bucket = durationBuckets.findIndex((bound) => seconds <= bound)
    const index = bucket === -1 ? durationBuckets.length : bucket
    this.durations.counts[index] = (this.durations.counts[index] ?? 0) + 1
    this.durations.sum += seconds
  }
}
