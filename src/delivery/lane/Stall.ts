/**
 * Whether a lane stands still: it has work and nothing that it must wait for,
 * and for half a minute nothing has come of it. That is seen without knowing
 * why, so that no cause is overlooked; the cause is looked for afterwards.
 *
 * Pure state over a monotonic clock in milliseconds; it never reads one.
 */

/** Milliseconds. */
export const stallsAfter = 30_000
/** A process that stood still itself has not seen what its lanes do: so many looks must agree. */
const looksToStall = 20

export interface Look {
  readonly now: number
  /** Epoch milliseconds. */
  readonly wall: number
  /** Rises with each attempt that ends, and with what is stored of them. */
  readonly activity: number
  /** It has something to do at this moment. */
  readonly hasWork: boolean
  readonly cause: () => string
}

export class Stall {
  #activity = 0
  /** The last look at which it did something, or had nothing to do. */
  #active: { readonly now: number; readonly wall: number } | undefined
  #looks = 0
  #cause = ""

  /** Looks once more; why it stands still, and since when: empty while it does not. */
  look({ now, wall, activity, hasWork, cause }: Look): string {
    if (this.#active === undefined || !hasWork || activity !== this.#activity) {
      this.#activity = activity
      this.#active = { now, wall }
      this.#looks = 0
      this.#cause = ""
    }
    this.#looks += 1
    if (now - this.#active.now < stallsAfter || this.#looks < looksToStall) return ""
    // The cause stays as it was found: it may change from look to look, and the message must not.
    this.#cause ||= cause()
    return `nothing was delivered since ${new Date(this.#active.wall).toISOString()} although events wait: ${this.#cause}`
  }
}
