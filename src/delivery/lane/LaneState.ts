/**
 * Whether a lane sends, and the reason if it doesn't: an operator paused it, it is
 * blocked until an operator resumes it, or its circuit is open.
 */

import type { Cause, Effect } from "effect"
import type { Entry, Event } from "../../event/Event.ts"
import { instant } from "../../formats/Texts.ts"
import type { JournalError } from "../../journal/Journal.ts"
import type { Mute, Pause, Paused } from "../../journal/LaneInfo.ts"
import type { CircuitBreaker } from "./CircuitBreaker.ts"
import type { LaneClock } from "./LaneClock.ts"

export type Condition =
  /** Sends events as they arrive. */
  | "running"
  /** The sink is unavailable or asked to wait. The lane probes it. */
  | "waiting"
  /** The sink's config is wrong and must be corrected. The lane probes it. */
  | "misconfigured"
  /** An operator paused it. */
  | "paused"
  /** Its dead letters take too much space. An operator must resume it. */
  | "blocked"
  /** It has work but does nothing, whatever the cause. It continues by itself if it can. */
  | "stalled"
  /** A bug ended it and it restarts automatically, or the journal refuses its progress. */
  | "failed"

export class LaneState {
  #paused: Paused
  /** The rule of its last pause, also after the pause has ended. */
  mute: Mute | undefined
  /** Why an operator must resume it; empty if it is not blocked. */
  blocked = ""
  /** The bug that ended the lane; empty while it runs. */
  failed = ""
  /** Why the journal refuses its progress; empty while the journal accepts it. */
  refused = ""
  /** A message with the time of the stall and its cause; empty if the lane has not stalled. */
  stalled = ""
  readonly #lane: string
  readonly #breaker: CircuitBreaker
  readonly #clock: LaneClock
  #pausedSince: number | undefined

  constructor(lane: string, { paused, mute }: Pause, breaker: CircuitBreaker, clock: LaneClock) {
    this.#lane = lane
    this.#paused = paused
    this.mute = mute
    this.#breaker = breaker
    this.#clock = clock
  }

  /** Whether an operator paused it, or until when. */
  get paused(): Paused {
    return this.#paused
  }

  /** Reports whether it is paused and has a rule for the events that it gets meanwhile. */
  get isMuted(): boolean {
    return this.#paused !== false && this.mute !== undefined
  }

  get condition(): Condition {
    if (this.failed !== "" || this.refused !== "") return "failed"
    if (this.#paused !== false) return "paused"
    if (this.blocked !== "") return "blocked"
    if (this.stalled !== "") return "stalled"
    return this.#breaker.condition ?? "running"
  }

  get message(): string {
    if (this.failed !== "") return this.failed
    if (this.refused !== "") return this.refused
    if (this.#paused !== false) {
      const until = this.#paused === true ? "" : ` until ${instant(this.#paused)}${this.#endingWords}`
      return `by an operator${until}; \`relay lanes resume ${this.#lane}\` resumes it${until === "" ? "" : " now"}`
    }
    if (this.blocked !== "") return this.blocked
    return this.stalled === "" ? this.#breaker.message : this.stalled
  }

  get #endingWords(): string {
    if (this.mute === undefined) return ""
    return this.mute.ending === "drop"
      ? "; events received meanwhile are dropped then"
      : "; events received meanwhile are sent as one message then"
  }

  /** Reports whether only an operator, or the end of its pause, resumes it. */
  get stopped(): boolean {
    return this.#paused !== false || this.blocked !== ""
  }

  pause(paused: Exclude<Paused, false>, mute: Mute | undefined): void {
    this.#paused = paused
    this.mute = mute
    this.track()
  }

  /** Returns false if it was already blocked. */
  block(message: string): boolean {
    if (this.blocked !== "") return false
    this.blocked = message
    return true
  }

  unblock(): void {
    this.blocked = ""
    this.track()
  }

  /** Takes over the block of the previous lane; empty if that was not blocked. */
  inherit(blocked: string): void {
    this.blocked = blocked
    this.track()
  }

  resume(mute: Mute | undefined): void {
    this.#paused = false
    this.mute = mute
    this.blocked = ""
    this.#breaker.answered()
    this.track()
  }

  /** Called when a bug has ended the lane. It counts as paused until another lane replaces it. */
  fail(message: string): void {
    this.failed = message
    this.track()
  }

  /** Called when the journal refuses the lane's progress. Returns false if it already did. */
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

  /** Sets or clears (empty) the stall message. Returns true if the lane has just stalled or recovered. */
  stall(message: string): boolean {
    const isNews = (message === "") !== (this.stalled === "")
    this.stalled = message
    if (isNews) this.track()
    return isNews
  }

  /** Tracks pauses, because a paused event does not age: when a pause ends, the lane's own time excludes it. */
  track(): void {
    if (this.condition === "running") this.end()
    else this.#pausedSince ??= this.#clock.now()
  }

  /** Ends the current pause. Also called when the lane ends. */
  end(): void {
    if (this.#pausedSince === undefined) return
    this.#clock.excludePause(this.#clock.now() - this.#pausedSince)
    this.#pausedSince = undefined
  }
}

/** The events that a lane reports. `Announcements.ts` turns them into log lines and own events. */
export interface LaneEvents {
  readonly deadLettered: (entry: Entry, reason: string, message: string) => void
  readonly paused: (reason: string, message: string) => void
  readonly resumed: () => void
  /** The lane did something: it may have work, and progress to store. */
  readonly active: () => void
  /** Progress should be stored now, not at the next interval. */
  readonly settle: () => void
  /** Appends an own event for this lane alone. */
  readonly append: (event: Event) => Effect.Effect<void, JournalError>
  /** A bug, for the log. */
  readonly defect: (cause: Cause.Cause<unknown>) => void
}

/** Milliseconds without activity after which a lane counts as stalled. */
const stallsAfter = 30_000
/**
 * The minimum number of checks without activity. A process that was itself suspended
 * has not observed its lanes, so time alone doesn't prove a stall.
 */
const looksToStall = 20

interface Look {
  readonly now: number
  /** Epoch milliseconds. */
  readonly wall: number
  /** Increases with each attempt that ends and with each ended event that is stored. */
  readonly activity: number
  /** The lane has something to do now. */
  readonly hasWork: boolean
  readonly cause: () => string
}

/**
 * Detects a stalled lane: it has work and need not wait, but has done nothing for
 * half a minute, whatever the cause. Callers pass the monotonic time in milliseconds.
 */
export class Stall {
  #activity = 0
  /** The last check at which the lane had done something or had nothing to do. */
  #active: { readonly now: number; readonly wall: number } | undefined
  #looks = 0
  #cause = ""

  /**
   * Checks again. Returns a message with the time of the stall and its cause, or an empty string if the lane has not
   * stalled.
   */
  look({ now, wall, activity, hasWork, cause }: Look): string {
    if (this.#active === undefined || !hasWork || activity !== this.#activity) {
      this.#activity = activity
      this.#active = { now, wall }
      this.#looks = 0
      this.#cause = ""
    }
    this.#looks += 1
    if (now - this.#active.now < stallsAfter || this.#looks < looksToStall) return ""
    // Keeps the cause as first found, so that the message doesn't change from check to check.
    this.#cause ||= cause()
    return `nothing was delivered since ${new Date(this.#active.wall).toISOString()} although events wait: ${this.#cause}`
  }
}
