/** The journal of a config, on a database with the schema version of this relay. */
import { Effect, Layer } from "effect"
import type { Archive } from "../Archive.ts"
import type { Journal, JournalError } from "../Journal.ts"
import { servicesOf } from "../WholeJournal.ts"
import { refusing } from "./connection/DatabaseRefusal.ts"
import * as PooledDatabase from "./connection/PooledDatabase.ts"
import { nameOf, type PostgresConfig } from "./connection/PostgresConfig.ts"
import * as PostgresJournal from "./PostgresJournal.ts"
import { migrate } from "./tables/DatabaseSchema.ts"

export { latest as schema } from "./tables/DatabaseSchema.ts"

/** Opens the database, migrates its schema to the newest version, and joins the fleet, for the length of a scope. */
export const layer = (config: PostgresConfig): Layer.Layer<Journal | Archive, JournalError> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const database = yield* PooledDatabase.ofConfig(config)
      yield* refusing(migrate(database, config.schema))
      const { retention, maxSize, duplicates, searchIds } = config
      const options = { name: nameOf(config), retention, maxSize, duplicates, searchIds }
      return servicesOf(yield* PostgresJournal.make(database, options))
    }),
  )
