import { Duration, Effect, Layer } from "effect"
import { unavailable } from "../../../src/journal/Journal.ts"
import { servicesOf } from "../../../src/journal/JournalType.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { eventsContract } from "../../contract/eventsContract.ts"
import { type CreateOnDisk, upkeepContract } from "../../contract/journal/upkeepContract.ts"
import { journalContract } from "../../contract/journalContract.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { makePostgres, type Postgres, reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { openDatabase } from "./database.ts"
import { relays, seconds } from "./relays.ts"

let schemas = 0

let older: Promise<Postgres> | undefined
const olderPostgres = () => {
  older ??= makePostgres({ release: "debian" })
  return older
}

/** A journal in a schema of its own. */
const createOn =
  (server: () => Promise<Postgres>) =>
  (maxSize = 1024 ** 3) => {
    const schema = `contract_${process.pid}_${schemas++}`
    const make = Effect.gen(function* () {
      const { url } = yield* Effect.promise(server)
      const db = yield* openDatabase(url, { schema })
      yield* Effect.mapError(DatabaseSchema.migrate(db, schema), ({ message }) => unavailable(message))
      return yield* PostgresJournal.make(db, {
        name: "one",
        retention: Duration.days(36_525),
        maxSize,
        duplicates: { age: Duration.hours(24), count: 10_000 },
      })
    })
    return () => Layer.effectContext(Effect.map(make, servicesOf))
  }

/** One relay, as the contract of upkeep wants it. */
const createOnDisk: CreateOnDisk = ({ retention, maxSize }) =>
  Effect.map(relays, ({ start, sql }) => ({
    open: start("one", retention, undefined, maxSize),
    seconds,
    damage: Effect.asVoid(
      sql("UPDATE relay.log SET bytes = decode(repeat('00', octet_length(bytes)), 'hex') WHERE first % 2 = 0"),
    ),
  }))

suiteUnless(reasonToSkip(), "the journal on PostgreSQL", () => {
  const create = createOn(sharedPostgres)
  journalContract("PostgreSQL", create)
  eventsContract("PostgreSQL", create)
  upkeepContract("PostgreSQL", createOnDisk)
})

suiteUnless(reasonToSkip("debian"), "the journal on PostgreSQL 15", () => {
  const create = createOn(olderPostgres)
  journalContract("PostgreSQL 15", create)
  eventsContract("PostgreSQL 15", create)
})
