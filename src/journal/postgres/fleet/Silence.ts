/**
 * Whether PostgreSQL answers, by this relay's heartbeats: what it asks besides
 * would wait for a timeout first.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { Fleet } from "./Fleet.ts"

/** Milliseconds. An older heartbeat says that the database does not answer: it is said before appends are refused. */
const answersWithin = 2_500

/** Says whether PostgreSQL answers, and ends what waits for it in vain. */
export class Silence {
  readonly #fleet: Fleet
  readonly #wall: () => number
  #since = 0

  /** `wall` gives epoch milliseconds. */
  constructor(fleet: Fleet, wall: () => number) {
    this.#fleet = fleet
    this.#wall = wall
  }

  /** When PostgreSQL answered last, in epoch milliseconds; `undefined` while it answers. */
  get answeredAt(): number | undefined {
    const { beatAge } = this.#fleet
    if (beatAge <= answersWithin) this.#since = 0
    else if (this.#since === 0) this.#since = this.#wall() - Math.round(beatAge)
    return this.#since === 0 ? undefined : this.#since
  }

  /** Why PostgreSQL is taken for unavailable; empty while it answers. */
  get message(): string {
    const { answeredAt } = this
    return answeredAt === undefined
      ? ""
      : `PostgreSQL has not answered since ${new Date(answeredAt).toISOString()}: deliveries are refused until it does. What is said of it is of then.`
  }

  /** Fails at once where PostgreSQL is known not to answer: no person waits for its timeouts. */
  readonly asking = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> =>
    Effect.suspend(() => (this.answeredAt === undefined ? effect : Effect.fail(unavailable(this.message))))

  /** A question that may be asked again also ends as soon as PostgreSQL is seen not to answer. */
  readonly askingAgain = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> => {
    const falls = Effect.forever(Effect.andThen(this.asking(Effect.void), Effect.sleep("250 millis")))
    return this.asking(Effect.raceFirst(effect, falls))
  }
}
