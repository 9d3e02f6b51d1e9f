/**
 * Keeps a log readable whatever strangers or a broken sink do: a line goes out
 * at once, and the next ones like it are counted and told together, ten seconds
 * later, for as long as they go on.
 *
 * Lines are alike when level and words are, whatever the numbers in them; what
 * differs between two of a kind belongs into annotations.
 */
import { Effect, Logger, type Scope } from "effect"

const every = 10_000
const lookEvery = 1_000
/** Kinds told apart at once; the rest of a flood that never repeats itself is of one kind a level. */
const maxKinds = 1_000
/** Characters by which kinds are told apart: a line may hold what somebody else answered. */
const maxKey = 300

interface Kind {
  since: number
  heldBack: number
  last: Logger.Options<unknown>
}

const words = (message: unknown): string =>
  (Array.isArray(message) ? message : [message]).filter((part) => typeof part === "string").join(" ")

/** `logger` with its repeats held back; what was counted last is told when the scope closes. */
export const limit = Effect.fnUntraced(function* (
  logger: Logger.Logger<unknown, void>,
): Effect.fn.Return<Logger.Logger<unknown, void>, never, Scope.Scope> {
  const kinds = new Map<string, Kind>()

  const tell = ({ last, heldBack }: Kind): void =>
    logger.log(
      heldBack === 1
        ? last
        : { ...last, message: `${words(last.message)} (${heldBack} times since the last such line)` },
    )

  const look = Effect.clockWith((clock) =>
    Effect.sync(() => {
      const now = clock.currentTimeMillisUnsafe()
      for (const [key, kind] of kinds) {
        if (Math.abs(now - kind.since) < every) continue
        if (kind.heldBack === 0) kinds.delete(key)
        else {
          tell(kind)
          kind.heldBack = 0
          kind.since = now
        }
      }
    }),
  )
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const kind of kinds.values()) if (kind.heldBack > 0) tell(kind)
      kinds.clear()
    }),
  )
  yield* Effect.forkScoped(Effect.forever(Effect.delay(look, lookEvery)))

  return Logger.make((options) => {
    const own = `${options.logLevel} ${words(options.message).slice(0, maxKey).replaceAll(/\d+/g, "#")}`
    const key = kinds.size < maxKinds || kinds.has(own) ? own : options.logLevel
    const kind = kinds.get(key)
    if (kind === undefined) {
      kinds.set(key, { since: options.date.getTime(), heldBack: 0, last: options })
      logger.log(options)
    } else {
      kind.heldBack += 1
      kind.last = options
    }
  })
})
