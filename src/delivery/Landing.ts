/**
 * What becomes of an attempt: each of its events is delivered, parked to be
 * tried again, a dead letter, or goes back into the queue as it was.
 *
 * **Promise.** An event ends in exactly one of these, by the sink's reason
 * alone; what a failure says of the sink goes to the gate, once an attempt.
 */
import { Cause, Duration, Exit } from "effect"
import type { LaneConfig } from "../config/Config.ts"
import type { Entry } from "../journal/Journal.ts"
import { DeliveryFailed, type Failures, type Reason, type SinkError } from "../sinks/Sink.ts"
import type { Flight, Flights } from "./Flights.ts"
import type { Blamed, Gate } from "./Gate.ts"
import type { Ledger } from "./Ledger.ts"
import type { Item, Queue } from "./Queue.ts"
import { backoff } from "./Retry.ts"
import type { Standing } from "./Standing.ts"

const endless = Number.POSITIVE_INFINITY

/** What a lane tells the outside as it happens. */
export interface LaneEvents {
  readonly deadLettered: (entry: Entry, reason: string, message: string) => void
  readonly paused: (message: string) => void
  readonly resumed: () => void
  /** Progress should be stored now, not at the next turn. */
  readonly settle: () => void
  /** The sink died of a bug: the cause is for the log. */
  readonly defect: (cause: Cause.Cause<unknown>) => void
}

/** The lane's parts that an outcome touches. */
export interface Parts {
  readonly config: LaneConfig
  readonly events: LaneEvents
  readonly ledger: Ledger
  readonly flights: Flights
  readonly gate: Gate
  readonly queue: Queue
  readonly standing: Standing
  readonly random: () => number
  /** False while the wall clock can't be trusted: nothing is given up by age then. */
  readonly wallClockTrusted: () => boolean
  /** Rejections don't block this lane: rejecting is what it is for (the quarantine). */
  readonly rejects: boolean
}

/** What came of an attempt: the sink's reason, or the relay stopped in the middle. */
type Failure = Reason | { readonly _tag: "Interrupted"; readonly message: string }

export class Landing {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** An attempt has landed; `stopping` says that the relay cuts off what is under way. */
  landed(flight: Flight, exit: Exit.Exit<Failures, SinkError>, stopping: boolean): void {
    const { config, ledger, flights, standing } = this.#parts
    const failures = Exit.isSuccess(exit) ? exit.value : undefined
    const whole = Exit.isFailure(exit) ? this.#failure(exit.cause, flight, stopping) : undefined
    const passed = failures === undefined ? 0 : flight.items.length - failures.size
    if (passed > 0) this.#passed(passed)
    const failed: Array<number> = []
    const back: Array<Item> = []
    let last: Exclude<Failure, { readonly _tag: "DeliveryRejected" }> | undefined
    flight.items.forEach((item, index) => {
      const failure = whole ?? failures?.get(index)?.reason
      if (failure === undefined) {
        ledger.delivered(item)
        return
      }
      if (failure._tag !== "Interrupted") flights.count(failure._tag, 1)
      if (failure._tag === "DeliveryRejected") {
        this.#reject(item, failure.message, index === 0 || config.digest === undefined)
        return
      }
      last = failure
      failed.push(item.entry.sequence)
      if (failure._tag !== "DeliveryFailed") back.push(item)
      else if (!this.#park(item, failure.message)) failed.pop()
    })
    if (last !== undefined && last._tag !== "Interrupted" && failed.length > 0) this.#blame(last, failed, flight)
    this.#putBack(flight.items, back)
    standing.track()
  }

  #failure(cause: Cause.Cause<SinkError>, flight: Flight, stopping: boolean): Failure {
    const { flights, ledger, config, events } = this.#parts
    const error = Cause.findErrorOption(cause)
    if (error._tag === "Some") return error.value.reason
    if (Cause.hasInterruptsOnly(cause)) {
      return stopping && !flights.isOverdue(flight, ledger.now())
        ? { _tag: "Interrupted", message: "the relay stopped" }
        : new DeliveryFailed({ message: `no answer within ${Duration.format(config.delivery.timeout)}` })
    }
    events.defect(cause)
    return new DeliveryFailed({ message: "a bug in relay while sending; the log has its cause" })
  }

  #passed(count: number): void {
    const { flights, gate, events } = this.#parts
    flights.count("delivered", count)
    if (gate.passed(count)) events.resumed()
  }

  /** What a failed attempt says of the sink: once an attempt, however many events were in it. */
  #blame(reason: Blamed, failed: ReadonlyArray<number>, flight: Flight): void {
    const { gate, ledger, random, events } = this.#parts
    const { opened, pardoned } = gate.blame(reason, failed, flight.startedAt, ledger.now(), random())
    for (const sequence of pardoned) ledger.pardon(sequence)
    if (opened) events.paused(reason.message)
  }

  /** False when it was not parked but given up. */
  #park(item: Item, message: string): boolean {
    const { config, ledger, wallClockTrusted, random } = this.#parts
    const { retry } = config.delivery
    const attempts = ledger.tried(item) + 1
    const age = ledger.age(item)
    const tooOld = age >= Duration.toMillis(retry.maxAge) && wallClockTrusted()
    if (tooOld || attempts >= (retry.maxAttempts ?? endless)) {
      this.#bury(item, "DeliveryFailed", tooOld ? "TooOld" : "TooManyAttempts", message)
      return false
    }
    ledger.park(item, ledger.failed("DeliveryFailed", message), backoff(retry, attempts, random()))
    return true
  }

  /** `counts` is false for the other events of a digest: it was rejected once. */
  #reject(item: Item, message: string, counts: boolean): void {
    const { gate, rejects, config } = this.#parts
    this.#bury(item, "DeliveryRejected", "DeliveryRejected", message)
    if (counts && gate.rejected() && !rejects) {
      this.#block(
        `more than half of the last 20 events were rejected (${message}); mend the sink, then \`relay lanes resume ${config.name}\``,
      )
    }
  }

  /** `failure` is what the last attempt came to, `reason` why it was the last. */
  #bury(item: Item, failure: string, reason: string, message: string): void {
    const { ledger, events, config } = this.#parts
    ledger.bury(item, ledger.failed(failure, message))
    events.deadLettered(item.entry, reason, message)
    if (ledger.deadLetterBytes > config.delivery.maxDeadLetters) {
      this.#block(
        `its dead letters take more than delivery.maxDeadLetters; look with \`relay dlq list --sink ${config.name}\`, replay or drop them, then \`relay lanes resume ${config.name}\``,
      )
    }
  }

  /** Events beyond the lane's backlog limit. */
  giveUp(items: ReadonlyArray<Item>): void {
    const message = "the lane's backlog is over its limit and backlog.whenFull is deadLetter"
    for (const item of items) this.#bury(item, "BacklogFull", "BacklogFull", message)
  }

  /** Frees the keys of a landed batch, and puts back, in order, what was not settled. */
  #putBack(items: ReadonlyArray<Item>, back: ReadonlyArray<Item>): void {
    const { ledger, queue } = this.#parts
    const { parking } = ledger
    const fresh = back.filter(({ entry }) => parking.get(entry.sequence) === undefined)
    for (const { entry } of back) parking.giveBack(entry.sequence, ledger.now())
    queue.landed(items, fresh)
  }

  #block(message: string): void {
    const { standing, events } = this.#parts
    if (standing.blocked !== "") return
    standing.blocked = message
    events.paused(message)
  }
}
