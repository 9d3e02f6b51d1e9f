/**
 * How many dead letters the lanes of a stream have, and their bytes: counted in
 * the database at most once a second.
 *
 * **Guarantee.** Whoever asks is answered within half a second. Where the
 * database is slower or unavailable, the answer is the last count.
 */
import { Effect, Fiber, Option } from "effect"
import type { WebhookBytes } from "../../stream/WebhookBytes.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"

/** Milliseconds that a count is good for. */
const lasts = 900
const answersWithin = "500 millis"

export interface LetterCount {
  readonly letters: number
  /** Replayed dead letters that the lane has yet to take up. */
  readonly returned: number
  readonly bytes: WebhookBytes
}
type Counts = ReadonlyMap<string, LetterCount>

/** The counts of a stream's lanes, kept for a second. */
export class LetterCounts {
  readonly #count: Effect.Effect<Counts, DatabaseError>
  readonly #now: () => number
  #at = Number.NEGATIVE_INFINITY
  #counting: Fiber.Fiber<unknown, DatabaseError> | undefined
  /** The count that is under way was waited for already. */
  #isSlow = false
  #changes = 0
  /** The last count. */
  last: Counts = new Map()

  /** `now` is a steady clock in milliseconds. */
  constructor(count: Effect.Effect<Counts, DatabaseError>, now: () => number) {
    this.#count = count
    this.#now = now
  }

  /** Counted a moment ago, if the database answers. */
  get newest(): Effect.Effect<Counts> {
    return Effect.gen({ self: this }, function* () {
      if (this.#isSlow || this.#now() - this.#at <= lasts) return this.last
      this.#counting ??= yield* Effect.forkDetach(this.#recount)
      const counted = yield* Effect.timeoutOption(Fiber.await(this.#counting), answersWithin)
      this.#isSlow = Option.isNone(counted)
      return this.last
    })
  }

  /** A count that is under way may miss the newest change: then it is repeated. */
  get #recount() {
    const once = Effect.suspend(() => {
      const [at, changes] = [this.#now(), this.#changes]
      return Effect.map(this.#count, (counts) => {
        this.last = counts
        if (changes === this.#changes) this.#at = at
        return changes === this.#changes
      })
    })
    return Effect.ensuring(
      Effect.flatMap(once, (isNewest) => (isNewest ? Effect.void : once)),
      Effect.sync(() => {
        this.#counting = undefined
        this.#isSlow = false
      }),
    )
  }

  /** Dead letters were added or removed. */
  changed(): void {
    this.#changes += 1
    this.#at = Number.NEGATIVE_INFINITY
  }
}
