/**
 * How many dead letters the lanes of a stream have, and their bytes: counted in
 * the database at most once a second, and less often the longer a count takes.
 *
 * **Guarantee.** Whoever asks is answered within half a second. Where the
 * database is slower or unavailable, the answer is the last count.
 */
import { Effect, Fiber, Option } from "effect"
import type { WebhookBytes } from "../../stream/WebhookBytes.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"

/** Milliseconds that a count is good for. */
const lasts = { least: 900, most: 10_000 }
/** In between, a count is good for this many times as long as it took: it reads a row for each dead letter. */
const restAfter = 20
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
  #goodUntil = Number.NEGATIVE_INFINITY
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
      if (this.#isSlow || this.#now() <= this.#goodUntil) return this.last
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
        const good = Math.min(lasts.most, Math.max(lasts.least, restAfter * (this.#now() - at)))
        if (changes === this.#changes) this.#goodUntil = at + good
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
    this.#goodUntil = Number.NEGATIVE_INFINITY
  }
}
