/**
 * Shows incoming events live, by a filtered reader at the head of the journal, and
 * refused requests with them. `relay tap` reads a continuous stream. The page polls,
 * because a browser opens at most six connections to a host, and each stream would
 * occupy one.
 *
 * **Guarantee.** Bodies and signatures are never shown. It adds no work to an
 * accepted event, because it reads the journal and not ingest. A slow reader delays
 * nothing, and the events that it misses are counted.
 */
import { Clock, Duration, Effect, Schema, Stream } from "effect"
import type { Entry } from "../../event/Event.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { EpochMillis } from "../../event/Quantities.ts"
import { refusals } from "../../ingest/Answers.ts"
import type { RecentRefusals, Refused } from "../../ingest/RecentRefusals.ts"
import { Journal } from "../../journal/Journal.ts"
import { streamOf } from "../../journal/Sequences.ts"
import type { Pattern } from "../../routing/Pattern.ts"
import { TappedRefusal } from "../status/Status.ts"
import { TooMany } from "./ApiParts.ts"

/** The filter of a tap. */
export const tapFilter = {
  /** A pattern of event types. */
  type: Schema.optionalKey(Schema.String),
  webhook: Schema.optionalKey(Schema.String),
  sink: Schema.optionalKey(Schema.String),
}
/** A part of the position at which the last answer of a tap ended. */
export const tapPosition = Schema.optionalKey(
  Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 53 })),
)

/** An accepted event without its payload. */
export const Tapped = Schema.Struct({
  /** When it was received. */
  at: EpochMillis,
  id: Schema.String,
  type: Schema.String,
  account: Schema.String,
  webhook: Schema.String,
  sinks: Schema.Array(Schema.String),
  replayed: Schema.Boolean,
})
export type Tapped = typeof Tapped.Type

/** A line of a tap. An empty line only shows that the connection is alive. */
export const TapLine = Schema.Struct({
  events: Schema.Array(Tapped),
  refused: Schema.Array(TappedRefusal),
  /** Events and refusals that are not shown, because there are more than a hundred per second or the reader is slow. */
  skipped: Schema.Int,
})

/** The news of a tap since the last poll. */
export const Tap = Schema.Struct({
  ...TapLine.fields,
  /** The position for the next poll. */
  next: Schema.Struct({ sequence: Schema.Int, refusals: Schema.Int }),
})
export type Tap = typeof Tap.Type

export interface Filter {
  readonly match?: Pattern
  readonly webhook?: string
  readonly sink?: string
}

/** Maximum events and refusals shown per second, or per poll. More are only counted. */
const shownPerSecond = 100
/** Minimum interval between two reads of the journal. */
const every = Duration.millis(100)
/** How often a line without events is sent, so that the connection isn't considered dead. */
const heartbeat = Duration.seconds(10)
/** Maximum distance to the head at which events are still read, because these are in memory. */
const maxLag = 8_192
const atOnce = 512

