/**
 * Fills a journal with events for one lane. They are delivered, as a relay that has run for days leaves them, or
 * pending, perhaps with the lane paused. The events go directly into the journal, in groups of the size that 64
 * connections make. Over HTTP it would take three times as long.
 */
import { DatabaseSync } from "node:sqlite"
import { Duration, Effect, type Layer, References, Schema } from "effect"
import type { Event } from "../../src/event/Event.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { Journal, type JournalError } from "../../src/journal/Journal.ts"
import { PostgresConfig } from "../../src/journal/postgres/connection/PostgresConfig.ts"
import * as PostgresLayer from "../../src/journal/postgres/PostgresJournal.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import { Index } from "../../src/journal/sqlite/search/Index.ts"
import { SearchIds } from "../../src/journal/stream/SearchIds.ts"
import { usualSearchIds } from "../../src/journal/stream/SearchIdsConfig.ts"
import { BenchError } from "./BenchError.ts"
import * as Requests from "./Requests.ts"

const gibibyte = 1024 ** 3
const group = 64

const options = (path: string) => ({
  type: "sqlite" as const,
  path,
  retention: Duration.days(7),
  maxSize: 1024 * gibibyte,
  minFree: gibibyte,
  duplicates: { age: Duration.hours(24), count: 1_000_000 },
  searchIds: usualSearchIds,
})

export const events = (run: string, from: number, to: number): Array<Event> =>
  Array.from({ length: to - from }, (_, index) => {
    const stamp = { number: from + index, sentAt: 0 }
    const body = Buffer.from(Requests.body(run, stamp))
    return {
      id: Requests.id(run, stamp),
      type: "appointment.created",
      accountId: `acct_${stamp.number % Requests.accounts}`,
      webhook: "scheduling",
      webhookId: "wh_bench01",
      signature: `sha256=${"0".repeat(64)}`,
      secret: "benchmark",
      receivedAt: Date.now(),
      body,
    }
  })

export interface Content {
  readonly events: number
  readonly lane: string
  readonly isDelivered: boolean
  /** Whether the lane waits for an operator, who starts it when the time is measured. */
  readonly isPaused?: boolean
}

const fill = Effect.fnUntraced(function* ({ events: count, lane, isDelivered, isPaused = false }: Content) {
  const journal = yield* Journal
  yield* journal.openLane(lane)
  if (isPaused) yield* (yield* Archive).setPaused(lane, true)
  const run = Requests.newRun()
  for (let number = 0; number < count; number += group) {
    const appends = events(run, number, Math.min(count, number + group)).map((event) =>
      journal.appendUnsafe(event, [lane]),
    )
    for (const exit of yield* Effect.promise(() => Promise.all(appends))) yield* exit
  }
  const idOf = (number: number) => Requests.id(run, { number, sentAt: 0 })
  if (!isDelivered) return idOf
  const head = yield* journal.head
  yield* journal.settle([
    {
      lane,
      cursor: { sequence: head, settled: [] },
      retry: [],
      takeBack: [],
      endRetry: [],
      deadLetter: [],
      delivered: [],
      late: [],
      dropped: [],
      counted: [],
      alerts: [],
      pausedFor: 0,
    },
  ])
  return idOf
})

/** A relay does this in the background, as events come in. */
const index = (path: string): void => {
  const log = new DatabaseSync(path)
  const index = new Index(log, path, new SearchIds(usualSearchIds))
  while (index.grow());
  index.close()
  log.close()
}

/** Returns the id of each event, by its number from 0. */
const filled = (layer: Layer.Layer<Journal | Archive, JournalError>, content: Content) =>
  fill(content).pipe(
    Effect.provide(layer),
    Effect.provideService(References.MinimumLogLevel, "Warn"),
    Effect.mapError(({ message }) => new BenchError({ message: `filling the journal: ${message}` })),
  )

/** Fills the journal at a path. Returns the id of each event, by its number from 0. */
export const run = (path: string, content: Content): Effect.Effect<(number: number) => string, BenchError> =>
  Effect.tap(filled(SqliteJournal.layer(options(path)), content), () => Effect.sync(() => index(path)))

/** Fills the journal of the relay of this name in a database, and returns the same. */
export const runInDatabase = (url: string, name: string, content: Content) =>
  filled(PostgresLayer.layer(Schema.decodeUnknownSync(PostgresConfig)({ url, name })), content)
