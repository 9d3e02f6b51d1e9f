/** Erasing events that other relays have stored, deliver or replay. */
import { beforeAll, expect } from "bun:test"
import { Clock, Context, Duration, Effect, Layer, SubscriptionRef } from "effect"
import { erase } from "../../../../src/admin/api/ErasureApi.ts"
import { Lanes } from "../../../../src/delivery/Lanes.ts"
import type { Entry, Event } from "../../../../src/event/Event.ts"
import type { JournalError } from "../../../../src/journal/JournalError.ts"
import { servicesOf } from "../../../../src/journal/JournalType.ts"
import type { Queries } from "../../../../src/journal/postgres/connection/Database.ts"
import { streamOf } from "../../../../src/journal/Sequences.ts"
import { allSent } from "../../../../src/sinks/Sink.ts"
import { firingAtOnce, lanesOf, spec } from "../../../delivery/fixture.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip, sharedPostgres } from "../../../parts/Postgres.ts"
import { letter, event as old, retrying, settlement } from "../../samples.ts"
import { ids } from "../../sqlite/session.ts"
import { type Relay, relays, seconds } from "../relays.ts"

const marker = "Ann Example"
const event = (id: string): Event => old(id, { body: new TextEncoder().encode(`{"id":"${id}","name":"${marker}"}`) })
const whileStopped = <A>(_: ReadonlyArray<string>, work: Effect.Effect<A, JournalError>) => work

const owned = ({ journal }: Relay) => (journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams))

/** Returns the number of rows that contain the marker. */
const holding = (sql: (text: string) => Effect.Effect<ReadonlyArray<Record<string, unknown>>>) =>
  Effect.map(
    sql(`SELECT (SELECT count(*) FROM relay.log WHERE position('${marker}'::bytea IN bytes) > 0)
       + (SELECT count(*) FROM relay.retry WHERE position('${marker}'::bytea IN record) > 0)
       + (SELECT count(*) FROM relay.dead WHERE position('${marker}'::bytea IN record) > 0)
       + (SELECT count(*) FROM relay.ended WHERE position('Ann Example?' IN note) > 0) AS rows`),
    ([found]) => Number(found?.rows),
  )

