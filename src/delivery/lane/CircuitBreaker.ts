/**
 * A lane's circuit breaker: whether the sink is well enough for an attempt.
 *
 * It opens after `pauseAfter` failures in a row over at least three different
 * events; until then a failing sink is only backed off from. From the second
 * failure in a row attempts go one at a time, each with another event than the
 * last, so that one bad event can't pass for a bad sink.
 *
 * Pure state over a monotonic clock in milliseconds; it never reads one.
 */
import type { Delivery, LaneConfig } from "../../config/Config.ts"
import { brief, type Reason } from "../../sinks/Sink.ts"
import { backoff, throttled } from "./Backoff.ts"

export type OpenCondition = "waiting" | "misconfigured"

/** A failure is charged to the sink, not the event, when this many different events met it. */
const differentEvents = 3
/** Milliseconds between probes at most: a probe costs nothing, an hour's backlog does. */
const longestWait = 30_000

/** Reasons that say something about the sink, not only about an event. */
export type SinkFailure = Exclude<Reason, { readonly _tag: "DeliveryRejected" }>

export interface Judgement {
  /** This failure opened the circuit. */
  readonly opened: boolean
  /** Events that get back the attempt they were charged with, because the sink failed others as well. */
  readonly refunded: ReadonlyArray<number>
}

export class CircuitBreaker {
  readonly #delivery: Delivery
  /** A digest counts once, whatever it holds: it is one message. */
  readonly #isDigest: boolean
  readonly #random: () => number
  /** Failed attempts in a row. */
  #consecutive = 0
  /** Failures in a row, where attempts that were in flight together count as one: the wait follows from it. */
  #level = 0
  #escalatedAt = 0
  /** Events that were charged with an attempt since the last success. */
  #charged: ReadonlyArray<number> = []
  #failed = new Set<number>()
  #until = 0
  /** Set while the circuit is open. */
  condition: OpenCondition | undefined
  /** Why the last attempt failed; empty since the sink answered. */
  message = ""

  constructor({ delivery, digest }: Pick<LaneConfig, "delivery" | "digest">, random: () => number) {
    this.#delivery = delivery
    this.#isDigest = digest !== undefined
    this.#random = random
  }

  /** Attempts go one at a time. One failure is no reason: a poisoned event is not an outage. */
  get probing(): boolean {
    return this.#consecutive > 1 || this.condition !== undefined
  }

  /** No attempt goes out before this moment. */
  get until(): number {
    return this.#until
  }

  /** How many events may be sent at `now`, given how many attempts are in flight. */
  allowance(now: number, inFlight: number): number {
    if (now < this.#until || (this.probing && inFlight > 0)) return 0
    return this.probing ? 1 : Number.POSITIVE_INFINITY
  }

  /** The sink answered: its earlier failures are over. True when this closes the circuit. */
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

  /** An attempt that started at `startedAt` failed, with these events in it. */
  failed(reason: SinkFailure, sequences: ReadonlyArray<number>, startedAt: number, now: number): Judgement {
    this.#count(sequences, startedAt, now)
    const opened = this.#judge(reason, now)
    const charged = reason._tag === "DeliveryFailed" ? sequences : []
    const before = this.#charged
    this.#charged = opened ? [] : this.condition === undefined ? [...before, ...charged] : charged
    if (opened) return { opened, refunded: [...before, ...charged] }
    return { opened, refunded: this.condition === undefined ? [] : before }
  }

  /** The next probe need not wait: it goes with another event, which may pass. */
  hurry(now: number): void {
    this.#until = Math.min(this.#until, now)
  }

  /** An attempt has had its time and is waited for. True when this opens the circuit; its end closes it. */
  stalled(message: string): boolean {
    return this.#open("waiting", message)
  }

  /** Events were charged with an attempt that is not the sink's fault. If it turns out to be away, they get it back. */
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
        // The first failure costs no wait: a connection that the other side closed in between is no outage.
        this.#until = this.#level === 1 ? this.#until : now + wait(this.#level - 1)
        this.message = message
        // The sink fails otherwise now, and nobody has to correct its config for that.
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
    // Attempts that were in flight together fail together: that is one failure of the sink, not sixteen.
    if (startedAt >= this.#escalatedAt) {
      this.#level += 1
      this.#escalatedAt = now
    }
    for (const sequence of this.#isDigest ? sequences.slice(0, 1) : sequences) {
      if (this.#failed.size < differentEvents) this.#failed.add(sequence)
    }
  }

  /** False when it was open already. */
  #open(condition: OpenCondition, message: string): boolean {
    const wasClosed = this.condition === undefined
    this.condition = condition
    this.message = message
    return wasClosed
  }
}
