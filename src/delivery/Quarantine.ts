/**
 * The quarantine is a lane whose sink rejects every event and gives the event's
 * problem as the reason. So its dead letters are the quarantined events.
 *
 * **Guarantee.** It never fills the journal: beyond its limit, deliveries that
 * belong in quarantine are refused, and other deliveries are still accepted. A flood
 * on one webhook leaves space for unroutable deliveries of other webhooks
 * (`Backlog.ts`). Only events older than the configured age are deleted.
 */
import { Clock, Duration, Effect } from "effect"
import { quarantine } from "../event/Event.ts"
import { rounds } from "../event/Rounds.ts"
import type { Archive } from "../journal/Archive.ts"
import { Operator } from "../journal/JournalContext.ts"
import { floorOf, streamOf } from "../journal/Sequences.ts"
import * as WallClock from "../journal/WallClock.ts"
import { rejected, type Sink } from "../sinks/Sink.ts"
import type { LaneSpec } from "./LaneSpec.ts"

export interface QuarantineLimits {
  readonly maxBytes: number
  /** Older dead letters are deleted (default: keep all). */
  readonly maxAge?: Duration.Duration
}

const rejecting: Sink = {
  // The quarantine isn't urgent, and nearly every commit has no events for it.
  batch: { maxEvents: 256, maxBytes: 4 * 1024 * 1024, linger: 50 },
  send: (batch) =>
    Effect.succeed(new Map(batch.map(({ event }, index) => [index, rejected(event.problem ?? "quarantined")]))),
  check: Effect.void,
}

export const spec = (limits?: QuarantineLimits): LaneSpec => ({
  config: {
    name: quarantine,
    type: "quarantine",
    delivery: {
      timeout: Duration.seconds(10),
      retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
      pauseAfter: 5,
      maxRetrying: 10_000,
      // No limit: if the lane were blocked, its backlog would fill the journal.
      maxDeadLetters: Number.POSITIVE_INFINITY,
    },
    concurrency: 1,
    order: "none",
    key: "",
    config: undefined,
  },
  ...(limits && { maxBytes: limits.maxBytes }),
  open: Effect.succeed(rejecting),
  key: () => "",
})

/** The operator's name in the history of a delivery that was deleted because of its age. */
const expiry = 'the relay, for "quarantine.maxAge"'
/** The number of dead letters to delete at a time. */
const page = 100
const expireEvery = Duration.minutes(10)

const idOf = (sequence: number): string => `${quarantine}:${sequence}`

const newestBelow = (archive: Archive["Service"], sequence?: number) =>
  Effect.map(
    archive.deadLetters({ lane: quarantine, limit: 1, ...(sequence !== undefined && { before: idOf(sequence) }) }),
    ([letter]) => letter,
  )

/**
 * Returns the first sequence above `floor` whose dead letters are younger than a
 * time, up to `newest`. A binary search works, because the letters of a stream are
 * in order of time.
 */
const firstSince = Effect.fnUntraced(function* (
  archive: Archive["Service"],
  floor: number,
  newest: number,
  time: number,
) {
  let [low, high] = [floor + 1, newest + 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const letter = yield* newestBelow(archive, middle)
    if (letter === undefined || letter.sequence <= floor || letter.at < time) low = middle
    else high = Math.min(letter.sequence, middle - 1)
  }
  return low
})

/** Deletes the events quarantined before a time. Returns their number. */
export const expire = Effect.fnUntraced(function* (archive: Archive["Service"], time: number) {
  let deleted = 0
  let newest = yield* newestBelow(archive)
  while (newest !== undefined) {
    const floor = floorOf(streamOf(newest.sequence))
    let before = yield* firstSince(archive, floor, newest.sequence, time)
    while (before > floor) {
      const letters = yield* archive.deadLetters({ lane: quarantine, before: idOf(before), limit: page })
      const old = letters.filter(({ sequence, at }) => sequence > floor && at < time).map(({ id }) => id)
      if (old.length > 0) deleted += yield* Effect.provideService(archive.dropDeadLetters(old), Operator, expiry)
      before = letters.at(-1)?.sequence ?? floor
    }
    newest = yield* newestBelow(archive, floor + 1)
  }
  return deleted
})

/** Deletes events that are too old, forever. Deletes nothing while the wall clock can't be trusted. */
export const expiring = Effect.fnUntraced(function* (
  archive: Archive["Service"],
  maxAge: Duration.Duration,
): Effect.fn.Return<never> {
  const wallClock = WallClock.make(yield* Clock.Clock)
  const round = Effect.gen(function* () {
    if (!wallClock.trusted()) return
    const deleted = yield* expire(archive, (yield* Clock.currentTimeMillis) - Duration.toMillis(maxAge))
    if (deleted > 0) {
      yield* Effect.logWarning(
        `${deleted} deliveries in quarantine were older than ${Duration.format(maxAge)} ("quarantine.maxAge"), and were deleted`,
      )
    }
  })
  return yield* rounds("deleting old deliveries from the quarantine", round, expireEvery)
})
