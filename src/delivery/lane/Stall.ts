/**
 * Detects a stalled lane: it has work and need not wait, but has done nothing for
 * half a minute. Detection doesn't depend on the cause, so that no cause is missed;
 * the cause is determined afterwards.
 *
 * Pure state: callers pass the monotonic time in milliseconds.
 */

/** Milliseconds without activity after which a lane counts as stalled. */
export const stallsAfter = 30_000
/**
 * The minimum number of checks without activity. A process that was itself suspended
 * has not observed its lanes, so time alone doesn't prove a stall.
 */
const looksToStall = 20

export interface Look {
  readonly now: number
  /** Epoch milliseconds. */
  readonly wall: number
  /** Increases with each attempt that ends and with each ended event that is stored. */
  readonly activity: number
  /** The lane has something to do now. */
  readonly hasWork: boolean
  readonly cause: () => string
}

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
