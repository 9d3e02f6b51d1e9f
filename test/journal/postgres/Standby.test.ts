/** Commits that wait for an unavailable synchronous standby, until an operator ends the wait. */
import { expect } from "bun:test"
import { Duration, Effect, Fiber } from "effect"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { makePostgres, reasonToSkip } from "../../parts/Postgres.ts"
import { event } from "../samples.ts"
import { openDatabase } from "./database.ts"

/** The number of ended waits, each of one commit. */
const waits = 12

suiteUnless(reasonToSkip("debian"), "a synchronous standby that is away", () => {
  for (const how of ["cancel", "terminate"]) {
    it.live(
      `lets no delivery be answered as stored, to a first relay or to a second, whatever ends the waits: pg_${how}_backend`,
      function* () {
        const server = yield* Effect.acquireRelease(
          Effect.promise(() => makePostgres({ release: "debian" })),
          ({ stop }) => Effect.promise(stop),
        )
        const sql = (text: string) => Effect.promise(() => server.sql(text, "relay"))
        const follow = (standby: string) =>
          Effect.andThen(
            sql(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`),
            sql("SELECT pg_reload_conf()"),
          )
        const start = Effect.fnUntraced(function* (name: string) {
          const db = yield* openDatabase(server.url)
          yield* DatabaseSchema.migrate(db, "relay")
          const journal = yield* PostgresJournal.make(db, {
            name,
            retention: Duration.days(1),
            maxSize: 1024 ** 3,
            duplicates: { age: Duration.hours(24), count: 10_000 },
          })
          journal.knowSinks?.([{ name: "lake" }, { name: "ordered", exclusive: true }])
          return journal
        })
        const [a, b] = [yield* start("a"), yield* start("b")]
        const answers: Array<unknown> = []
        const send = (journal: typeof a, id: string, sink: string) =>
          journal.append(event(id), [sink]).pipe(
            Effect.tap((answer) => Effect.sync(() => answers.push([id, answer]))),
            Effect.forkChild,
          )
        // These appends create the lanes, so that later only appends wait.
        for (const [journal, name] of [[a, "a"] as const, [b, "b"] as const])
          for (const sink of ["lake", "ordered"]) yield* journal.append(event(`${name} ${sink}`), [sink])
        yield* follow("nobody")
        const first = [yield* send(a, "own", "lake"), yield* send(a, "shared", "ordered")]
        const ended = Effect.map(
          sql(
            `SELECT pg_${how}_backend(pid) FROM pg_stat_activity
               WHERE wait_event = 'SyncRep' AND query ~ 'INSERT INTO log|append_shared'`,
          ),
          (rows) => rows.length,
        )
        for (let count = 0; count < 2; yield* Effect.sleep("10 millis")) count += yield* ended
        const second = [yield* send(b, "own", "lake"), yield* send(b, "shared", "ordered")]
        for (let count = 0; count < waits && answers.length === 0; yield* Effect.sleep("10 millis"))
          count += yield* ended
        expect(answers).toEqual([])
        yield* follow("")
        expect(yield* Effect.forEach(first, Fiber.join)).toEqual(["appended", "appended"])
        expect(yield* Effect.forEach(second, Fiber.join)).toEqual(["duplicate", "duplicate"])
      },
      60_000,
    )
  }
})
