/** Events and settlements as the journal's tests make them. */

import { Duration, Effect, Schedule } from "effect"
import type { Event } from "../../src/event/Event.ts"
import type { Attempt, Settlement } from "../../src/journal/Journal.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"
import { floorOf, streamOf } from "../../src/journal/Sequences.ts"
import type { SqliteConfig } from "../../src/journal/sqlite/SqliteConfig.ts"
import { SearchIds } from "../../src/journal/stream/SearchIds.ts"
import { usualSearchIds } from "../../src/journal/stream/SearchIdsConfig.ts"

const utf8 = new TextEncoder()

export const event = (id: string, more: Partial<Event> = {}): Event => ({
  id,
  type: "appointment.created",
  accountId: "acct_1",
  webhook: "scheduling",
  webhookId: "wh_1",
  signature: `sha256=${"A".repeat(64)}`,
  secret: "current",
  receivedAt: 1_000,
  body: utf8.encode(JSON.stringify({ id })),
  ...more,
})

export const settlement = (lane: string, sequence: number, more: Partial<Settlement> = {}): Settlement => ({
  lane,
  cursor: { sequence, settled: [] },
  retry: [],
  takeBack: [],
  endRetry: [],
  // All other events of the stream up to this one.
  delivered: [{ from: floorOf(streamOf(sequence)) + 1, to: sequence, at: 2_000, took: 7, code: 200 }],
  late: [],
  dropped: [],
  counted: [],
  alerts: [],
  deadLetter: [],
  pausedFor: 0,
  ...more,
})

/** A receiver may answer any text, with any control characters. */
export const answer = 'Ann Example?\r\n{"error":"no such field"} \u001b[2J ü🙂\n'
export const attempts: ReadonlyArray<Attempt> = [
  { at: 5, reason: "DeliveryFailed", message: "the sink answered 500", answer },
]
/** A retry as the journal returns it. */
export const waiting = (sequence: number, key = "") => {
  const { failed, refunded: _, ...wait } = retrying(sequence, key)
  return { ...wait, lastFailure: failed.at(-1)?.reason ?? "", attempts: failed.length }
}
/** A retry as a lane settles it. */
export const retrying = (sequence: number, key = "") => ({
  sequence,
  key,
  due: 2_000,
  delay: 1_000,
  firstAttemptAt: 5,
  tried: 1,
  refunded: 0,
  failed: attempts,
})
export const letter = (sequence: number) => ({ sequence, at: 9, refunded: 0, failed: attempts })

/** The JSON Pointers of a config that names none. */
export const searchIds = new SearchIds(usualSearchIds)

export const optionsAt = (path: string): SqliteConfig => ({
  path,
  // The events above are from 1970, so tests that prune set their own retention.
  retention: Duration.days(36_525),
  maxSize: 1024 ** 3,
  minFree: 0,
  duplicates: { age: Duration.hours(24), count: 10_000 },
  searchIds: usualSearchIds,
})

/** Returns the health of a journal that was just opened, once it has read its state. */
export const healthOf = (journal: WholeJournal) =>
  Effect.map(journal.status, ({ health }) => health).pipe(
    Effect.repeat({ until: (health) => health !== "starting", schedule: Schedule.spaced("10 millis") }),
  )
