/**
 * A lane's circuit breaker decides whether the sink is healthy enough for an
 * attempt.
 *
 * It opens after `pauseAfter` failures in a row with at least three different
 * events. Until then, the lane only backs off. From the second failure in a row,
 * attempts go one at a time, each with a different event, so that one bad event
 * doesn't look like a bad sink.
 *
 * Pure state: callers pass the monotonic time in milliseconds.
 */
import type { Delivery, LaneConfig } from "../../config/Config.ts"
import { brief, type Reason } from "../../sinks/Sink.ts"
import { backoff, throttled } from "./LaneClock.ts"

export type OpenCondition = "waiting" | "misconfigured"

/** A failure is charged to the sink, not the event, once this many different events have had it. */
const differentEvents = 3
/** Maximum milliseconds between probes. A probe is cheap, and an hour's backlog is not. */
const longestWait = 30_000

/** Reasons that say something about the sink, not only about an event. */
export type SinkFailure = Exclude<Reason, { readonly _tag: "DeliveryRejected" }>

export interface Judgement {
  /** This failure opened the circuit. */
  readonly opened: boolean
  /** Events whose charged attempt is refunded, because the sink failed others as well. */
  readonly refunded: ReadonlyArray<number>
}

export class CircuitBreaker {
  readonly #delivery: Delivery
  readonly #random: () => number
  /** Failed attempts in a row. */
  #consecutive = 0
  /** Failures in a row; attempts that were in flight together count as one failure. The wait depends on it. */
  #level = 0
  #escalatedAt = 0
  /** Events that were charged with an attempt since the last success. */
  #charged: ReadonlyArray<number> = []
  #failed = new Set<number>()
  #until = 0
  /** Set while the circuit is open. */
  condition: OpenCondition | undefined
  /** Why the last attempt failed; empty once the sink has answered. */
  message = ""

  constructor({ delivery }: Pick<LaneConfig, "delivery">, random: () => number) {
    this.#delivery = delivery
    this.#random = random
  }

  /**
   * Reports whether attempts go one at a time. A single failure isn't enough, because a poisoned event is not an
   * outage.
   */
  get probing(): boolean {
    return this.#consecutive > 1 || this.condition !== undefined
  }

  /** No attempt starts before this time. */
  get until(): number {
    return this.#until
  }

  /** Returns how many events may be sent at `now`; `inFlight` is the number of attempts in flight. */
  allowance(now: number, inFlight: number): number {
    if (now < this.#until || (this.probing && inFlight > 0)) return 0
    return this.probing ? 1 : Number.POSITIVE_INFINITY
  }

  /** Called when the sink answered, which clears its earlier failures. Returns true if this closes the circuit. */
  answered(): boolean {
    const wasOpen = this.condition !== undefined
    this.#consecutive = 0
    this.#level = 0
    this.#charged = []
    this.#failed.clear()
    this.#until = 0
    this.condition = undefined
    this.message = ""
    return wasOpen
  }

  /** Records a failed attempt with these events. A digest counts once, because it is one message. */
  failed(
    reason: SinkFailure,
    sequences: ReadonlyArray<number>,
    startedAt: number,
    now: number,
    isDigest = false,
  ): Judgement {
    this.#count(isDigest ? sequences.slice(0, 1) : sequences, startedAt, now)
    const opened = this.#judge(reason, now)
    const charged = reason._tag === "DeliveryFailed" ? sequences : []
    const before = this.#charged
    this.#charged = opened ? [] : this.condition === undefined ? [...before, ...charged] : charged
    if (opened) return { opened, refunded: [...before, ...charged] }
    return { opened, refunded: this.condition === undefined ? [] : before }
  }

  /** Lets the next probe go without waiting, because its event is another one and may succeed. */
  hurry(now: number): void {
    this.#until = Math.min(this.#until, now)
  }

  /**
   * Called when an attempt without a timeout has exceeded its time. Returns true if this opens the circuit. The
   * attempt's end closes it.
   */
  stalled(message: string): boolean {
    return this.#open("waiting", message)
  }

  /**
   * Records events that were charged an attempt that isn't the sink's fault. If the sink turns out to be unavailable,
   * the attempts are refunded.
   */
  charged(sequences: ReadonlyArray<number>): void {
    if (sequences.length > 0) this.#charged = [...this.#charged, ...sequences]
  }

  #judge(reason: SinkFailure, now: number): boolean {
    const message = brief(reason.message)
    const wait = (failures: number) => Math.min(backoff(this.#delivery.retry, failures, this.#random()), longestWait)
    switch (reason._tag) {
      case "SinkThrottled":
        this.#until = Math.max(this.#until, now + throttled(reason.retryAfter))
        return this.#open("waiting", message)
      case "SinkMisconfigured":
        this.#until = now + wait(this.#level)
        return this.#open("misconfigured", message)
      case "SinkUnavailable":
      case "DeliveryFailed":
        // There is no wait after the first failure, because a connection that the other side closed when idle is not an
        // outage.
        this.#until = this.#level === 1 ? this.#until : now + wait(this.#level - 1)
        this.message = message
        // The failure is a different one now, which needs no correction of the config.
        if (this.condition === "misconfigured") return this.#open("waiting", message)
        if (
          this.condition === undefined &&
          this.#consecutive >= this.#delivery.pauseAfter &&
          this.#failed.size >= differentEvents
        ) {
          return this.#open("waiting", message)
        }
        return false
    }
  }

  #count(sequences: ReadonlyArray<number>, startedAt: number, now: number): void {
    this.#consecutive += 1
    // Attempts that were in flight together also fail together. They count as one failure of the sink, not sixteen.
    if (startedAt >= this.#escalatedAt) {
      this.#level += 1
      this.#escalatedAt = now
    }
    for (const sequence of sequences) {
      if (this.#failed.size < differentEvents) this.#failed.add(sequence)
    }
  }

  /** Returns false if it was already open. */
  #open(condition: OpenCondition, message: string): boolean {
    const wasClosed = this.condition === undefined
    this.condition = condition
    this.message = message
    return wasClosed
  }
}
