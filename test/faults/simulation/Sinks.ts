/**
 * The sinks: other people's systems, which outlive the relay. Their behaviour is drawn by the seed and changes with
 * time. After the faults they work, except for the events that they reject for ever.
 *
 * A sink holds the lane to the contract of `Sink.ts`: batches within their limits, digests of one group, never more at
 * once than its concurrency, none beyond its deadline, none while the operator has paused the lane.
 */
import { crc32 } from "node:zlib"
import { Duration, Effect } from "effect"
import { digestOf } from "../../../src/config/Config.ts"
import type { Entry, Event } from "../../../src/event/Event.ts"
import {
  allSent,
  DeliveryFailed,
  DeliveryRejected,
  type Failures,
  type Reason,
  type Sink,
  SinkError,
  SinkMisconfigured,
  SinkThrottled,
  SinkUnavailable,
} from "../../../src/sinks/Sink.ts"
import type { Draw } from "./Draw.ts"
import type { Oracle } from "./Oracle.ts"
import type { Behaviour, SinkPlan, Unbearable } from "./Plan.ts"

/** How much longer than its deadline an attempt may last: lanes look at theirs every 25 ms. */
const tolerance = 60

/** The message of a simulated sink's bug, which is expected in the log. */
export const simulatedBug = "simulated: a bug"

/** Largest number of attempts within a second at an event that drops connections. */
const triesInSecond = 30

/** The life in which a sink is called. */
export interface Caller {
  readonly now: () => number
  readonly isDead: () => boolean
  /** When it is not, attempts in flight have the lanes' grace, whatever their deadline. */
  readonly isRunning: () => boolean
}

export class SimulatedSink {
  /** The operator has paused its lane. */
  paused = false
  /** How often the operator has resumed it. */
  resumes = 0
  readonly name: string
  readonly plan: SinkPlan
  readonly #oracle: Oracle
  readonly #draw: Draw
  readonly #faultsUntil: number
  /** When events dropped a connection, by sequence. */
  readonly #drops = new Map<number, Array<number>>()

  constructor(name: string, plan: SinkPlan, faultsUntil: number, oracle: Oracle, draw: Draw) {
    this.name = name
    this.plan = plan
    this.#faultsUntil = faultsUntil
    this.#oracle = oracle
    this.#draw = draw
  }

  /** The sink as one life of the relay holds it. */
  open(caller: Caller): Sink {
    let inFlight = 0
    return {
      batch: this.plan.batch,
      check: Effect.void,
      send: (batch) =>
        Effect.suspend(() => {
          if (caller.isDead()) return Effect.never
          const started = caller.now()
          inFlight += 1
          this.#accepts(batch, inFlight)
          for (const entry of batch) this.#oracle.sent(this.name, entry)
          return this.#bear(batch, started).pipe(
            Effect.onInterrupt(() => Effect.sync(() => this.#interrupted(batch, caller))),
            Effect.ensuring(
              Effect.sync(() => {
                inFlight -= 1
                if (!caller.isDead() && caller.isRunning()) this.#inTime(caller.now() - started)
              }),
            ),
          )
        }),
    }
  }

  /** Reports whether the sink can't bear an event in a way. It can bear heartbeats. */
  unbearable({ body, accountId }: Event, how: Unbearable): boolean {
    if (accountId === heartbeat) return false
    return (crc32(body, { drops: 1, bug: 2, unrenderable: 3 }[how]) % 1_000) / 1_000 < this.plan.unbearable[how]
  }

  #bear(batch: ReadonlyArray<Entry>, now: number): Effect.Effect<Failures, SinkError> {
    if (batch.some(({ event }) => this.unbearable(event, "bug"))) {
      for (const entry of batch) this.#oracle.answered(this.name, entry, "not taken", "a bug")
      this.#oracle.isolated(this.name, batch)
      return Effect.die(new TypeError(simulatedBug))
    }
    const dropping = batch.filter(({ event }) => this.unbearable(event, "drops"))
    if (dropping.length === 0) return this.#attempt(batch, this.#behaviour(now))
    for (const { sequence } of dropping) {
      const tries = [...(this.#drops.get(sequence) ?? []), now].filter((at) => at > now - 1_000)
      this.#drops.set(sequence, tries)
      if (tries.length > triesInSecond) this.#oracle.fail(`${this.name} is asked to take #${sequence} all the time`)
    }
    const isAnswered = batch.length > 1 && dropping.some(({ event }) => crc32(event.body, 4) % 2 === 0)
    return this.#fail(
      batch,
      isAnswered
        ? new DeliveryFailed({ message: "simulated: an answer about all of the batch" })
        : new SinkUnavailable({ message: "simulated: the connection was dropped" }),
    )
  }

  #behaviour(now: number): Behaviour {
    if (now >= this.#faultsUntil) return "fine"
    return this.plan.phases.find(({ until }) => now < until)?.behaviour ?? "fine"
  }

  #attempt(batch: ReadonlyArray<Entry>, behaviour: Behaviour): Effect.Effect<Failures, SinkError> {
    const draw = this.#draw
    const { timeout } = this.plan.config.delivery
    const latency =
      behaviour === "slow" ? draw.real(0, 1.5 * Duration.toMillis(timeout)) : draw.pick([0, 0, draw.real(0, 60)])
    const wait = latency === 0 ? Effect.void : Effect.sleep(Duration.millis(latency))
    switch (behaviour) {
      case "fine":
      case "slow":
        return Effect.andThen(
          wait,
          Effect.suspend(() => this.#take(batch, 0)),
        )
      case "picky":
        return Effect.andThen(
          wait,
          Effect.suspend(() => this.#take(batch, 0.3)),
        )
      case "hangs":
        return Effect.suspend(() => {
          if (draw.chance(0.5)) this.#apply(batch)
          return Effect.never
        })
      case "forgets":
        return Effect.andThen(
          wait,
          Effect.suspend(() => {
            this.#apply(batch)
            const message = "simulated: the answer was lost"
            return this.#fail(
              batch,
              draw.chance(0.5) ? new SinkUnavailable({ message }) : new DeliveryFailed({ message }),
            )
          }),
        )
      default:
        return Effect.andThen(
          wait,
          Effect.suspend(() => this.#fail(batch, refusal(behaviour, draw))),
        )
    }
  }

  #apply(batch: ReadonlyArray<Entry>): void {
    for (const entry of batch) this.#oracle.took(this.name, entry)
  }

  #fail(batch: ReadonlyArray<Entry>, reason: Reason): Effect.Effect<never, SinkError> {
    const answer = reason._tag === "DeliveryRejected" ? "rejected" : "not taken"
    for (const entry of batch) this.#oracle.answered(this.name, entry, answer, reason._tag)
    return Effect.fail(new SinkError({ reason }))
  }