suiteUnless(reasonToSkip(), "erasing events of a fleet", () => {
  beforeAll(async () => {
    await sharedPostgres()
  }, 60_000)

  it.effect("reaches the streams of all relays, and rows that a relay stored in vain", function* () {
    const { start, sql } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    yield* a.journal.append(event("one"), [])
    // Both are in one commit. The first is a duplicate by now, so only its bytes are stored.
    yield* Effect.all([b.journal.append(event("one"), []), b.journal.append(event("two"), [])], {
      concurrency: "unbounded",
    })
    yield* a.journal.replay([{ sequence: yield* a.journal.head, sinks: [] }])
    expect(yield* holding(sql)).toBe(3)
    const { count, undelivered } = yield* erase({ archive: b.journal, whileStopped }, { account: "acct_1" })
    expect([count, undelivered]).toEqual([4, 0])
    expect(yield* holding(sql)).toBe(0)
    expect(yield* b.journal.append(event("one"), [])).toBe("duplicate")
    expect(yield* a.journal.append(event("three"), [])).toBe("appended")
  })

  it.effect("leaves nothing of them in alerts that another relay continues, and each relay lists these", function* () {
    const { start, sql } = yield* relays
    const sent: Array<string> = []
    const send = (batch: ReadonlyArray<Entry>) =>
      Effect.sync(() => {
        sent.push(...batch.map(({ alert }) => `${alert?.action} ${alert?.key}`))
        return allSent
      })
    const sink = { batch: { maxEvents: 100, maxBytes: 1_000_000 }, send, check: Effect.void }
    const chat = spec("chat", sink, { order: "key", alert: firingAtOnce })
    const lanesAt = ({ journal }: Relay) =>
      Effect.map(
        Layer.build(lanesOf([chat]).pipe(Layer.provide(Layer.succeedContext(servicesOf(journal))))),
        (context) => Context.get(context, Lanes),
      )
    const [a, b] = [yield* start("a"), yield* start("b")]
    const [atA, atB] = [yield* lanesAt(a), yield* lanesAt(b)]
    const type = "connected_account.refresh_failed"
    const receivedAt = yield* Clock.currentTimeMillis
    for (const accountId of ["anna", "bob"]) {
      yield* a.journal.append(old(accountId, { type, accountId, receivedAt }), ["chat"])
    }
    yield* seconds(5)
    expect(sent).toEqual(["trigger anna", "trigger bob"])
    const listed = Effect.map(Effect.all([atA.alerts, atB.alerts]), (all) =>
      all.map((alerts) => alerts.map(({ account }) => account)),
    )
    expect(yield* listed).toEqual([
      ["anna", "bob"],
      ["anna", "bob"],
    ])
    const [ofAnna = 0, ofBob = 0] = (yield* atB.alerts).map(({ id }) => id)
    expect((yield* erase({ archive: b.journal, whileStopped }, { account: "anna" })).count).toBe(1)
    const ask = (id: number) =>
      Effect.all([atA.ask("chat", id, "resolution"), atB.ask("chat", id, "resolution")]).pipe(
        Effect.map((answers) => expect(answers.toSorted()).toEqual([false, true])),
      )
    yield* ask(ofBob)
    yield* seconds(5)
    const [table] = yield* sql("SELECT string_agg(key || state, ' ') AS text FROM relay.alert")
    expect(table?.text).toContain(type)
    expect(table?.text).not.toMatch(/anna|bob/)
    yield* ask(ofAnna)
    yield* seconds(5)
    expect(sent).toEqual(["trigger anna", "trigger bob", "resolve bob"])
    expect(yield* listed).toEqual([["bob"], ["bob"]])
  })

  it.effect("gives up an event that another relay delivers, and that relay re-reads its stream", function* () {
    const { start, sql } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    yield* a.journal.openLane("lake")
    for (const id of ["one", "two", "three"]) yield* a.journal.append(event(id), ["lake"])
    yield* a.journal.settle([settlement("lake", 1, { retry: [retrying(1)] })])
    yield* seconds(2)
    const before = owned(a).find((log) => (log as { id?: number }).id === streamOf(1))
    expect(yield* b.journal.erase([1, 2, 3], false)).toMatchObject({ erased: [] })
    expect(yield* b.journal.erase([1, 3], true)).toEqual({ erased: [1, 3], undelivered: [] })
    // The relay's earlier knowledge is not stored, because it would bring the bytes back.
    const late = before?.settle([settlement("lake", 3, { retry: [retrying(3)] })]) ?? Effect.die("no stream")
    expect((yield* Effect.flip(late)).reason._tag).toBe("JournalFenced")
    yield* seconds(3)
    const opened = yield* a.journal.openLane("lake")
    expect(opened).toMatchObject({ backlog: 1, retries: [] })
    const entries = yield* a.journal.read(1, 10)
    expect(entries.map(({ event, sinks }) => [event.id, sinks])).toEqual([
      ["two", ["lake"]],
      ["three", []],
    ])
    const { events } = yield* b.journal.events({ limit: 10, after: "" })
    expect(events.map(({ deliveries }) => deliveries[0]?.outcome)).toEqual(["dropped", "pending", "dropped"])
    expect(yield* holding(sql)).toBe(1)
  })

  it.effect("has no relay refuse a delivery, although it gives up events that another one delivers", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    yield* b.journal.openLane("lake")
    const append = (id: string) => b.journal.append(event(id), ["lake"])
    yield* Effect.forEach(ids(200), append, { concurrency: "unbounded" })
    const last = yield* b.journal.head
    let isErasing = true
    let count = 0
    // Deliveries continue for a while after the last events are erased.
    const delivering = Effect.gen(function* () {
      for (let after = 0; after < 5; after = isErasing ? 0 : after + 1) {
        expect(yield* append(`more_${count++}`)).toBe("appended")
      }
    })
    const erasing = Effect.ensuring(
      a.journal.erase(
        ids(200).map((_, index) => last - index),
        true,
      ),
      Effect.sync(() => {
        isErasing = false
      }),
    )
    const [{ erased }] = yield* Effect.all([erasing, delivering], { concurrency: "unbounded" })
    expect(erased.length).toBe(200)
    const { events } = yield* a.journal.events({ limit: 10_000, after: "" })
    expect(events.filter(({ event }) => event.erased === undefined).length).toBe(count)
    expect(yield* b.journal.openLane("lake")).toMatchObject({ backlog: count })
  })

  it.effect("takes the same queries for a stream of a dead relay, whatever is pending in it", function* () {
    const asked: Array<number> = []
    for (const waiting of [2, 600]) {
      const { start } = yield* relays
      let count = 0
      const counting = <Own extends Queries>(db: Own): Own => ({
        ...db,
        query: (...all: Parameters<Queries["query"]>) => {
          count++
          return db.query(...all)
        },
      })
      const a = yield* start("a", Duration.days(36_525), (db) => ({
        ...db,
        transact: (work) => db.transact((queries) => work(counting(queries))),
      }))
      const b = yield* start("b")
      yield* b.journal.openLane("lake")
      for (const id of ids(waiting)) yield* b.journal.append(event(id), ["lake"])
      const last = yield* b.journal.head
      b.freeze()
      count = 0
      expect(yield* a.journal.erase([last], true)).toEqual({ erased: [last], undelivered: [] })
      asked.push(count)
    }
    expect(asked[0]).toBe(asked[1] ?? 0)
  })

  it.effect("deletes the outcomes of events that nothing keeps, which may have answers", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    for (const id of ids(4)) yield* journal.append(event(id), ["lake"])
    yield* journal.settle([settlement("lake", 4, { deadLetter: [letter(2)] })])
    const note = JSON.stringify({ attempts: [{ answer: marker }] })
    yield* sql(
      `INSERT INTO relay.ended (sequence, lane, at, outcome, note)
         SELECT n, 'lake', 5, 'delivered', '${note}' FROM generate_series(1, 4) AS n;
         DELETE FROM relay.log WHERE first < 4`,
    )
    yield* journal.scrub
    const kept = yield* sql("SELECT sequence::int FROM relay.ended ORDER BY sequence")
    // A dead letter is kept beyond the log.
    expect(kept.map(({ sequence }) => sequence)).toEqual([2, 4])
  })

  it.effect("refuses a replay that had read the event before, so that no copy is left", function* () {
    const { start, sql } = yield* relays
    const a = yield* start("a")
    yield* a.journal.append(event("one"), [])
    let meanwhile: Effect.Effect<unknown, JournalError> = Effect.void
    const b = yield* start("b", Duration.days(36_525), (db) => ({
      ...db,
      // Erases the event after the replay has read it and before the transaction appends it.
      transact: (work) => Effect.andThen(Effect.ignore(Effect.suspend(() => meanwhile)), db.transact(work)),
    }))
    meanwhile = Effect.suspend(() => {
      meanwhile = Effect.void
      return a.journal.erase([1], false)
    })
    const replay = b.journal.replay([{ sequence: 1, sinks: [] }])
    expect((yield* Effect.flip(replay)).message).toContain("erased meanwhile")
    expect(yield* holding(sql)).toBe(0)
    expect(yield* replay).toEqual({ done: 1, gone: [1] })
  })
})
