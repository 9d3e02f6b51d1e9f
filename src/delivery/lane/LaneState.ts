/**
 * Whether a lane sends, and why not: an operator paused it, it is blocked until
 * an operator has looked, or its circuit is open.
 */
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { LaneClock } from "./LaneClock.ts"

export type Condition =
  /** Sends events as they come. */
  | "running"
  /** The sink is away or asked to wait. The lane probes it. */
  | "waiting"
  /** The sink's config is wrong and must be corrected. The lane probes it. */
  | "misconfigured"
  /** An operator paused it. */
  | "paused"
  /** Its dead letters take too much. An operator must resume it. */
  | "blocked"
  /** It has work and does nothing, whatever the cause. It goes on by itself where it can. */
  | "stalled"
  /** A bug ended it, and it is restarted by itself; or the journal refuses its progress. */
  | "failed"

export class LaneState {
  pausedByOperator: boolean
  /** Why an operator must look; empty while it is not blocked. */
  blocked = ""
  /** Which bug ended the lane; empty while it runs. */
  failed = ""
  /** Why the journal refuses its progress; empty while it takes it. */
  refused = ""
  /** Since when it does nothing although it has work, and why; empty while it goes on. */
  stalled = ""
  readonly #lane: string
  readonly #breaker: CircuitBreaker
  readonly #clock: LaneClock
  #pausedSince: number | undefined

  constructor(lane: string, pausedByOperator: boolean, breaker: CircuitBreaker, clock: LaneClock) {
    this.#lane = lane
    this.pausedByOperator = pausedByOperator
    this.#breaker = breaker
    this.#clock = clock
  }

  get condition(): Condition {
    if (this.failed !== "" || this.refused !== "") return "failed"
    if (this.pausedByOperator) return "paused"
    if (this.blocked !== "") return "blocked"
    if (this.stalled !== "") return "stalled"
    return this.#breaker.condition ?? "running"
  }

  get message(): string {
    if (this.failed !== "") return this.failed
    if (this.refused !== "") return this.refused
    if (this.pausedByOperator) return `by an operator; \`relay lanes resume ${this.#lane}\` resumes it`
    if (this.blocked !== "") return this.blocked
    return this.stalled === "" ? this.#breaker.message : this.stalled
  }

  /** Only an operator resumes it. */
  get stopped(): boolean {
    return this.pausedByOperator || this.blocked !== ""
  }

  pause(): void {
    this.pausedByOperator = true
    this.track()
  }

  /** False when it was blocked already. */
  block(message: string): boolean {
    if (this.blocked !== "") return false
    this.blocked = message
    return true
  }

  unblock(): void {
    this.blocked = ""
    this.track()
  }

  /** Takes over why the lane before it was blocked; empty when it was not. */
  inherit(blocked: string): void {
    this.blocked = blocked
    this.track()
  }

  resume(): void {
    this.pausedByOperator = false
    this.blocked = ""
    this.#breaker.answered()
    this.track()
  }

  /** A bug has ended the lane: it counts as paused until another takes its place. */
  fail(message: string): void {
    this.failed = message
    this.track()
  }

  /** The journal refuses the lane's progress; false when it did before. */
  refuse(message: string): boolean {
    if (this.refused !== "") return false
    this.refused = message
    return true
  }

  accept(): void {
    if (this.refused === "") return
    this.refused = ""
    this.track()
  }

  /** Since when it stands still, and why; empty when it goes on. True when that is news. */
  stall(message: string): boolean {
    const isNews = (message === "") !== (this.stalled === "")
    this.stalled = message
    if (isNews) this.track()
    return isNews
  }

  /** Time in a pause does not age an event: when the pause ends, it is taken out of the lane's own time. */
  track(): void {
    if (this.condition === "running") this.end()
    else this.#pausedSince ??= this.#clock.now()
  }

  /** The lane ends, and with it its pause. */
  end(): void {
    if (this.#pausedSince === undefined) return
    this.#clock.excludePause(this.#clock.now() - this.#pausedSince)
    this.#pausedSince = undefined
  }
}
