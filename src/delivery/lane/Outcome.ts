/**
 * What becomes of an attempt: each of its events is delivered, parked to be
 * tried again, a dead letter, or goes back into the queue as it was.
 *
 * **Promise.** An event ends in exactly one of these, by the sink's reason and
 * by what became of others; what a failure says of the sink goes to the gate,
 * once an attempt. A bug costs the event that meets it, and no other.
 */
import { Cause, Duration, Exit } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import type { Entry } from "../../event/Entry.ts"
import { Unrenderable } from "../../formats/Rendering.ts"
import { brief, DeliveryFailed, type Failures, type Reason, type SinkError } from "../../sinks/Sink.ts"
import { backoff } from "./Backoff.ts"
import type { Blamed, CircuitBreaker } from "./CircuitBreaker.ts"
import type { Batch, InFlight } from "./InFlight.ts"
import type { LaneState } from "./LaneState.ts"
import type { Progress } from "./Progress.ts"
import type { Item, Queue } from "./Queue.ts"
import type { Suspects } from "./Suspects.ts"

const endless = Number.POSITIVE_INFINITY
/** Attempts in a row that an event by itself may end in a bug: waiting mends none, a reload may. */
const maxDefects = 3
/** Milliseconds that an event waits at most where the sink asks it to. */
const longestThrottle = 3_600_000

/** What a lane tells the outside as it happens. */
export interface LaneEvents {
  readonly deadLettered: (entry: Entry, reason: string, message: string) => void
  readonly paused: (message: string) => void
  readonly resumed: () => void
  /** Progress should be stored now, not at the next turn. */
  readonly settle: () => void
  /** Something died of a bug: the cause is for the log. */
  readonly defect: (cause: Cause.Cause<unknown>) => void
}

/** The lane's parts that an outcome touches. */
export interface Parts {
  readonly config: LaneConfig
  readonly events: LaneEvents
  readonly progress: Progress
  readonly inFlight: InFlight
  readonly breaker: CircuitBreaker
  readonly queue: Queue
  readonly state: LaneState
  readonly suspects: Suspects
  readonly random: () => number
  readonly key: (entry: Entry) => string
  /** False while the wall clock can't be trusted: nothing is given up by age then. */
  readonly wallClockTrusted: () => boolean
  /** Rejections don't block this lane: rejecting is what it is for (the quarantine). */
  readonly rejects: boolean
}

/** What came of an attempt: the sink's reason, a bug, or the relay stopped in the middle. */
type Failure = Reason | { readonly _tag: "Interrupted" | "Defect"; readonly message: string }

export class Outcomes {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** An attempt has landed; `stopping` says that the relay cuts off what is under way. */
  landed(flight: Batch, exit: Exit.Exit<Failures, SinkError>, stopping: boolean): void {
    const { config, progress, inFlight, state, suspects, breaker } = this.#parts
    const failures = Exit.isSuccess(exit) ? exit.value : undefined
    const whole = Exit.isFailure(exit) ? this.#failure(exit.cause, flight, stopping) : undefined
    const passed = failures === undefined ? 0 : flight.items.length - failures.size
    if (passed > 0) this.#passed(passed)
    const isDigest = config.digest !== undefined
    // What a batch failed for as a whole may be any one event's fault. A digest is one message.
    const isShared = whole !== undefined && flight.items.length > 1 && !isDigest
    const head = flight.items[0]?.entry.sequence ?? 0
    for (const { entry } of flight.items) if (this.#wasFound(entry.sequence)) suspects.found(entry.sequence)
    const isHeadAtFault = suspects.isAtFault(head)
    const failed: Array<number> = []
    const charged: Array<number> = []
    const back: Array<Item> = []
    let last: Blamed | undefined
    flight.items.forEach((item, index) => {
      const { sequence } = item.entry
      const failure = whole ?? failures?.get(index)?.reason
      if (failure === undefined) {
        progress.delivered(item)
        suspects.ended(sequence)
        return
      }
      if (failure._tag !== "Interrupted") inFlight.count(failure._tag, 1)
      switch (failure._tag) {
        case "DeliveryRejected":
          this.#reject(item, failure.message, index === 0 || !isDigest)
          return
        case "Interrupted":
          back.push(item)
          return
        case "Defect":
          if (flight.items.length === 1) {
            this.#retries(item, failure)
            return
          }
          suspects.setApart(sequence)
          back.push(item)
          return
        case "DeliveryFailed":
          if (this.#retries(item, failure)) failed.push(sequence)
          last = failure
          return
      }
      const isAtFault = isDigest ? isHeadAtFault : suspects.isAtFault(sequence)
      const isOwn = isAtFault && !isShared
      if (isOwn) suspects.found(sequence)
      suspects.failed(sequence)
      if (isOwn) {
        if (!isDigest) suspects.setApart(sequence)
        if (this.#retries(item, failure)) charged.push(sequence)
        return
      }
      if (suspects.wasFound(isDigest ? head : sequence) && !isShared) {
        back.push(item)
        return
      }
      if (isAtFault) suspects.setApart(sequence)
      last = failure
      failed.push(sequence)
      back.push(item)
    })
    breaker.charged(charged)
    if (last !== undefined && failed.length > 0) this.#blame(last, failed, flight)
    this.#putBack(flight.items, back)
    state.track()
  }

  /** Found at fault before a restart: no other attempt has such a reason. */
  #wasFound(sequence: number): boolean {
    return this.#parts.progress.retries.get(sequence)?.lastFailure.startsWith("Sink") === true
  }

  #failure(cause: Cause.Cause<SinkError>, flight: Batch, stopping: boolean): Failure {
    const { inFlight, progress, config, events } = this.#parts
    const error = Cause.findErrorOption(cause)
    if (error._tag === "Some") return error.value.reason
    if (Cause.hasInterruptsOnly(cause)) {
      return stopping && !inFlight.isOverdue(flight, progress.now())
        ? { _tag: "Interrupted", message: "the relay stopped" }
        : new DeliveryFailed({ message: `no answer within ${Duration.format(config.delivery.timeout)}` })
    }
    events.defect(cause)
    return { _tag: "Defect", message: "a bug in relay while sending; the log has its cause" }
  }

  #passed(count: number): void {
    const { inFlight, breaker, events, suspects } = this.#parts
    inFlight.count("delivered", count)
    suspects.passed()
    if (breaker.passed(count)) events.resumed()
  }

