/**
 * One history for journals of either type, which the fixture of each released version contains. Each event's id says
 * how the event ended, and `told.txt` has the state that a relay must find afterwards.
 */
import { Clock, Duration, Effect, type Layer } from "effect"
import { type Event, quarantine } from "../../../src/event/Event.ts"
import type { Archive } from "../../../src/journal/Archive.ts"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { Attempt, Journal, JournalError, Settlement } from "../../../src/journal/Journal.ts"
import { Operator } from "../../../src/journal/JournalContext.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { event as sample } from "../samples.ts"
import { whole } from "../whole.ts"

/** Opens the journal. Delivered events are kept for the length of `retention`. */
export type Open = (retention: Duration.Duration) => Layer.Layer<Journal | Archive, JournalError>

/**
 * The two days of the history, in epoch milliseconds. The operator's changes begin an hour after the start of the
 * second day.
 */
export const firstDay = Date.UTC(2026, 10, 22, 10)
export const secondDay = firstDay + Duration.toMillis("1 day")

/** Opens a journal, uses it, and closes it. With `at`, the wall clock shows that time throughout. */
export const session = <A>(
  layer: Layer.Layer<Journal | Archive, JournalError>,
  use: (journal: WholeJournal) => Effect.Effect<A, JournalError>,
  at?: number,
): Effect.Effect<A, JournalError> =>
  Effect.gen(function* () {
    const real = yield* Clock.Clock
    const standing: Clock.Clock = Object.create(real, { currentTimeMillisUnsafe: { value: () => at } })
    const clock: Clock.Clock =
      at === undefined ? real : Object.assign(standing, { currentTimeMillis: Effect.succeed(at) })
    return yield* Effect.flatMap(whole, use).pipe(
      Effect.provide(layer),
      Effect.scoped,
      Effect.provideService(Clock.Clock, clock),
    )
  })

/** The first entry of an event. */
const sequenceOf = (journal: WholeJournal, id: string) =>
  Effect.map(collect({ id, after: "", limit: 1 }, journal.events), ({ events }) => events[0]?.sequence ?? 0)

const event = (id: string, receivedAt: number, more: Partial<Event> = {}, note = ""): Event => {
  const [type, account_id, created_at] = ["appointment.created", "acct_1", new Date(receivedAt).toISOString()]
  const body = JSON.stringify({ id, account_id, version: "1", created_at, data: { type, object: { id, note } } })
  return sample(id, { receivedAt, body: new TextEncoder().encode(body), ...more })
}

/** Appends an event. Each was received a second after the one before, from the start of the day on. */
const append = (journal: WholeJournal, day: number) => {
  let second = 0
  return (id: string, sinks: ReadonlyArray<string>, ...more: [more?: Partial<Event>, note?: string]) =>
    journal.append(event(id, day + ++second * 1_000, ...more), sinks)
}

const failedAt = (at: number, number: number): Attempt => ({
  at,
  reason: "DeliveryFailed",
  message: "the sink answered 500",
  answer: '{"error":"no such field"}',
  number,
  took: 20 + number,
  code: 500,
})

/** Attempts of the second day, the first of them a minute after it began. */
const failed = (count: number): ReadonlyArray<Attempt> =>
  Array.from({ length: count }, (_, index) => failedAt(secondDay + (60 + index) * 1_000, index + 1))

const delivered = (sequence: number, day: number) => ({
  from: sequence,
  to: sequence,
  at: day + 30_000,
  took: 12,
  code: 204,
})

const settle = (journal: WholeJournal, lane: string, sequence: number, more: Partial<Settlement>) =>
  journal.settle([
    {
      lane,
      cursor: { sequence, settled: [] },
      retry: [],
      takeBack: [],
      endRetry: [],
      delivered: [],
      late: [],
      dropped: [],
      counted: [],
      alerts: [],
      deadLetter: [],
      pausedFor: 0,
      ...more,
    },
  ])

/** The lanes at the start of the second day. One of them is paused. */
const beginning = Effect.fnUntraced(function* (journal: WholeJournal) {
  const add = append(journal, firstDay)
  for (const lane of ["lake", "oncall", "chat", "pager", "former", "doomed", quarantine]) yield* journal.openLane(lane)
  yield* journal.openLane("ordered", { exclusive: true })
  yield* add("forgotten", ["lake"])
  yield* add("owed", ["lake", "chat"])
  const until = 4_000_000_000_000
  yield* journal.setPaused("chat", until, { from: firstDay, until, ending: "digest", by: "alice" })
  const [forgotten, owed] = [yield* sequenceOf(journal, "forgotten"), yield* sequenceOf(journal, "owed")]
  yield* settle(journal, "lake", owed, { delivered: [delivered(forgotten, firstDay), delivered(owed, firstDay)] })
})

