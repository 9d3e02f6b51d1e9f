/**
 * Knows from this relay's heartbeats whether PostgreSQL answers. Other statements would have to wait for a
 * timeout first.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { Fleet } from "./Fleet.ts"

/**
 * In milliseconds. If the last heartbeat is older, the database doesn't answer. This is reported before appends
 * are refused.
 */
const answersWithin = 2_500

/** Reports whether PostgreSQL answers, and ends work that waits for it. */
export class Silence {
  readonly #fleet: Fleet
  readonly #wall: () => number
  #since = 0

  /** `wall` gives epoch milliseconds. */
  constructor(fleet: Fleet, wall: () => number) {
    this.#fleet = fleet
    this.#wall = wall
  }

  /** When PostgreSQL last answered, in epoch milliseconds, or `undefined` while it answers. */
  get answeredAt(): number | undefined {
    const { beatAge } = this.#fleet
    if (beatAge <= answersWithin) this.#since = 0
    else if (this.#since === 0) this.#since = this.#wall() - Math.round(beatAge)
    return this.#since === 0 ? undefined : this.#since
  }

  /** Why PostgreSQL counts as unavailable; empty while it answers. */
  get message(): string {
    const { answeredAt } = this
    return answeredAt === undefined
      ? ""
      : `PostgreSQL has not answered since ${new Date(answeredAt).toISOString()}: deliveries are refused until it does. The status is from that time.`
  }

  /** Fails immediately while PostgreSQL doesn't answer, so that nobody waits for its timeouts. */
  readonly asking = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> =>
    Effect.suspend(() => (this.answeredAt === undefined ? effect : Effect.fail(unavailable(this.message))))

  /** Also ends as soon as PostgreSQL is seen not to answer. For questions that may be repeated. */
  readonly askingAgain = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> => {
    const falls = Effect.forever(Effect.andThen(this.asking(Effect.void), Effect.sleep("250 millis")))
    return this.asking(Effect.raceFirst(effect, falls))
  }
}
