/** Several relays' journals on one database, and a clock that is moved by hand. */
import { Duration, Effect, Exit, Fiber, Result, Scope } from "effect"
import { TestClock } from "effect/testing"
import { unavailable } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import type { Database } from "../../../src/journal/postgres/connection/Database.ts"
import {
  type DatabaseError,
  databaseError,
  diskFull,
  readOnly,
} from "../../../src/journal/postgres/connection/DatabaseError.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { sharedPostgres } from "../../parts/Postgres.ts"
import { openDatabase } from "./database.ts"

let schemas = 0

/** A relay that can be frozen: its statements wait, as if the process had been stopped. */
export interface Relay {
  readonly journal: WholeJournal
  readonly freeze: () => void
  readonly thaw: () => void
  /**
   * Makes the relay's statements fail in this way until `fails(undefined)`. With `lost`, transactions are committed,
   * but their answers are lost.
   */
  readonly fails: (how: keyof typeof failures | undefined) => void
  /** Stops as at SIGTERM. */
  readonly stop: Effect.Effect<void>
}

/** Statements that the database hasn't answered yet. */
let asked = 0
const counted = <A, E>(question: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.acquireUseRelease(
    Effect.sync(() => asked++),
    () => question,
    () => Effect.sync(() => asked--),
  )

const failures = {
  away: databaseError("unavailable", "PostgreSQL at db: nothing listens there", { code: "ECONNREFUSED" }),
  diskFull: databaseError("unavailable", "PostgreSQL at db: the server's disk is full", { code: diskFull }),
  readOnly: databaseError("unavailable", "PostgreSQL at db: the server takes no writes", { code: readOnly }),
  lost: databaseError("unavailable", "PostgreSQL at db: the connection was lost", { isLost: true }),
} satisfies Record<string, DatabaseError>

/** Statements that fail on a full disk. Reads and heartbeats continue. */
const writes = /^\s*(INSERT|UPDATE|DELETE|WITH owned)/

export const freezable = (db: Database) => {
  let failure: DatabaseError | undefined
  const failureOf = (sql: string) => {
    if (failure === failures.lost) return undefined
    return failure === failures.away || writes.test(sql) ? failure : undefined
  }
  const failing = <A, E>(sql: string, query: Effect.Effect<A, E>) =>
    Effect.suspend((): Effect.Effect<A, E | DatabaseError> => {
      const failure = failureOf(sql)
      return failure === undefined ? query : Effect.fail(failure)
    })
  let thawed = Promise.resolve()
  let thaw = () => {}
  const wait = Effect.promise(() => thawed)
  const frozen: Database = {
    ...db,
    query: <Row>(...all: Parameters<Database["query"]>) =>
      Effect.andThen(wait, failing(all[0], counted(db.query<Row>(...all)))),
    transact: (work) =>
      Effect.andThen(
        wait,
        counted(
          db.transact((queries) =>
            work({
              query: <Row>(...all: Parameters<Database["query"]>) => failing(all[0], queries.query<Row>(...all)),
            }),
          ),
        ).pipe(Effect.flatMap((answer) => (failure === failures.lost ? Effect.fail(failure) : Effect.succeed(answer)))),
      ),
    queryUnsafe: async <Row>(...all: Parameters<Database["queryUnsafe"]>) => {
      await thawed
      const failed = failureOf(all[0] === "append" ? "INSERT" : "")
      if (failed !== undefined) return Result.fail(failed)
      asked++
      try {
        return await db.queryUnsafe<Row>(...all)
      } finally {
        asked--
      }
    },
  }
  return {
    db: frozen,
    freeze: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      thawed = promise
      thaw = resolve
    },
    thaw: () => thaw(),
    fails: (how: keyof typeof failures | undefined) => {
      failure = how && failures[how]
    },
  }
}

/** Relays in their own schema. `start` starts the next one. */
export const relays = Effect.gen(function* () {
  const schema = `fleet_${process.pid}_${schemas++}`
  const { url, sql } = yield* Effect.promise(sharedPostgres)
  const all = yield* Effect.scope
  const ask = (text: string) => Effect.promise(() => sql(text.replaceAll("relay.", `${schema}.`), "relay"))
  /** Returns statements that restore the remembered rows of the tables. */
  const restoring = (all: ReadonlyArray<string>) =>
    all.map(
      (table) =>
        `DELETE FROM relay.${table}; INSERT INTO relay.${table} OVERRIDING SYSTEM VALUE TABLE relay.behind_${table}`,
    )
  const tables = Effect.map(
    ask(`SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename NOT LIKE 'behind%'`),
    (rows) => rows.map(({ tablename }) => String(tablename)),
  )
  return {
    schema,
    sql: ask,
    /** Keeps the rows of a standby that replicates nothing more. */
    remember: Effect.flatMap(tables, (all) =>
      ask(
        all
          .map(
            (table) =>
              `DROP TABLE IF EXISTS relay.behind_${table}; CREATE TABLE relay.behind_${table} AS TABLE relay.${table}`,
          )
          .join(";"),
      ),
    ),
    /**
     * Changes the timeline of all later statements, as after the promotion of a standby. The standby has all rows or,
     * if it `isBehind`, the remembered ones.
     */
    promote: (timeline: number, isBehind = false) =>
      Effect.flatMap(tables, (all) =>
        ask(
          [
            ...restoring(isBehind ? all : []),
            `CREATE OR REPLACE FUNCTION relay.server_timeline() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT ${timeline}::bigint'`,
          ].join(";"),
        ),
      ),
    /** Restores the remembered rows on the same timeline, as a snapshot or a dump does. */
    goBack: Effect.flatMap(tables, (all) => ask(restoring(all).join(";"))),
    /** `over` may change the relay's statements. `maxSize` is in bytes. */
    start: Effect.fnUntraced(function* (
      name: string,
      retention = Duration.days(36_525),
      over: (db: Database) => Database = (db) => db,
      maxSize = 1024 ** 3,
    ) {
      const scope = yield* Scope.fork(all)
      return yield* Effect.gen(function* () {
        const opened = yield* openDatabase(url, { schema })
        yield* Effect.mapError(DatabaseSchema.migrate(opened, schema), ({ message }) => unavailable(message))
        const { db, freeze, thaw, fails } = freezable(over(opened))
        const journal = yield* PostgresJournal.make(db, {
          name,
          retention,
          maxSize,
          duplicates: { age: Duration.hours(24), count: 10_000 },
        })
        // A frozen relay can't leave, so it is thawed before the test ends.
        yield* Effect.addFinalizer(() => Effect.sync(thaw))
        return { journal, freeze, thaw, fails, stop: Scope.close(scope, Exit.void) } satisfies Relay
      }).pipe(Scope.provide(scope))
    }),
  }
})

const turn = () => new Promise((resolve) => setTimeout(resolve, 2))

/** Waits until the database has answered all statements. */
export const quiet = Effect.promise(async () => {
  for (let turns = 0; turns < 3; turns = asked === 0 ? turns + 1 : 0) await turn()
})

/** Lets `count` seconds pass, and waits twice a second until the database has answered all statements. */
export const seconds = Effect.fnUntraced(function* (count: number) {
  for (let passed = 0; passed < count * 2; passed++) {
    yield* TestClock.adjust("500 millis")
    yield* quiet
  }
})

/** Runs work while time passes. */
export const meanwhile = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(work)
    while (fiber.pollUnsafe() === undefined) yield* seconds(0.5)
    return yield* Fiber.join(fiber)
  })
