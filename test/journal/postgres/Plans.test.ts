import { expect } from "bun:test"
import { Effect } from "effect"
import type { Database, Use } from "../../../src/journal/postgres/connection/Database.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { event, settlement } from "../samples.ts"
import { relays } from "./relays.ts"

/** PostgreSQL makes this many plans before it keeps one. */
const tried = 5

suiteUnless(reasonToSkip(), "PostgreSQL", () => {
  it.effect("makes no new plan for each commit or settlement of a single event", function* () {
    const { start } = yield* relays
    let opened: Database | undefined
    const { journal } = yield* start("a", undefined, (database) => {
      opened = database
      return database
    })
    yield* journal.openLane("lake")
    for (let sequence = 1; sequence <= 4 * tried; sequence++) {
      yield* journal.append(event(`e${sequence}`), ["lake"])
      yield* journal.settle([settlement("lake", sequence)])
    }
    const plansOf = (use: Use, name: string) =>
      Effect.promise(async () => {
        const sql = "SELECT custom_plans AS plans FROM pg_prepared_statements WHERE name = $1"
        const answer = await opened?.queryUnsafe<{ readonly plans: number }>(use, sql, [name])
        return answer?._tag === "Success" ? answer.success.rows[0]?.plans : undefined
      })
    expect(yield* plansOf("append", "append")).toBe(tried)
    expect(yield* plansOf("work", "settle")).toBe(tried)
  })
})