/** Waits until the events that were delivered on the first day are pruned from the log. */
const pruned = Effect.fnUntraced(function* (journal: WholeJournal) {
  yield* append(journal, secondDay)("newest", [])
  while ((yield* sequenceOf(journal, "forgotten")) !== 0) yield* Effect.sleep("20 millis")
})

const arrivals = Effect.fnUntraced(function* (journal: WholeJournal) {
  journal.knowSinks?.([{ name: "ordered", exclusive: true }])
  const add = append(journal, secondDay)
  yield* add("delivered", ["lake", "oncall"])
  yield* add("late", ["lake"])
  yield* add("retrying", ["lake", "oncall"])
  yield* add("dead", ["lake", "oncall"])
  yield* add("replayed", ["lake"])
  yield* add("dropped", ["lake"])
  yield* add("resent", ["oncall"])
  yield* add("altered", ["lake"])
  yield* add("altered", ["lake"], {}, "other bytes")
  yield* add("quarantined", [quarantine], { type: "", problem: "the event type is not in the catalogue" })
  yield* add("unrouted", [])
  yield* add("renamed", ["pager"])
  yield* add("moved", ["former"])
  yield* add("abandoned", ["doomed"])
  yield* add("ordered", ["ordered"])
  yield* add("pending", ["lake", "oncall"], { trace: { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` } })
})

const settlements = Effect.fnUntraced(function* (journal: WholeJournal) {
  const at = (id: string) => sequenceOf(journal, id)
  const [retrying, altered] = [yield* at("retrying"), yield* at("altered")]
  const dead = (sequence: number, attempts: number) => ({
    sequence,
    at: secondDay + 90_000,
    refunded: 0,
    failed: failed(attempts),
  })
  yield* settle(journal, "lake", yield* at("dropped"), {
    // The events before it are settled as well.
    cursor: { sequence: yield* at("dropped"), settled: [[altered, altered]] },
    delivered: [delivered(yield* at("delivered"), secondDay), delivered(altered, secondDay)],
    late: [
      {
        sequence: yield* at("late"),
        at: secondDay + 75_000,
        took: 9,
        code: 200,
        attempts: 3,
        refunded: 0,
        failed: failed(2),
      },
    ],
    retry: [
      {
        sequence: retrying,
        key: "acct_1",
        due: secondDay + 120_000,
        delay: 1_000,
        firstAttemptAt: secondDay + 60_000,
        tried: 12,
        refunded: 0,
        failed: failed(12),
      },
    ],
    deadLetter: [dead(yield* at("dead"), 3), dead(yield* at("replayed"), 1), dead(yield* at("dropped"), 2)],
    pausedFor: 5_000,
  })
  const oncall = yield* at("resent")
  const all = [yield* at("delivered"), retrying, yield* at("dead"), oncall]
  yield* settle(journal, "oncall", oncall, { delivered: all.map((sequence) => delivered(sequence, secondDay)) })
  const quarantined = yield* at("quarantined")
  const letter = { sequence: quarantined, at: secondDay + 10_000, refunded: 0, failed: [] }
  yield* settle(journal, quarantine, quarantined, { deadLetter: [letter] })
})

/** Imports what another journal owed: each event once, however often it is imported. */
export const importAnother = (journal: WholeJournal) => {
  const owed = (sequence: number, id: string) => ({
    sequence,
    event: event(id, firstDay),
    replayed: false,
    pending: ["lake"],
  })
  const dead = { at: firstDay + 5_000, attempts: [failedAt(firstDay + 4_000, 1)] }
  return journal.import("another journal", [owed(9, "imported"), { ...owed(10, "imported dead"), dead }])
}

/** The changes of an operator. */
const operations = Effect.fnUntraced(function* (journal: WholeJournal) {
  const at = (id: string) => sequenceOf(journal, id)
  yield* journal.replayDeadLetters([`lake:${yield* at("replayed")}`])
  yield* journal.dropDeadLetters([`lake:${yield* at("dropped")}`])
  yield* journal.replay([{ sequence: yield* at("resent"), sinks: ["oncall"] }])
  yield* journal.openLane("page", { renamedFrom: "pager" })
  yield* journal.moveLane("former", "lake")
  yield* journal.dropLane("doomed")
  yield* importAnother(journal)
})

/** Plays the history into an empty journal. */
export const play = (open: Open): Effect.Effect<void, JournalError> =>
  Effect.gen(function* () {
    yield* session(open(Duration.days(7)), beginning, firstDay)
    yield* session(open(Duration.hours(12)), pruned, secondDay)
    yield* session(
      open(Duration.days(7)),
      (journal) =>
        Effect.gen(function* () {
          yield* arrivals(journal)
          yield* settlements(journal)
          yield* Effect.provideService(operations(journal), Operator, "ann")
        }),
      secondDay + Duration.toMillis("1 hour"),
    )
  })
