/**
 * Shares the event loop between deliveries and work that can wait: lanes that catch up, reloads, and slices of
 * operators' commands.
 *
 * **Guarantee.** While deliveries arrive, the work that can wait gets at most half of the time, and all of it together
 * runs for at most {@link longest} milliseconds in a row. One step may exceed that, so steps must be short. Without
 * deliveries it runs whenever it wants to.
 */
import { Effect } from "effect"

/** In milliseconds, like the other times here. */
const longest = 2
/** The loop is shared for this long after a delivery. */
const sharedFor = 250

/** Runs a function after some milliseconds. */
type Later = (run: () => void, millis: number) => unknown

export class EventLoop {
  readonly #now: () => number
  readonly #later: Later
  /** When the last delivery arrived. */
  #deliveredAt = Number.NEGATIVE_INFINITY
  /** How long steps have run in a row. It shrinks while no step runs. */
  #spent = 0
  #endedAt = 0
  /** The steps that wait for their time, in order. */
  readonly #waiting = new Set<() => void>()
  /** True while a step runs, or until there is time again. */
  #isTaken = false

  constructor(now: () => number = () => performance.now(), later: Later = (run, millis) => setTimeout(run, millis)) {
    this.#now = now
    this.#later = later
  }

  /** Forgets all steps and times. A simulation of several processes in one calls it for each of them. */
  reset(): void {
    this.#deliveredAt = Number.NEGATIVE_INFINITY
    this.#spent = 0
    this.#endedAt = 0
    this.#waiting.clear()
    this.#isTaken = false
  }

  /** Call it for each delivery that arrives. */
  delivery(): void {
    this.#deliveredAt = this.#now()
  }

  /** Reports whether deliveries arrive. */
  get isShared(): boolean {
    return this.#now() - this.#deliveredAt < sharedFor
  }

  /** Runs a step as soon as there is time for it, perhaps now. A step that waits already is not added again. */
  run(step: () => void): void {
    this.#waiting.add(step)
    if (!this.#isTaken) this.#work()
  }

  /** Waits for a turn of the event loop that has time. The caller's next step is short, or yields again. */
  readonly turn: Effect.Effect<void> = Effect.callback<void>((resume) => {
    const step = () => resume(Effect.void)
    const immediate = setImmediate(() => this.run(step))
    return Effect.sync(() => {
      clearImmediate(immediate)
      this.#waiting.delete(step)
    })
  })

  readonly #work = (): void => {
    this.#isTaken = true
    try {
      for (const step of this.#waiting) {
        this.#waiting.delete(step)
        this.#spend(step)
        if (this.#spent < longest || !this.isShared) continue
        this.#later(this.#work, this.#spent)
        return
      }
    } catch (error) {
      this.#later(this.#work, 0)
      throw error
    }
    this.#isTaken = false
  }

  #spend(step: () => void): void {
    const from = this.#now()
    this.#spent = Math.max(0, this.#spent - (from - this.#endedAt))
    try {
      step()
    } finally {
      this.#endedAt = this.#now()
      this.#spent += this.#endedAt - from
    }
  }
}

/** The event loop of this process. */
export const eventLoop = new EventLoop()
