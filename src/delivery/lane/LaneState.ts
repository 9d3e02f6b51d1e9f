/**
 * Whether a lane goes on, and why not: a person paused it, it is blocked until
 * a person has looked, or its gate waits for the sink.
 */
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { Progress } from "./Progress.ts"

export type Condition =
  /** Sends as events come. */
  | "running"
  /** The sink is away or asked to wait; it probes by itself. */
  | "waiting"
  /** Nothing passes until a person mends the sink's config; it probes by itself. */
  | "misconfigured"
  /** A person paused it. */
  | "paused"
  /** Too much is parked, rejected or dead-lettered; a person must look. */
  | "blocked"
  /** A bug ended it; it is begun anew by itself. */
  | "failed"

export class LaneState {
  pausedByPerson: boolean
  /** Why a person must look; empty while none has to. */
  blocked = ""
  /** Which bug ended the lane, and what comes of it; empty while it lives. */
  failed = ""
  readonly #lane: string
  readonly #gate: CircuitBreaker
  readonly #ledger: Progress
  #pausedSince: number | undefined

  constructor(lane: string, pausedByPerson: boolean, gate: CircuitBreaker, ledger: Progress) {
    this.#lane = lane
    this.pausedByPerson = pausedByPerson
    this.#gate = gate
    this.#ledger = ledger
  }

  get condition(): Condition {
    if (this.failed !== "") return "failed"
    if (this.pausedByPerson) return "paused"
    if (this.blocked !== "") return "blocked"
    return this.#gate.condition ?? "running"
  }

  get message(): string {
    if (this.failed !== "") return this.failed
    if (this.pausedByPerson) return `by a person; \`relay lanes resume ${this.#lane}\` lets it go on`
    return this.blocked === "" ? this.#gate.message : this.blocked
  }

  /** A bug has ended the lane: it is as if it were paused until another takes its place. */
  fail(message: string): void {
    this.failed = message
    this.track()
  }

  /** Only a person lets it go on. */
  get stopped(): boolean {
    return this.pausedByPerson || this.blocked !== ""
  }

  pause(): void {
    this.pausedByPerson = true
    this.track()
  }

  resume(): void {
    this.pausedByPerson = false
    this.blocked = ""
    this.#gate.reset()
    this.track()
  }

  /** Time in a pause does not age an event: when the pause ends, first attempts move by its length. */
  track(): void {
    const paused = this.condition !== "running"
    if (paused === (this.#pausedSince !== undefined)) return
    if (this.#pausedSince === undefined) this.#pausedSince = this.#ledger.now()
    else {
      this.#ledger.excludePause(this.#ledger.now() - this.#pausedSince)
      this.#pausedSince = undefined
    }
  }

  /** The lane ends: what is parked has not aged in a pause that it did not live to see the end of. */
  end(): void {
    if (this.#pausedSince === undefined) return
    this.#ledger.excludePause(this.#ledger.now() - this.#pausedSince)
    this.#pausedSince = undefined
  }
}
