/**
 * The time from which a relay may deliver a stream that it has taken: the one
 * that had it may go on for its lease before it hears of that.
 *
 * A promoted server that was behind names an owner of before. So nobody who takes
 * a stream there knows who delivered it last, but for the relay that did so.
 *
 * **Guarantee.** Before it delivers, a relay waits for a lease after it took a
 * stream from a relay that lives, and after it was the first to take a stream since
 * a promotion. A relay that had the stream when it was last answered before the
 * promotion, less than a lease ago, waits for nobody: no other had begun by then. That
 * a lease has passed is not enough: a sign of life that was sent after it must have been
 * answered, so who took a stream just before a promotion hears of that one first.
 */
import { timelineOf } from "../../Sequences.ts"
import { lease } from "./Membership.ts"

interface Held {
  readonly timeline: number
  /** When the sign of life was sent whose answer says so, in steady milliseconds. */
  readonly at: number
  readonly streams: ReadonlySet<number>
}

/** The stream's number, and the epochs before and since it was taken; `former` is 0 for one that nobody had. */
export interface Taken {
  readonly id: number
  readonly epoch: number
  readonly former: number
}

export class Handover {
  /** The streams that this relay had on the timelines that it heard of, the newest last: two are enough. */
  #held: ReadonlyArray<Held> = []
  readonly #from = new Map<number, number>()

  /** A sign of life was answered. */
  heard(held: Held): void {
    this.#held = [...this.#held.filter(({ timeline }) => timeline !== held.timeline).slice(-1), held]
  }

  /** A stream is taken from a relay that lives: noted before it is asked for, because the answer may be lost. */
  fromLiving(stream: number, now: number): void {
    this.#from.set(stream, now + lease)
  }

  /** From when a stream may be delivered that was taken now, in steady milliseconds. */
  after({ id, epoch, former }: Taken, now: number): number {
    const timeline = timelineOf(epoch)
    const isPromoted =
      former === 0 ? this.#held.some((held) => held.timeline < timeline) : timelineOf(former) !== timeline
    const last = this.#held.findLast((held) => held.timeline < timeline)
    const wasHeld = last?.streams.has(id) === true && now - last.at < lease
    if (isPromoted && !wasHeld) this.fromLiving(id, now)
    return this.#from.get(id) ?? Number.NEGATIVE_INFINITY
  }
}
