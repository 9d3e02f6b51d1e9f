import { expect } from "bun:test"
import { Cause, Duration, Effect, Exit, Fiber } from "effect"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { floorOf, sharedStream, streamOf } from "../../../src/journal/Sequences.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { type Figures, figuresOf, journalSql, lanesSql } from "./figures.ts"
import { type Relay, relays, seconds } from "./relays.ts"

/** Returns a relay's figures of the whole journal. */
const said = Effect.fnUntraced(function* ({ journal }: Relay) {
  const lanes = yield* journal.lanes
  const { head, first, usedBytes } = yield* journal.status
  return {
    accepted: head,
    kept: head + 1 - first,
    bytes: usedBytes,
    lanes: Object.fromEntries(
      lanes.map(({ name, backlog, retrying, deadLetters }) => [name, { backlog, retrying, deadLetters }]),
    ),
  } satisfies Figures
})

/** Events at both relays, in their own streams and in the shared one: pending, retrying, dead, and duplicates. */
const busy = Effect.gen(function* () {
  const { start, sql, promote } = yield* relays
  const [a, b] = [yield* start("a"), yield* start("b")]
  for (const { journal } of [a, b]) {
    yield* journal.openLane("lake")
    yield* journal.openLane("ordered", { exclusive: true })
  }
  for (let index = 0; index < 7; index++) {
    yield* a.journal.append(event(`a${index}`), ["lake"])
    yield* b.journal.append(event(`b${index}`), ["lake", "audit"])
    yield* (index < 3 ? a : b).journal.append(event(`o${index}`), ["ordered"])
  }
  // The two duplicates are in one commit with a new event. They take sequences but aren't events.
  yield* Effect.all(
    ["a1", "new", "a2"].map((id) => b.journal.append(event(id), ["lake"])),
    { concurrency: "unbounded" },
  )
  const settled = Effect.fnUntraced(function* (journal: WholeJournal) {
    const first = floorOf(streamOf(yield* journal.head)) + 1
    const change = { retry: [retrying(first)], deadLetter: [letter(first + 1)] }
    yield* journal.settle([settlement("lake", first + 2, change)])
  })
  yield* settled(a.journal)
  yield* settled(b.journal)
  yield* seconds(3)
  const tables = Effect.map(Effect.all([sql(journalSql), sql(lanesSql)]), ([journal, lanes]) =>
    figuresOf(journal, lanes),
  )
  return { a, b, tables, sql, promote }
})

