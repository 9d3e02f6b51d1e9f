/** Remains of erased events in the files of PostgreSQL, and the statements that overwrite them. */
import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import { erase } from "../../../src/admin/api/ErasureApi.ts"
import { statements } from "../../../src/journal/postgres/archive/EventErasing.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { clientOf, play } from "../histories.ts"
import { remainsIn } from "../markers.ts"
import { openDatabase, ownPostgres } from "./database.ts"

suiteUnless(reasonToSkip(), "erased events in the files of PostgreSQL", () => {
  it.live(
    "are gone once the statements have run that the erasure names",
    function* () {
      const server = yield* ownPostgres()
      const sql = (text: string) => Effect.promise(() => server.sql(text))
      const database = yield* openDatabase(server.url)
      yield* DatabaseSchema.migrate(database, "relay")
      const journal = yield* PostgresJournal.make(database, {
        ...{ name: "a", retention: Duration.days(1), maxSize: 1024 ** 3 },
        duplicates: { age: Duration.hours(1), count: 1000 },
      })
      const played = yield* play(journal, 7, 60)
      // The server also does this by itself. Its statistics then contain samples of the rows.
      yield* sql("ANALYZE")
      const request = { object: clientOf("anna"), giveUp: true }
      const { count } = yield* erase({ archive: journal, whileStopped: (_, inside) => inside }, request)
      expect(count).toBeGreaterThan(1)
      const erased = played.filter(({ accountId }) => accountId === "anna").map(({ id }) => id)
      const { asOwner, asSuperuser } = statements("relay")
      const told = (yield* journal.scrub).join("\n")
      for (const statement of [...asOwner, ...asSuperuser]) expect(told).toContain(statement)
      expect(remainsIn(server.data, erased)).not.toEqual([])
      for (const statement of [...asOwner, ...asSuperuser]) yield* sql(statement)
      expect(remainsIn(server.data, erased)).toEqual([])
      // The events of the other account are still there.
      const others = played.filter(({ accountId }) => accountId === "bert").map(({ id }) => id)
      expect(remainsIn(server.data, others)).not.toEqual([])
    },
    60_000,
  )
})
