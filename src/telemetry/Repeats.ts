/**
 * Limits repeated log lines. The first is written immediately. Lines like it are
 * held, and reported as one line with their number and the last one's fields: every
 * ten seconds while they continue, and before a new line is written, so that the log
 * keeps its order.
 *
 * Lines are alike when their level and their text without numbers are the same. Put
 * the differences between lines of a kind into annotations. A line that reports a
 * loss ({@link reportsLoss}) is like another only if the numbers are the same too.
 */
import { Clock, Effect, Logger, References, type Scope } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import { rounds } from "../event/Rounds.ts"

const writeEvery = 10_000
const checkEvery = 1_000
/**
 * For this many milliseconds after a report, a new line doesn't wait for the next: a flood of new lines must not undo
 * the limit.
 */
const reportEvery = 1_000
/** Kinds that are distinguished at a time; any further line counts to one kind per level. */
const maxKinds = 1_000
/** Characters that distinguish kinds: a line may contain a receiver's response. */
const maxKey = 300

type Line = Logger.Options<unknown>

/** Marks a line whose numbers are the figures of a loss. */
export const reportsLoss = Effect.annotateLogs({ loss: true })

/** Times are monotonic milliseconds. */
interface Kind {
  since: number
  held: number
  last: Line
  lastAt: number
  /** The fields of the last line; its fiber changes them when it goes on. */
  fields: Readonly<Record<string, unknown>>
}

const words = (message: unknown): string =>
  (Array.isArray(message) ? message : [message]).filter((part) => typeof part === "string").join(" ")

/** `logger` with repeats held. Held lines are reported when the scope closes. */
export const limit = Effect.fnUntraced(function* (
  logger: Logger.Logger<unknown, void>,
): Effect.fn.Return<Logger.Logger<unknown, void>, never, Scope.Scope> {
  const run = Effect.runSyncWith(yield* Effect.context<never>())
  const clock = yield* Clock.Clock
  const kinds = new Map<string, Kind>()
  let reportedAt = Number.NEGATIVE_INFINITY

  const report = ({ last, fields, held }: Kind): void => {
    const date = new Date(clock.currentTimeMillisUnsafe())
    const message = `${words(last.message)} (${held} ${held === 1 ? "time" : "times"} since the last such line)`
    const logged = Effect.withFiber((fiber) => Effect.sync(() => logger.log({ ...last, message, date, fiber })))
    run(Effect.annotateLogs(logged, { ...fields, repeated: held, lastAt: last.date.toISOString() }))
  }

  /** In the order in which they came last. */
  const reportHeld = (): void => {
    const now = Monotonic.millis(clock)
    const held = [...kinds.values()].filter((kind) => kind.held > 0)
    for (const kind of held.toSorted((a, b) => a.lastAt - b.lastAt)) {
      report(kind)
      kind.held = 0
      kind.since = now
    }
    if (held.length > 0) reportedAt = now
  }

  const check = Effect.map(Monotonic.now, (now) => {
    const due = [...kinds].filter(([, { since }]) => now - since >= writeEvery)
    if (due.some(([, { held }]) => held > 0)) reportHeld()
    for (const [key, { since }] of due) if (since < now) kinds.delete(key)
  })
  yield* Effect.addFinalizer(() => Effect.sync(reportHeld))
  yield* Effect.forkScoped(Effect.delay(rounds("writing repeated log lines", check, checkEvery), checkEvery))

  return Logger.make((line) => {
    const { message, logLevel, fiber } = line
    const now = Monotonic.millis(clock)
    const fields = fiber.getRef(References.CurrentLogAnnotations)
    const isLoss = fields.loss === true
    const text = words(message).slice(0, maxKey)
    const own = `${logLevel} ${isLoss ? text : text.replaceAll(/\d+/g, "#")}`
    const key = isLoss || kinds.size < maxKinds || kinds.has(own) ? own : logLevel
    const kind = kinds.get(key)
    if (kind !== undefined) {
      kind.held += 1
      kind.last = line
      kind.lastAt = now
      kind.fields = fields
      return
    }
    if (now - reportedAt >= reportEvery) reportHeld()
    kinds.set(key, { since: now, held: 0, last: line, lastAt: now, fields })
    logger.log(line)
  })
})
