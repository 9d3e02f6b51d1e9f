/**
 * What comes in, live: a reader at the head of the journal, with filters.
 *
 * **Promise.** It shows who and where, never what: no body, no signature. It
 * costs nothing while nobody taps, for it hangs on the journal and not on
 * ingest. A reader that is slow is waited for; what it misses meanwhile is
 * counted and not kept.
 */
import { Clock, Duration, Effect, Stream } from "effect"
import type { Entry } from "../event/Entry.ts"
import { Journal } from "../journal/Journal.ts"
import type { Pattern } from "../routing/Pattern.ts"
import type * as Api from "./Api.ts"

export interface Filter {
  readonly match?: Pattern
  readonly webhook?: string
  readonly sink?: string
}

/** Events a second; what matches beyond is counted. */
export const shownPerSecond = 100
/** How often the journal is read at most: each look may show a tenth of a second's events. */
const every = Duration.millis(100)
/** A line without events goes out so often, so that the connection is not taken for a dead one. */
const heartbeat = Duration.seconds(10)
/** Events behind the head that are still read: they are in memory. */
const maxLag = 8_192
const atOnce = 512

const tapped = ({ event, sinks, replayed }: Entry): Api.Tapped => ({
  at: event.receivedAt,
  id: event.id,
  type: event.type,
  account: event.accountId,
  webhook: event.webhook,
  sinks,
  replayed,
})

/** Whether an entry passes; a pattern is asked once a type. */
const passes = ({ match, webhook, sink }: Filter) => {
  const types = new Map<string, boolean>()
  const matches = (type: string): boolean => {
    if (match === undefined) return true
    const known = types.get(type)
    if (known !== undefined) return known
    const found = match.matches(type)
    if (types.size < 1_000) types.set(type, found)
    return found
  }
  return ({ event, sinks }: Entry): boolean =>
    (webhook === undefined || event.webhook === webhook) &&
    (sink === undefined || sinks.includes(sink)) &&
    matches(event.type)
}

const nothing = { events: [], skipped: 0 }

/** From now on. What comes first says only that it listens: whoever taps may be told before an event comes. */
export const make = Effect.fnUntraced(function* (filter: Filter) {
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const isWanted = passes(filter)
  let position = yield* journal.head
  let allowance = shownPerSecond
  let refilledAt = now()

  /** All that is new since the last look. */
  const look = Effect.gen(function* () {
    const head = yield* journal.head
    const missed = Math.max(0, head - maxLag - position)
    position += missed
    allowance = Math.min(shownPerSecond, allowance + ((now() - refilledAt) / 1_000) * shownPerSecond)
    refilledAt = now()
    const events: Array<Api.Tapped> = []
    let skipped = missed
    while (position < head) {
      // The journal says by itself what is wrong with it.
      const entries = yield* Effect.orElseSucceed(journal.read(position, atOnce), () => [])
      if (entries.length === 0) break
      for (const entry of entries) {
        position = entry.sequence
        if (!isWanted(entry)) continue
        if (allowance < 1) skipped += 1
        else {
          allowance -= 1
          events.push(tapped(entry))
        }
      }
    }
    return { events, skipped }
  })

  const next = Effect.gen(function* () {
    for (const end = now() + Duration.toMillis(heartbeat); now() < end; ) {
      yield* Effect.sleep(every)
      yield* Effect.timeoutOption(
        Effect.suspend(() => journal.awaitBeyond(position)),
        Duration.millis(Math.max(0, end - now())),
      )
      const seen = yield* look
      if (seen.events.length + seen.skipped > 0) return seen
    }
    return nothing
  })
  return Stream.concat(Stream.succeed(nothing), Stream.fromEffectRepeat(next))
})
