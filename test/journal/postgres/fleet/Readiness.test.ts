/** The results of the latest appends decide whether deliveries are accepted. */
import { expect } from "bun:test"
import { Duration, Effect, Exit, Fiber } from "effect"
import type { WholeJournal } from "../../../../src/journal/JournalType.ts"
import { standbysIn } from "../../../../src/journal/postgres/connection/WriteTrouble.ts"
import * as PostgresJournal from "../../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { openDatabase, ownPostgres, ownStandby } from "../database.ts"
import { relays, seconds } from "../relays.ts"

/** Waits until the journal's message holds these words. */
const says = (journal: WholeJournal, words: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    while (!(yield* journal.status).message.includes(words)) yield* Effect.sleep("50 millis")
  })

suiteUnless(reasonToSkip(), "a relay whose appends fail", () => {
  const raising = (table: string, code: string) => `
    CREATE FUNCTION relay.fails() RETURNS trigger LANGUAGE plpgsql AS
      $body$ BEGIN RAISE EXCEPTION 'simulated' USING ERRCODE = '${code}'; END $body$;
    CREATE TRIGGER fails BEFORE INSERT ON relay.${table} FOR EACH ROW EXECUTE FUNCTION relay.fails()`
  const mended = (table: string) => `DROP TRIGGER fails ON relay.${table}; DROP FUNCTION relay.fails()`

  for (const { what, table, code, harm, mend } of [
    ...["seen", "log"].map((table) => ({
      ...{ what: "its user lacks a right", table, code: "42501" },
      harm: `REVOKE INSERT ON relay.${table} FROM relay`,
      mend: `GRANT INSERT ON relay.${table} TO relay`,
    })),
    { what: "a page is damaged", table: "seen", code: "XX001", harm: raising("seen", "XX001"), mend: mended("seen") },
    {
      what: "it runs out of transactions",
      table: "log",
      code: "54000",
      harm: raising("log", "54000"),
      mend: mended("log"),
    },
  ]) {
    it.effect(
      `is not ready immediately, and names the table, until a probe can write: ${table}, ${what}`,
      function* () {
        const { start, sql } = yield* relays
        const { journal } = yield* start("a")
        yield* journal.append(event("one"), ["lake"])
        yield* sql(harm)
        expect((yield* Effect.flip(journal.append(event("two"), ["lake"]))).message).toContain(`(${code})`)
        const first = yield* journal.status
        expect([first.health, first.message]).toEqual(["unavailable", expect.stringContaining(`(${code})`)])
        yield* seconds(2)
        expect((yield* journal.status).message).toContain(`at the table ${table}, since`)
        const known = journal.appendUnsafe(event("three"), ["lake"])
        expect(Exit.isExit(known) && Exit.isFailure(known)).toBe(true)
        yield* sql(mend)
        yield* seconds(2)
        expect(yield* journal.status).toMatchObject({ health: "ok", message: "" })
        expect(yield* journal.append(event("two"), ["lake"])).toBe("appended")
        expect(yield* sql("SELECT FROM relay.seen WHERE sequence < 0")).toEqual([])
        expect(yield* sql("SELECT FROM relay.log WHERE first < 0")).toEqual([])
      },
    )
  }

  it.effect("is not ready while it can't give events of a renamed sink to the sink's lane", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.append(event("one"), ["lake"])
    journal.knowSinks?.([{ name: "pond", renamedFrom: "lake" }])
    yield* sql("REVOKE UPDATE ON relay.progress FROM relay")
    expect((yield* Effect.flip(journal.append(event("two"), ["pond"]))).message).toContain("(42501)")
    expect((yield* journal.status).health).toBe("unavailable")
    yield* seconds(2)
    expect((yield* journal.status).message).toContain("at the table progress, since")
    yield* sql("GRANT UPDATE ON relay.progress TO relay")
    yield* seconds(2)
    expect(yield* journal.append(event("two"), ["pond"])).toBe("appended")
  })

  it.effect("stays ready if an event's own data were refused, and stores the others of its commit", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* sql("ALTER TABLE relay.log ADD CONSTRAINT small CHECK (octet_length(bytes) < 5000)")
    const large = { ...event("large"), body: Buffer.alloc(10_000, "x") }
    const alsoLarge = { ...large, id: "alsoLarge" }
    const [before, refused, again, after, unsafe, refusedUnsafe] = yield* Effect.all(
      [
        journal.append(event("before"), ["lake"]),
        Effect.flip(journal.append(large, ["lake"])),
        Effect.flip(journal.append(large, ["lake"])),
        journal.append(event("after"), ["lake"]),
        Effect.promise(() => Promise.resolve(journal.appendUnsafe(event("unsafe"), ["lake"]))),
        Effect.promise(async () => {
          const ended = await journal.appendUnsafe(alsoLarge, ["lake"])
          return journal.refusalOf?.(alsoLarge) ?? ended
        }),
      ],
      { concurrency: "unbounded" },
    )
    for (const { message } of [refused, again]) expect(message).toContain("(23514)")
    expect([before, after, Exit.isSuccess(unsafe)]).toEqual(["appended", "appended", true])
    expect(Exit.isFailure(refusedUnsafe)).toBe(true)
    expect((yield* journal.status).health).toBe("ok")
    const { events } = yield* journal.events({ limit: 10 })
    expect(events.map(({ event }) => event.id).sort()).toEqual(["after", "before", "unsafe"])
    expect(yield* journal.append(event("small"), ["lake"])).toBe("appended")
    expect(yield* journal.append(event("after"), ["lake"])).toBe("duplicate")
  })

  it.live(
    "is not ready while an operator holds a lock, and names the table and the process",
    function* () {
      const { start, sql } = yield* relays
      const { journal } = yield* start("a")
      yield* journal.append(event("one"), ["lake"])
      const locks = sql(`BEGIN; LOCK TABLE relay.seen; SELECT pg_sleep(60)`)
      yield* Effect.forkChild(Effect.ignore(Effect.catchDefect(locks, () => Effect.void)))
      const holder =
        "SELECT pid FROM pg_locks WHERE relation = 'relay.seen'::regclass AND granted AND mode = 'AccessExclusiveLock'"
      let process: unknown
      while (process === undefined) process = (yield* sql(holder))[0]?.pid
      const waiting = yield* Effect.forkChild(journal.append(event("two"), ["lake"]))
      yield* says(journal, `it waits for a lock on the table seen, which the process ${process}`)
      expect((yield* journal.status).health).toBe("unavailable")
      yield* sql(`SELECT pg_terminate_backend(${process})`)
      expect(yield* Fiber.join(waiting)).toBe("appended")
      expect((yield* journal.status).health).toBe("ok")
    },
    30_000,
  )

  it.live(
    "is not ready while its synchronous standby is away, names it, and accepts once it is back",
    function* () {
      const first = yield* ownPostgres()
      const standby = yield* ownStandby(first, "synchronous")
      const database = yield* openDatabase(first.url)
      yield* DatabaseSchema.migrate(database, "relay")
      const journal = yield* PostgresJournal.make(database, {
        ...{ name: "a", retention: Duration.days(1), maxSize: 1024 ** 3 },
        duplicates: { age: Duration.hours(1), count: 1000 },
      })
      yield* journal.append(event("one"), ["lake"])
      const [{ names } = {}] = yield* Effect.promise(() =>
        first.sql("SELECT current_setting('synchronous_standby_names') AS names"),
      )
      const [name] = standbysIn(String(names))
      yield* Effect.promise(standby.kill)
      const waiting = yield* Effect.forkChild(journal.append(event("two"), ["lake"]))
      yield* says(journal, `it waits for a synchronous standby, and these are not connected: ${name}`)
      expect((yield* journal.status).health).toBe("unavailable")
      yield* Effect.promise(standby.start)
      yield* Fiber.await(waiting)
      while ((yield* journal.status).health !== "ok") yield* Effect.sleep("50 millis")
      expect(yield* journal.append(event("three"), ["lake"])).toBe("appended")
    },
    60_000,
  )

  for (const [text, names] of [
    ["*", []],
    ["db-2", ["db-2"]],
    ['FIRST 1 (a, "b c")', ["a", "b c"]],
    ["any 2 (a, b, c)", ["a", "b", "c"]],
    ["2 (a,b)", ["a", "b"]],
  ] as const) {
    it.effect(`finds the standbys in synchronous_standby_names = ${text}`, () =>
      Effect.sync(() => expect(standbysIn(text)).toEqual(names)),
    )
  }
})
