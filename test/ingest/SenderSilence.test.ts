/** A sender that sends nothing for longer than `silentAfter`, and sends again. */
import { describe, expect } from "bun:test"
import { Context, Duration, Effect, Exit, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { ActiveConfig } from "../../src/ActiveConfig.ts"
import type { Webhook } from "../../src/config/Config.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import { Ingest } from "../../src/ingest/Ingest.ts"
import { LastDeliveries, SenderSilence } from "../../src/ingest/SenderSilence.ts"
import { servicesOf, type WholeJournal } from "../../src/journal/JournalType.ts"
import { inMemory } from "../journal/inMemory.ts"
import * as Relays from "../journal/postgres/relays.ts"
import { whole } from "../journal/whole.ts"
import { activeConfig, relayConfig } from "../lib/activeConfig.ts"
import { it } from "../lib/effect.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { reasonToSkip } from "../parts/Postgres.ts"
import { delivery, envelope, webhook } from "./fixture.ts"

const twoHours: Partial<Webhook> = { silentAfter: { duration: Duration.hours(2) } }
const routes = [{ name: "own", match: ["relay.*"], except: [], where: {}, to: ["chat"] }]
const configOf = (changes: Partial<Webhook>) => ({ webhooks: [webhook(changes)], routes })

/** Starts a relay's ingest over a journal. */
const start = Effect.fnUntraced(function* (journal: WholeJournal, changes: Partial<Webhook> = twoHours) {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const context = yield* Layer.build(
    SenderSilence.layer.pipe(
      Layer.provideMerge(LastDeliveries.layer),
      Layer.provideMerge(Layer.merge(Ingest.layer, RelayEvents.layer)),
      Layer.provideMerge(activeConfig(configOf(changes))),
      Layer.provide(Layer.succeedContext(servicesOf(journal))),
      Layer.fresh,
    ),
  ).pipe(Scope.provide(scope))
  const { handle } = Context.get(context, Ingest)
  return {
    deliver: Effect.promise(async () => expect((await handle(delivery(envelope()))).status).toBe(202)),
    since: () => Context.get(context, SenderSilence).since("scheduling"),
    last: () => Context.get(context, LastDeliveries).of("scheduling"),
    reload: (newer: Partial<Webhook>) => Context.get(context, ActiveConfig).replace(relayConfig(configOf(newer))),
    stop: Scope.close(scope, Exit.void),
  }
})

/** The types of the own events in the journal, oldest first. */
const ownEvents = (journal: WholeJournal) =>
  Effect.map(journal.events({ webhook: "relay", limit: 100 }), ({ events }) =>
    events.map(({ event }) => event.type).toReversed(),
  )

const noon = Duration.toMillis("12 hours")
const silent = "relay.sender_silent"
const resumed = "relay.sender_resumed"

describe("a sender", () => {
  inMemory("is silent after silentAfter without a delivery, and no longer once it sends again", function* () {
    const journal = yield* whole
    const { deliver, since } = yield* start(journal)
    yield* TestClock.adjust("1 hour")
    yield* deliver
    yield* TestClock.adjust("119 minutes")
    expect([since(), yield* ownEvents(journal)]).toEqual([undefined, []])
    yield* TestClock.adjust("1 minute")
    expect([since(), yield* ownEvents(journal)]).toEqual([Duration.toMillis("1 hour"), [silent]])
    yield* TestClock.adjust("1 hour")
    expect(yield* ownEvents(journal)).toEqual([silent])
    yield* deliver
    expect(since()).toBeUndefined()
    yield* TestClock.adjust("10 seconds")
    expect(yield* ownEvents(journal)).toEqual([silent, resumed])
    yield* TestClock.adjust("2 hours")
    expect(yield* ownEvents(journal)).toEqual([silent, resumed, silent])
  })

  inMemory("that is silent, and sends again, has a line in the log for each", function* () {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${message}`))])
    const { deliver } = yield* Effect.provide(start(yield* whole), logger)
    yield* TestClock.adjust("2 hours")
    yield* deliver
    yield* TestClock.adjust("10 seconds")
    expect(lines.filter((line) => line.includes("silent"))).toEqual([
      "Warn the sender of the webhook scheduling is silent: no delivery since 1970-01-01T00:00:00.000Z",
      "Info the sender of the webhook scheduling is no longer silent: it sends again",
    ])
  })

  inMemory("that never sent is silent after silentAfter from the start", function* () {
    const journal = yield* whole
    const { since } = yield* start(journal)
    yield* TestClock.adjust("119 minutes")
    expect(since()).toBeUndefined()
    yield* TestClock.adjust("1 minute")
    expect([since(), yield* ownEvents(journal)]).toEqual([0, [silent]])
  })

  inMemory("is silent by the hours of its time zone, and not at night", function* () {
    const journal = yield* whole
    const within = { hours: { from: 8 * 60, to: 18 * 60 }, timeZone: "Europe/Berlin" }
    const changes = { silentAfter: { duration: Duration.hours(2), within } }
    const last = Date.parse("2026-10-24T15:30:00Z")
    yield* TestClock.setTime(last)
    const evening = yield* start(journal, changes)
    yield* evening.deliver
    yield* evening.stop
    // The night in which daylight saving time ends: half an hour of Saturday counts, and Sunday from 7:00 UTC.
    yield* TestClock.setTime(Date.parse("2026-10-25T08:29:00Z"))
    const morning = yield* start(journal, changes)
    yield* TestClock.adjust("10 seconds")
    expect(morning.since()).toBeUndefined()
    yield* TestClock.adjust("1 minute")
    expect(morning.since()).toBe(last)
  })

  inMemory("stays silent over a restart, is announced once, and its delivery after it ends that", function* () {
    const journal = yield* whole
    yield* TestClock.setTime(noon)
    const first = yield* start(journal)
    yield* first.deliver
    yield* TestClock.adjust("1 hour")
    yield* first.stop
    const second = yield* start(journal)
    yield* TestClock.adjust("1 hour")
    expect([second.since(), yield* ownEvents(journal)]).toEqual([noon, [silent]])
    yield* second.stop
    yield* TestClock.adjust("30 hours")
    const third = yield* start(journal)
    yield* TestClock.adjust("10 seconds")
    expect([third.since(), yield* ownEvents(journal)]).toEqual([noon, [silent]])
    yield* third.deliver
    yield* third.stop
    yield* start(journal)
    yield* TestClock.adjust("10 seconds")
    expect(yield* ownEvents(journal)).toEqual([silent, resumed])
  })

  inMemory("is no longer silent once a reload takes silentAfter away, or makes it longer", function* () {
    const journal = yield* whole
    yield* TestClock.setTime(noon)
    const { deliver, since, reload } = yield* start(journal)
    yield* deliver
    yield* TestClock.adjust("2 hours")
    yield* reload({ silentAfter: { duration: Duration.hours(3) } })
    yield* TestClock.adjust("10 seconds")
    expect([since(), yield* ownEvents(journal)]).toEqual([undefined, [silent, resumed]])
    yield* TestClock.adjust("1 hour")
    yield* reload({})
    yield* TestClock.adjust("10 seconds")
    expect([since(), yield* ownEvents(journal)]).toEqual([undefined, [silent, resumed, silent, resumed]])
  })
})

suiteUnless(reasonToSkip(), "the senders of a fleet on PostgreSQL", () => {
  it.effect(
    "are not silent while any relay gets their deliveries, and are announced once when none does",
    function* () {
      const minutes = { silentAfter: { duration: Duration.minutes(2) } }
      const { start: join } = yield* Relays.relays
      const [one, two] = [(yield* join("one")).journal, (yield* join("two")).journal]
      const [first, second] = [yield* start(one, minutes), yield* start(two, minutes)]
      let last = 0
      for (let minute = 0; minute < 4; minute++) {
        yield* Relays.meanwhile(first.deliver)
        last = first.last()
        yield* Relays.seconds(60)
      }
      expect([first.since(), second.since()]).toEqual([undefined, undefined])
      yield* Relays.seconds(90)
      expect([first.since(), second.since()]).toEqual([last, last])
      expect(yield* Relays.meanwhile(ownEvents(two))).toEqual([silent])
      yield* Relays.meanwhile(first.deliver)
      yield* Relays.seconds(30)
      expect([first.since(), second.since()]).toEqual([undefined, undefined])
      expect(yield* Relays.meanwhile(ownEvents(one))).toEqual([silent, resumed])
    },
    120_000,
  )
})