  /** What a failed attempt says of the sink: once an attempt, however many events were in it. */
  #blame(reason: Blamed, failed: ReadonlyArray<number>, flight: Batch): void {
    const { breaker, progress, random, events } = this.#parts
    const { opened, pardoned } = breaker.blame(reason, failed, flight.startedAt, progress.now(), random())
    for (const sequence of pardoned) progress.refundAttempt(sequence)
    if (opened) events.paused(breaker.message)
  }

  /** False when it was not parked but given up. */
  #retries(item: Item, failure: Failure): boolean {
    const { config, progress, breaker, wallClockTrusted, random } = this.#parts
    const { retry } = config.delivery
    const message = brief(failure.message)
    const tried = progress.tried(item) + 1
    const age = progress.age(item)
    const tooOld = age >= Duration.toMillis(retry.maxAge) && wallClockTrusted()
    if (tooOld || tried >= (retry.maxAttempts ?? endless)) {
      this.#deadLetters(item, failure._tag, tooOld ? "TooOld" : "TooManyAttempts", message)
      return false
    }
    if (failure._tag === "Defect" && progress.defects(item) + 1 >= maxDefects) {
      this.#deadLetters(item, "Defect", "Defect", message)
      this.#watch(breaker.given(), message)
      return false
    }
    const asked = failure._tag === "SinkThrottled" ? Math.min(failure.retryAfter, longestThrottle) : 0
    progress.retry(item, progress.failed(failure._tag, message), Math.max(asked, backoff(retry, tried, random())))
    return true
  }

  /** `counts` is false for the other events of a digest: it was rejected once. */
  #reject(item: Item, said: string, counts: boolean): void {
    const { breaker } = this.#parts
    const message = brief(said)
    this.refuse(item, "DeliveryRejected", message)
    if (counts) this.#watch(breaker.rejected(), message)
  }

  /** An event that the sink will never get: a dead letter now. */
  refuse(item: Item, reason: "DeliveryRejected" | "BacklogFull" | "Defect", message: string): void {
    this.#deadLetters(item, reason, reason, message)
  }

  /** Where too many are given up, a person should look before a whole backlog is dead. */
  #watch(tooMany: boolean, message: string): void {
    const { rejects, config } = this.#parts
    if (!tooMany || rejects) return
    this.#block(
      `more than half of the last 20 events were rejected (${message}); mend the sink, then \`relay lanes resume ${config.name}\``,
    )
  }

  /** `failure` is what the last attempt came to, `reason` why it was the last. */
  #deadLetters(item: Item, failure: string, reason: string, message: string): void {
    const { progress, events, config, suspects } = this.#parts
    progress.deadLetter(item, progress.failed(failure, message))
    suspects.ended(item.entry.sequence)
    events.deadLettered(item.entry, reason, message)
    if (progress.deadLetterBytes > config.delivery.maxDeadLetters) {
      this.#block(
        `its dead letters take more than delivery.maxDeadLetters; look with \`relay dlq list --sink ${config.name}\`, replay or drop them, then \`relay lanes resume ${config.name}\``,
      )
    }
  }

  /** The key of an event; `undefined` where none can be made of it: then it has ended. */
  keyOf(entry: Entry): string | undefined {
    const { key, events } = this.#parts
    try {
      return key(entry)
    } catch (error) {
      const item = { entry, key: "" }
      if (error instanceof Unrenderable) this.refuse(item, "DeliveryRejected", error.message)
      else {
        events.defect(Cause.die(error))
        this.refuse(item, "Defect", "a bug in relay while its key was made; the log has its cause")
      }
      return undefined
    }
  }

  /** Events beyond the lane's backlog limit. */
  giveUp(items: ReadonlyArray<Item>): void {
    const message = "the lane's backlog is over its limit and backlog.whenFull is deadLetter"
    for (const item of items) this.refuse(item, "BacklogFull", message)
  }

  /** Frees the keys of a landed batch, and puts back, in order, what was not settled. */
  #putBack(items: ReadonlyArray<Item>, back: ReadonlyArray<Item>): void {
    const { progress, queue, suspects, config, random } = this.#parts
    const { retries } = progress
    const fresh = back.filter(({ entry }) => retries.get(entry.sequence) === undefined)
    for (const { entry } of back) {
      // One that was found at fault is in no hurry: the sink may be away, and no gate holds it back.
      const tried = Math.max(1, retries.get(entry.sequence)?.tried ?? 0)
      const wait = suspects.wasFound(entry.sequence) ? backoff(config.delivery.retry, tried, random()) : 0
      retries.giveBack(entry.sequence, progress.now() + wait)
    }
    queue.landed(items, fresh)
  }

  #block(message: string): void {
    const { state, events } = this.#parts
    if (state.blocked !== "") return
    state.blocked = message
    events.paused(message)
  }
}