const tapped = ({ event, sinks, replayed }: Entry): Tapped => ({
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

/** Makes a filter of entries. A pattern is evaluated once per type. */
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

/** The position of a tap: the newest entry shown, and the number of refusals until then. */
export interface Position {
  readonly sequence: number
  readonly refusals: number
}

/** A refused request has no type, and goes to no sink. */
const showsRefusals = ({ match, sink }: Filter): boolean => match === undefined && sink === undefined

const newest = (recent: RecentRefusals) =>
  Effect.map(
    Effect.flatMap(Journal, ({ head }) => head),
    (sequence): Position => ({ sequence, refusals: recent.total() }),
  )

/** Returns the news after a position, and the next position. At most `most` are shown, and the others are counted. */
const newsAfter = Effect.fnUntraced(function* (
  filter: Filter,
  recent: RecentRefusals,
  { sequence, refusals }: Position,
  most: number,
) {
  const journal = yield* Journal
  const isWanted = passes(filter)
  const next = yield* newest(recent)
  const events: Array<Tapped> = []
  const refused: Array<TappedRefusal> = []
  // The relay may now own another stream, whose sequences start elsewhere.
  const from = streamOf(sequence) === streamOf(next.sequence) ? sequence : next.sequence
  let at = Math.max(Math.min(from, next.sequence), next.sequence - maxLag)
  let skipped = Math.max(0, at - from)
  const show = (add: () => void) => {
    if (events.length + refused.length >= most) skipped += 1
    else add()
  }
  while (at < next.sequence) {
    // The journal reports its own errors.
    const entries = yield* Effect.orElseSucceed(journal.read(at, atOnce), () => [])
    if (entries.length === 0) break
    for (const entry of entries) {
      at = entry.sequence
      if (isWanted(entry)) show(() => events.push(tapped(entry)))
    }
  }
  if (showsRefusals(filter)) {
    // The count restarts with the relay.
    const seen = Math.min(refusals, next.refusals)
    const fresh = recent.since(seen)
    skipped += next.refusals - seen - fresh.length
    for (const refusal of fresh) {
      if (filter.webhook === undefined || filter.webhook === refusal.webhook)
        show(() => refused.push(tappedRefusal(refusal)))
    }
  }
  return { news: { events, refused, skipped }, next: { sequence: at, refusals: next.refusals } }
})

/**
 * Returns the news after `after`, for a reader that polls. Without a position,
 * returns no news and the position to start from.
 */
export const newsSince = Effect.fnUntraced(function* (filter: Filter, recent: RecentRefusals, after?: Position) {
  if (after === undefined) return { news: nothing, next: yield* newest(recent) }
  return yield* newsAfter(filter, recent, after, shownPerSecond)
})

/** Makes a stream from now on. Its first line has no events, and shows that the tap has started. */
export const tapStream = Effect.fnUntraced(function* (filter: Filter, recent: RecentRefusals) {
  const journal = yield* Journal
  const clock = yield* Clock.Clock
  const now = () => Monotonic.millis(clock)
  let position = yield* newest(recent)
  let allowance = shownPerSecond
  let refilledAt = now()

  const readNew = Effect.gen(function* () {
    allowance = Math.min(shownPerSecond, allowance + ((now() - refilledAt) / 1_000) * shownPerSecond)
    refilledAt = now()
    const { news, next } = yield* newsAfter(filter, recent, position, Math.floor(allowance))
    allowance -= news.events.length + news.refused.length
    position = next
    return news
  })

  const next = Effect.gen(function* () {
    for (const end = now() + Duration.toMillis(heartbeat); now() < end; ) {
      yield* Effect.sleep(every)
      yield* Effect.timeoutOption(
        Effect.suspend(() => {
          const accepted = journal.awaitBeyond(position.sequence)
          return showsRefusals(filter) ? Effect.raceFirst(accepted, recent.awaitBeyond(position.refusals)) : accepted
        }),
        Duration.millis(Math.max(0, end - now())),
      )
      const news = yield* readNew
      if (news.events.length + news.refused.length + news.skipped > 0) return news
    }
    return nothing
  }).pipe(Effect.provideService(Journal, journal))
  return Stream.concat(Stream.succeed(nothing), Stream.fromEffectRepeat(next))
})

/** Maximum open streams. */
export const maxStreams = 64

/** Limits the number of open live streams. Each of them takes work while its reader stays, which may be weeks. */
export const limitStreams = () => {
  let open = 0
  const counting = Effect.acquireRelease(
    Effect.sync(() => {
      open += 1
    }),
    () =>
      Effect.sync(() => {
        open -= 1
      }),
  )
  /** Fails if too many are open. A stream counts from when it is first read until it ends. */
  return <A, E, E2, R>(stream: Effect.Effect<Stream.Stream<A, E>, E2, R>) =>
    Effect.suspend((): Effect.Effect<Stream.Stream<A, E>, E2 | TooMany, R> => {
      if (open < maxStreams) return Effect.map(stream, (one) => Stream.unwrap(Effect.as(counting, one)))
      return Effect.fail(
        new TooMany({
          message: `${maxStreams} live streams are open, as many as the relay serves: close commands that follow it (\`relay tap\`)`,
        }),
      )
    })
}