suiteUnless(reasonToSkip(), "the figures of a fleet", () => {
  it.effect("match the tables, at any relay: normally, during a kill, and after the takeover", function* () {
    const { a, b, tables } = yield* busy
    const counted = yield* tables
    expect(counted).toMatchObject({
      accepted: 22,
      lanes: { lake: { backlog: 11, retrying: 2, deadLetters: 2 }, audit: { backlog: 7 }, ordered: { backlog: 7 } },
    })
    expect(yield* said(a)).toEqual(counted)
    expect(yield* said(b)).toEqual(counted)
    a.freeze()
    for (let second = 0; second < 14; second++) {
      yield* seconds(1)
      expect([second, yield* said(b)]).toEqual([second, counted])
    }
    expect((yield* b.journal.fleet?.status ?? Effect.die("no fleet")).counters.takeovers).toBeGreaterThan(0)
    expect(yield* tables).toEqual(counted)
    a.thaw()
    yield* seconds(8)
    expect(yield* said(a)).toEqual(counted)
    expect(yield* said(b)).toEqual(counted)
  })

  it.effect("match the tables once a relay has left, and once rows with duplicates were deleted", function* () {
    const { start, sql } = yield* relays
    const a = yield* start("a", Duration.seconds(1))
    const b = yield* start("b", Duration.seconds(1))
    for (const { journal } of [a, b]) yield* journal.openLane("lake")
    const old = (id: string) => event(id, { receivedAt: 1 })
    yield* a.journal.append(old("one"), ["lake"])
    yield* Effect.all(
      ["one", "two"].map((id) => b.journal.append(old(id), ["lake"])),
      { concurrency: "unbounded" },
    )
    yield* b.journal.append(old("three"), ["lake"])
    yield* b.journal.settle([settlement("lake", (yield* b.journal.head) - 1)])
    yield* seconds(4)
    const tables = Effect.map(Effect.all([sql(journalSql), sql(lanesSql)]), ([journal, lanes]) =>
      figuresOf(journal, lanes),
    )
    const counted = yield* tables
    expect(counted).toMatchObject({ accepted: 3, kept: 2, lanes: { lake: { backlog: 2 } } })
    expect(yield* said(a)).toEqual(counted)
    yield* b.stop
    yield* seconds(0.5)
    expect(yield* said(a)).toEqual(counted)
    yield* seconds(3)
    expect(yield* said(a)).toEqual(yield* tables)
    expect(yield* said(a)).toEqual(counted)
  })

  it.effect("match the tables after a failover that lost events", function* () {
    const { a, b, tables, sql, promote } = yield* busy
    const third = floorOf(sharedStream) + 3
    yield* sql(`DELETE FROM relay.log WHERE first IN (7, ${third + 4}); DELETE FROM relay.seen WHERE sequence = 7`)
    yield* promote(2)
    yield* seconds(6)
    const counted = yield* tables
    expect(counted.accepted).toBe(20)
    expect(yield* said(a)).toEqual(counted)
    expect(yield* said(b)).toEqual(counted)
  })

  it.effect("are kept without the database, and immediately shown with their age", function* () {
    const { a, b, tables } = yield* busy
    const counted = yield* tables
    a.fails("away")
    b.fails("away")
    expect(yield* said(a)).toEqual(counted)
    yield* seconds(60)
    expect(yield* said(a)).toEqual(counted)
    const { health, message, engine } = yield* a.journal.status
    expect(health).toBe("unavailable")
    expect(message).toContain(`has not answered since ${new Date(engine.answeredAt ?? 0).toISOString()}`)
    const refused = yield* Effect.flip(a.journal.events({ limit: 1 }))
    expect(refused.message).toContain("has not answered since")
    a.fails(undefined)
    b.fails(undefined)
    yield* seconds(8)
    expect(yield* said(a)).toEqual(counted)
    expect((yield* a.journal.status).engine).toEqual({})
  })

  it.effect("are shown within a second if the database accepts requests and never answers", function* () {
    const { a, tables } = yield* busy
    const counted = yield* tables
    a.freeze()
    const asked = yield* Effect.forkChild(
      Effect.all(
        [a.journal.deadLetters({ limit: 1 }), a.journal.setPaused("lake", true), a.journal.acknowledge].map(
          Effect.flip,
        ),
        { concurrency: "unbounded" },
      ),
    )
    const saying = yield* Effect.forkChild(said(a))
    yield* seconds(1)
    expect(yield* Fiber.join(saying)).toEqual(counted)
    yield* seconds(3)
    for (const { message } of yield* Fiber.join(asked)) expect(message).toContain("has not answered since")
    expect(yield* said(a)).toEqual(counted)
    a.thaw()
  })

  for (const [how, health, words] of [
    ["diskFull", "full", "the server's disk is full"],
    ["readOnly", "unavailable", "the server takes no writes"],
  ] as const) {
    it.effect(`report that nothing can be stored before the affected delivery is answered: ${how}`, function* () {
      const { a, tables } = yield* busy
      const counted = yield* tables
      a.fails(how)
      const refused = a.journal.appendUnsafe(event("refused"), ["lake"])
      if (!(refused instanceof Promise)) throw new Error("it was known before")
      const found = yield* Effect.promise(async () => {
        const exit = await Promise.race([refused, new Promise<undefined>((resolve) => setTimeout(resolve, 50))])
        return exit
      })
      const status = yield* a.journal.status
      expect(status).toMatchObject({ health, message: expect.stringContaining(words) })
      if (found !== undefined) expect(Exit.isFailure(found) && Cause.squash(found.cause)).toBeDefined()
      const next = a.journal.appendUnsafe(event("next"), ["lake"])
      expect(next instanceof Promise).toBe(false)
      yield* seconds(3)
      expect((yield* a.journal.status).health).toBe(health)
      expect(yield* said(a)).toEqual(counted)
      a.fails(undefined)
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 300)))
      yield* seconds(2)
      expect((yield* a.journal.status).health).toBe("ok")
      expect(yield* a.journal.append(event("later"), ["lake"])).toBe("appended")
      yield* seconds(2)
      expect(yield* said(a)).toEqual(yield* tables)
    })
  }

  it.effect("end an alarm at every relay when it is acknowledged at one, and don't raise it again", function* () {
    const { start, sql } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const relay of [a, b]) {
      for (const id of ["one", "two"])
        yield* relay.journal.append(event(`${id} of ${yield* relay.journal.head}`), ["x"])
    }
    const lost = `(first % ${floorOf(1)}) >= 2`
    yield* sql(`DELETE FROM relay.log WHERE ${lost}; DELETE FROM relay.seen WHERE (sequence % ${floorOf(1)}) >= 2`)
    yield* seconds(4)
    const lines = ({ journal }: Relay) => Effect.map(journal.status, ({ alarm }) => alarm.lines.length)
    expect([yield* lines(a), yield* lines(b)]).toEqual([2, 2])
    yield* a.journal.acknowledge
    expect(yield* lines(a)).toBe(0)
    yield* seconds(3)
    expect([yield* lines(a), yield* lines(b)]).toEqual([0, 0])
    expect([(yield* a.journal.status).health, (yield* b.journal.status).health]).toEqual(["ok", "ok"])
  })
})
