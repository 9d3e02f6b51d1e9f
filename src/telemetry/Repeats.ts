/**
 * Limits repeated log lines. The first is written at once; those like it are
 * counted, and written as one line every ten seconds for as long as they come.
 *
 * Lines are alike when their level and their text without numbers are the same.
 * What differs between lines of a kind belongs in annotations.
 */
import { Effect, Logger, type Scope } from "effect"

const writeEvery = 10_000
const checkEvery = 1_000
/** Kinds that are distinguished at a time; any further line counts to one kind per level. */
const maxKinds = 1_000
/** Characters that distinguish kinds: a line may contain a receiver's response. */
const maxKey = 300

interface Kind {
  since: number
  suppressed: number
  last: Logger.Options<unknown>
}

const words = (message: unknown): string =>
  (Array.isArray(message) ? message : [message]).filter((part) => typeof part === "string").join(" ")

/** `logger` with repeats suppressed; what is still counted is written when the scope closes. */
export const limit = Effect.fnUntraced(function* (
  logger: Logger.Logger<unknown, void>,
): Effect.fn.Return<Logger.Logger<unknown, void>, never, Scope.Scope> {
  const kinds = new Map<string, Kind>()

  const write = ({ last, suppressed }: Kind): void =>
    logger.log(
      suppressed === 1
        ? last
        : { ...last, message: `${words(last.message)} (${suppressed} times since the last such line)` },
    )

  const check = Effect.clockWith((clock) =>
    Effect.sync(() => {
      const now = clock.currentTimeMillisUnsafe()
      for (const [key, kind] of kinds) {
        if (Math.abs(now - kind.since) < writeEvery) continue
        if (kind.suppressed === 0) kinds.delete(key)
        else {
          write(kind)
          kind.suppressed = 0
          kind.since = now
        }
      }
    }),
  )
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const kind of kinds.values()) if (kind.suppressed > 0) write(kind)
      kinds.clear()
    }),
  )
  yield* Effect.forkScoped(Effect.forever(Effect.delay(check, checkEvery)))

  return Logger.make((options) => {
    const own = `${options.logLevel} ${words(options.message).slice(0, maxKey).replaceAll(/\d+/g, "#")}`
    const key = kinds.size < maxKinds || kinds.has(own) ? own : options.logLevel
    const kind = kinds.get(key)
    if (kind === undefined) {
      kinds.set(key, { since: options.date.getTime(), suppressed: 0, last: options })
      logger.log(options)
    } else {
      kind.suppressed += 1
      kind.last = options
    }
  })
})
