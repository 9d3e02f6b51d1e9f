/**
 * The number of dead letters in a stream's lanes, and their bytes. The database counts them at most once a
 * second, and less often if a count takes longer.
 *
 * **Guarantee.** Every caller gets an answer within half a second. If the database is slower or unavailable,
 * the answer is the last count.
 */
import { Effect, Fiber, Option } from "effect"
import type { WebhookBytes } from "../../stream/Backlog.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"

/** Milliseconds that a count is good for. */
const lasts = { least: 900, most: 10_000 }
/**
 * Between these two, a count is valid for this many times its own duration, because it reads a row for each
 * dead letter.
 */
const restAfter = 20
const answersWithin = "500 millis"

export interface LetterCount {
  readonly letters: number
  /** Number of replayed dead letters that the lane has not taken up yet. */
  readonly returned: number
  readonly bytes: WebhookBytes
}
type Counts = ReadonlyMap<string, LetterCount>

/** The counts of a stream's lanes, kept for a while. */
export class LetterCounts {
  readonly #count: Effect.Effect<Counts, DatabaseError>
  readonly #now: () => number
  #goodUntil = Number.NEGATIVE_INFINITY
  #counting: Fiber.Fiber<unknown, DatabaseError> | undefined
  /** True if a caller has already waited for the running count. */
  #isSlow = false
  #changes = 0
  last: Counts = new Map()

  /** `now` is monotonic, in milliseconds. */
  constructor(count: Effect.Effect<Counts, DatabaseError>, now: () => number) {
    this.#count = count
    this.#now = now
  }

  /** A recent count, if the database answers. */
  get newest(): Effect.Effect<Counts> {
    return Effect.gen({ self: this }, function* () {
      if (this.#isSlow || this.#now() <= this.#goodUntil) return this.last
      this.#counting ??= yield* Effect.forkDetach(this.#recount)
      const counted = yield* Effect.timeoutOption(Fiber.await(this.#counting), answersWithin)
      this.#isSlow = Option.isNone(counted)
      return this.last
    })
  }

  /** Counts dead letters. If they changed meanwhile, it counts again, because the first count may miss the change. */
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

  /** Call it after dead letters were added or removed. */
  changed(): void {
    this.#changes += 1
    this.#goodUntil = Number.NEGATIVE_INFINITY
  }
}
