/**
 * A lane's gate: its breaker and its rate limit in one, because both answer
 * the same question: may an attempt start now?
 *
 * It opens the circuit after `pauseAfter` failures in a row over at least three
 * different events; until then a failing sink is only backed off from. While
 * any failure stands unanswered, attempts go one at a time and each takes
 * another event than the last, so one bad event can't pass for a bad sink.
 *
 * Pure state over a monotonic clock in milliseconds; it never reads one.
 */
import { Duration } from "effect"
import type { Delivery, LaneConfig } from "../../config/Config.ts"
import { brief, type Reason } from "../../sinks/Sink.ts"
import { backoff } from "./Backoff.ts"

export type Closed = "waiting" | "misconfigured"

/** A failure is charged to the sink, not the event, when this many different events met it. */
const differentEvents = 3
/** Over how many outcomes the rejection rate is taken, and how many rejections block the lane. */
const rejectionWindow = 20
const maxRejections = rejectionWindow / 2

/** A sink that is away is looked at this often at least, in milliseconds: a probe costs nothing, an hour's backlog does. */
const longestWait = 30_000
const longestThrottle = 3_600_000

/** Reasons that say something of the sink, not only of an event. */
export type Blamed = Exclude<Reason, { readonly _tag: "DeliveryRejected" }>

export interface Blame {
  readonly opened: boolean
  readonly pardoned: ReadonlyArray<number>
}

export class CircuitBreaker {
  readonly #delivery: Delivery
  /** An attempt counts once, whatever it holds: a digest is one message. */
  readonly #whole: boolean
  readonly #perEvent: number
  readonly #burst: number
  #tokens: number
  #refilledAt = 0
  /** Failed attempts in a row. */
  #streak = 0
  /** The same, but those that were under way together count once: how long to wait. */
  #level = 0
  #escalatedAt = 0
  /** Events that were charged with an attempt since the last success. */
  #charged: ReadonlyArray<number> = []
  #failed = new Set<number>()
  #until = 0
  #outcomes: Array<boolean> = []
  /** Set while the circuit is open. */
  condition: Closed | undefined
  /** Why the last attempt failed; empty since the sink answered. */
  message = ""

  constructor({ delivery, rateLimit, digest }: Pick<LaneConfig, "delivery" | "rateLimit" | "digest">) {
    this.#delivery = delivery
    this.#whole = digest !== undefined
    this.#perEvent = rateLimit === undefined ? 0 : Duration.toMillis(rateLimit.per) / rateLimit.events
    this.#burst = rateLimit === undefined ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor(100 / this.#perEvent))
    this.#tokens = this.#burst
  }

  /** Failures stand unanswered: attempts go one at a time. One alone is no reason: a poisoned event is not an outage. */
  get probing(): boolean {
    return this.#streak > 1 || this.condition !== undefined
  }

  /** How many events may be sent at `now`, given how many attempts are under way. */
  allowance(now: number, inFlight: number): number {
    if (now < this.#until || (this.probing && inFlight > 0)) return 0
    if (this.#perEvent === 0) return this.probing ? 1 : Number.POSITIVE_INFINITY
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#refilledAt) / this.#perEvent)
    this.#refilledAt = now
    return this.probing ? Math.min(1, Math.floor(this.#tokens)) : Math.floor(this.#tokens)
  }

  started(events: number): void {
    this.#tokens -= this.#whole ? 1 : events
  }

  /** So many events passed. True when this ends a pause. */
  passed(events: number): boolean {
    const wasPaused = this.condition !== undefined
    this.#answered()
    this.#remember(true, this.#whole ? Math.min(1, events) : events)
    return wasPaused
  }

  /**
   * An attempt failed, with these events in it. Says whether this opens the
   * circuit, and which events were charged with an attempt that they get back,
   * because the sink failed others as well.
   */
  blame(reason: Blamed, sequences: ReadonlyArray<number>, startedAt: number, now: number, random: number): Blame {
    this.#count(sequences, startedAt, now)
    const opened = this.#judge(reason, now, random)
    const charged = reason._tag === "DeliveryFailed" ? sequences : []
    const before = this.#charged
    this.#charged = opened ? [] : this.condition === undefined ? [...before, ...charged] : charged
    if (opened) return { opened, pardoned: [...before, ...charged] }
    return { opened, pardoned: this.condition === undefined ? [] : before }
  }

  #judge(reason: Blamed, now: number, random: number): boolean {
    const message = brief(reason.message)
    const wait = (failures: number) => Math.min(backoff(this.#delivery.retry, failures, random), longestWait)
    switch (reason._tag) {
      case "SinkThrottled":
        this.#until = Math.max(this.#until, now + Math.min(reason.retryAfter, longestThrottle))
        return this.#close("waiting", message)
      case "SinkMisconfigured":
        this.#until = now + wait(this.#level)
        return this.#close("misconfigured", message)
      case "SinkUnavailable":
      case "DeliveryFailed":
        // The first failure costs no wait: a connection that the other side closed in between is nobody's outage.
        this.#until = this.#level === 1 ? this.#until : now + wait(this.#level - 1)
        this.message = message
        if (
          this.condition === undefined &&
          this.#streak >= this.#delivery.pauseAfter &&
          this.#failed.size >= differentEvents
        ) {
          return this.#close("waiting", message)
        }
        return false
    }
  }

  /** Events were charged with an attempt that is not the sink's fault; should it turn out to be away, they get it back. */
  charged(sequences: ReadonlyArray<number>): void {
    if (sequences.length > 0) this.#charged = [...this.#charged, ...sequences]
  }

  /** An event was rejected. True when so many are that a person should look before a whole backlog is dead. */
  rejected(): boolean {
    this.#answered()
    return this.given()
  }

  /** An event was given up, and the sink was not even asked. True as for a rejection. */
  given(): boolean {
    this.#remember(false, 1)
    return (
      this.#outcomes.length === rejectionWindow && this.#outcomes.filter((passed) => !passed).length > maxRejections
    )
  }

  /** A person said to go on. */
  reset(): void {
    this.passed(0)
    this.#outcomes = []
  }

  /** The sink answered: whatever it failed before is over. */
  #answered(): void {
    this.#streak = 0
    this.#level = 0
    this.#charged = []
    this.#failed.clear()
    this.#until = 0
    this.condition = undefined
    this.message = ""
  }

  #count(sequences: ReadonlyArray<number>, startedAt: number, now: number): void {
    this.#streak += 1
    // Attempts that were under way together fail together: that is one failure of the sink, not sixteen.
    if (startedAt >= this.#escalatedAt) {
      this.#level += 1
      this.#escalatedAt = now
    }
    for (const sequence of this.#whole ? sequences.slice(0, 1) : sequences) {
      if (this.#failed.size < differentEvents) this.#failed.add(sequence)
    }
  }

  #remember(passed: boolean, events: number): void {
    for (let i = 0; i < Math.min(events, rejectionWindow); i++) this.#outcomes.push(passed)
    if (this.#outcomes.length > rejectionWindow) this.#outcomes = this.#outcomes.slice(-rejectionWindow)
  }

  #close(condition: Closed, message: string): boolean {
    const wasOpen = this.condition === undefined
    this.condition = condition
    this.message = message
    return wasOpen
  }
}
