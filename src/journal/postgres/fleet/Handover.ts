/**
 * The time from which a relay may deliver a stream that it has taken. The former owner may continue for its
 * lease before it hears of that.
 *
 * A promoted server that was behind names an earlier owner. So a relay that takes a stream there doesn't know
 * the last owner, unless it was the last owner itself.
 *
 * **Guarantee.** A relay waits for a lease before it delivers, in two cases: after it took a stream from a
 * living relay, and after it was the first to take a stream since a promotion. A relay waits for nobody if it
 * had the stream when it was last answered before the promotion, less than a lease ago: no other relay had
 * begun by then. Waiting for a lease isn't enough: a heartbeat that was sent after the lease must also have
 * been answered. So a relay that took a stream just before a promotion hears of the promotion first.
 */
import { timelineOf } from "../../Sequences.ts"
import { lease } from "./Membership.ts"

interface Held {
  readonly timeline: number
  /** When the heartbeat was sent whose answer named these streams, in monotonic milliseconds. */
  readonly at: number
  readonly streams: ReadonlySet<number>
}

/** The stream's number, and its epochs before and after it was taken. `former` is 0 if it has never had an owner. */
export interface Taken {
  readonly id: number
  readonly epoch: number
  readonly former: number
}

export class Handover {
  /** This relay's streams on the timelines that it heard of, the newest last. Two timelines are enough. */
  #held: ReadonlyArray<Held> = []
  readonly #from = new Map<number, number>()

  /** Records the answer to a heartbeat. */
  heard(held: Held): void {
    this.#held = [...this.#held.filter(({ timeline }) => timeline !== held.timeline).slice(-1), held]
  }

  /**
   * Records that a stream is about to be taken from a living relay. It is called before the request, because
   * the answer may be lost.
   */
  fromLiving(stream: number, now: number): void {
    this.#from.set(stream, now + lease)
  }

  /** Returns when a stream that was taken now may be delivered, in monotonic milliseconds. */
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