  #take(batch: ReadonlyArray<Entry>, dislike: number): Effect.Effect<Failures, SinkError> {
    if (digestOf(this.plan.config) === undefined) return Effect.succeed(this.#takeEach(batch, dislike))
    // A digest is one message.
    const [first] = batch
    const reason = first && this.#dislikes(first, dislike)
    if (reason !== undefined) return this.#fail(batch, reason)
    this.#apply(batch)
    for (const entry of batch) this.#oracle.answered(this.name, entry, "taken", "")
    return Effect.succeed(allSent)
  }

  /** Takes the events that it likes. If order is kept, events behind a failed event of the same key fail too. */
  #takeEach(batch: ReadonlyArray<Entry>, dislike: number): Failures {
    const failures = new Map<number, SinkError>()
    const stuck = new Set<string>()
    batch.forEach((entry, index) => {
      const { accountId } = entry.event
      const reason = stuck.has(accountId)
        ? new DeliveryFailed({ message: "simulated: behind another of its key" })
        : this.#dislikes(entry, dislike)
      if (reason === undefined) {
        this.#oracle.took(this.name, entry)
        this.#oracle.answered(this.name, entry, "taken", "")
        return
      }
      const rejected = reason._tag === "DeliveryRejected"
      if (!rejected && this.plan.config.order === "key") stuck.add(accountId)
      this.#oracle.answered(this.name, entry, rejected ? "rejected" : "not taken", reason._tag)
      failures.set(index, new SinkError({ reason }))
    })
    return failures
  }

  #dislikes(entry: Entry, dislike: number): DeliveryFailed | DeliveryRejected | undefined {
    const message = "simulated: not this one"
    if (entry.event.accountId !== heartbeat && (crc32(entry.event.body) % 1_000) / 1_000 < this.plan.poison)
      return new DeliveryRejected({ message })
    if (!this.#draw.chance(dislike)) return undefined
    return this.#draw.chance(0.2) ? new DeliveryRejected({ message }) : new DeliveryFailed({ message })
  }

  // --- the lane's obligations -----------------------------------------------

  #accepts(batch: ReadonlyArray<Entry>, inFlight: number): void {
    const { config, batch: limits } = this.plan
    const digest = digestOf(config)
    const bytes = batch.reduce((sum, { event }) => sum + event.body.length, 0)
    if (this.paused) this.#oracle.fail(`${this.name} is sent to although the operator has paused it`)
    if (inFlight > config.concurrency) this.#oracle.fail(`${this.name} has ${inFlight} batches at once`)
    const { maxEvents, maxBytes } = digest === undefined ? limits : { ...digest, maxBytes: Number.POSITIVE_INFINITY }
    if (batch.length === 0 || batch.length > maxEvents || (batch.length > 1 && bytes > maxBytes)) {
      this.#oracle.fail(`${this.name} gets a batch of ${batch.length} events and ${bytes} bytes`)
    }
    if (digest !== undefined) this.#oracle.together(this.name, batch)
  }

  #inTime(took: number): void {
    const deadline = Duration.toMillis(this.plan.config.delivery.timeout) + tolerance
    if (took > deadline)
      this.#oracle.fail(`${this.name} was waited for ${took.toFixed(0)} ms, its deadline is ${deadline}`)
  }

  #interrupted(batch: ReadonlyArray<Entry>, caller: Caller): void {
    if (caller.isDead()) return
    for (const entry of batch) this.#oracle.answered(this.name, entry, "not taken", "its time was up")
  }
}

/** The account of events that succeed when all else is quiet: an event that fails meanwhile is at fault itself. */
export const heartbeat = "acct_heartbeat"

const refusal = (behaviour: "away" | "throttles" | "misconfigured" | "refuses" | "fails", draw: Draw): Reason => {
  const message = `simulated: ${behaviour}`
  switch (behaviour) {
    case "away":
      return new SinkUnavailable({ message })
    case "throttles":
      return new SinkThrottled({ message, retryAfter: draw.real(0, 2_000) })
    case "misconfigured":
      return new SinkMisconfigured({ message })
    case "refuses":
      return new DeliveryRejected({ message })
    case "fails":
      return draw.chance(0.1) ? new DeliveryRejected({ message }) : new DeliveryFailed({ message })
  }
}
