/**
 * Incoming events, live: a filtered reader at the head of the journal. Refused
 * requests come with them.
 *
 * **Guarantee.** No body and no signature is shown. It costs an accepted event
 * nothing, because it reads the journal and not ingest. A slow reader delays
 * nothing; what it misses is counted.
 */
import { Clock, Duration, Effect, Stream } from "effect"
import type { Entry } from "../event/Entry.ts"
import { refusals } from "../ingest/Answers.ts"
import type { RecentRefusals, Refused } from "../ingest/RecentRefusals.ts"
import { Journal } from "../journal/Journal.ts"
import type { Pattern } from "../routing/Pattern.ts"
import type * as Api from "./Api.ts"
import type { TappedRefusal } from "./RefusedRequest.ts"

export interface Filter {
  readonly match?: Pattern
  readonly webhook?: string
  readonly sink?: string
}

/** Events and refusals shown per second; more are only counted. */
const shownPerSecond = 100
/** How often the journal is read at most. */
const every = Duration.millis(100)
/** How often a line without events is sent, so that the connection is not taken for dead. */
const heartbeat = Duration.seconds(10)
/** Events behind the head that are still read: those are in memory. */
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

const tappedRefusal = ({ reason, ...refused }: Refused): TappedRefusal => {
  const { answer, what } = refusals[reason]
  return { ...refused, refused: reason, status: answer.status, what }
}

/** Whether an entry matches; a pattern is evaluated once per type. */
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
  return ({ event, sinks, duplicate }: Entry): boolean =>
    duplicate !== true &&
    (webhook === undefined || event.webhook === webhook) &&
    (sink === undefined || sinks.includes(sink)) &&
    matches(event.type)
}

const nothing = { events: [], refused: [], skipped: 0 }

/** From now on. The first line has no events: it says that the tap has begun. */
export const make = Effect.fnUntraced(function* (filter: Filter, recent: RecentRefusals) {
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const isWanted = passes(filter)
  // A refused request has no type, and goes to no sink.
  const showsRefusals = filter.match === undefined && filter.sink === undefined
  let position = yield* journal.head
  let seen = recent.total()
  let allowance = shownPerSecond
  let refilledAt = now()

  /** The events that are new since the last read. */
  const readNew = Effect.gen(function* () {
    const head = yield* journal.head
    const missed = Math.max(0, head - maxLag - position)
    position += missed
    allowance = Math.min(shownPerSecond, allowance + ((now() - refilledAt) / 1_000) * shownPerSecond)
    refilledAt = now()
    const events: Array<Api.Tapped> = []
    const refused: Array<TappedRefusal> = []
    let skipped = missed
    const show = (add: () => void) => {
      if (allowance < 1) skipped += 1
      else {
        allowance -= 1
        add()
      }
    }
    while (position < head) {
      // The journal reports its own errors.
      const entries = yield* Effect.orElseSucceed(journal.read(position, atOnce), () => [])
      if (entries.length === 0) break
      for (const entry of entries) {
        position = entry.sequence
        if (isWanted(entry)) show(() => events.push(tapped(entry)))
      }
    }
    if (showsRefusals) {
      const fresh = recent.since(seen)
      skipped += recent.total() - seen - fresh.length
      seen = recent.total()
      for (const one of fresh) {
        if (filter.webhook === undefined || filter.webhook === one.webhook) show(() => refused.push(tappedRefusal(one)))
      }
    }
    return { events, refused, skipped }
  })

  const next = Effect.gen(function* () {
    for (const end = now() + Duration.toMillis(heartbeat); now() < end; ) {
      yield* Effect.sleep(every)
      yield* Effect.timeoutOption(
        Effect.suspend(() => {
          const accepted = journal.awaitBeyond(position)
          return showsRefusals ? Effect.raceFirst(accepted, recent.awaitBeyond(seen)) : accepted
        }),
        Duration.millis(Math.max(0, end - now())),
      )
      const news = yield* readNew
      if (news.events.length + news.refused.length + news.skipped > 0) return news
    }
    return nothing
  })
  return Stream.concat(Stream.succeed(nothing), Stream.fromEffectRepeat(next))
})
