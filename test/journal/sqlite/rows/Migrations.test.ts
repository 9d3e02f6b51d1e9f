import { expect } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { gunzipSync } from "node:zlib"
import { Effect } from "effect"
import { check } from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import * as SqliteJournal from "../../../../src/journal/sqlite/SqliteJournal.ts"
import type { WholeJournal } from "../../../../src/journal/WholeJournal.ts"
import { it } from "../../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { whole } from "../../whole.ts"

// There is a fixture of each schema. This one holds thirteen events and three lanes. Lane "lake" has its cursor at 8
// with 10 settled, holds retries of 3 (tried 200 times) and 4, and 5 as a dead letter; "chat" is paused.
const older = (schema: number) =>
  Effect.gen(function* () {
    const at = options({})
    mkdirSync(dirname(at.path), { recursive: true })
    writeFileSync(at.path, gunzipSync(readFileSync(join(import.meta.dir, "older", `schema-${schema}.db.gz`))))
    // As it is, before it is opened.
    expect(yield* check(at.path)).toMatchObject({ sound: true, schema, head: 13, retrying: 2, deadLetters: 1 })
    const open = <A>(use: (journal: WholeJournal) => Effect.Effect<A, unknown>) =>
      Effect.flatMap(whole, use).pipe(Effect.provide(SqliteJournal.layer(at)), Effect.scoped)
    const ids = (entries: ReadonlyArray<{ readonly event: { readonly id: string } }>) =>
      entries.map(({ event }) => event.id)
    yield* open((journal) =>
      Effect.gen(function* () {
        expect((yield* journal.status).health).toBe("ok")
        const lake = yield* journal.openLane("lake")
        expect(lake).toMatchObject({ cursor: { sequence: 8, settled: [[10, 10]] }, backlog: 4, deadLetters: 1 })
        expect(lake.retries).toEqual([
          {
            sequence: 3,
            key: "acct_1",
            due: 2_000,
            delay: 1_000,
            firstAttemptAt: 5,
            tried: 200,
            lastFailure: "DeliveryFailed",
          },
          { sequence: 4, key: "acct_1", due: 2_000, delay: 0, firstAttemptAt: 0, tried: 0, lastFailure: "" },
        ])
        expect((yield* journal.openLane("chat")).paused).toBe(true)
        expect((yield* journal.lanes).map(({ name, backlog }) => [name, backlog])).toEqual([
          ["chat", 0],
          ["gone", 1],
          ["lake", 4],
        ])
        expect(ids((yield* journal.readRetries("lake", [3, 4])).entries)).toEqual(["evt_3", "evt_4"])
        const [dead] = yield* journal.deadLetters({ limit: 9 })
        expect(dead).toMatchObject({ id: "lake:5", attempts: [{ at: 1 }, { at: 2 }, { at: 3 }] })
        yield* journal.settle([
          settlement("lake", 11, { retry: [{ ...retrying(4), failed: [] }], deadLetter: [letter(3)] }),
        ])
      }),
    )
    yield* open((journal) =>
      Effect.gen(function* () {
        expect(yield* journal.openLane("lake")).toMatchObject({ backlog: 1, deadLetters: 2 })
        const [, given] = yield* journal.deadLetters({ limit: 9 })
        // Of two hundred attempts the first and the newest nine, this last one among them.
        expect(given?.attempts.map(({ at }) => at)).toEqual([1, 193, 194, 195, 196, 197, 198, 199, 200, 5])
        expect(yield* journal.append(event("evt_new"), ["lake"])).toBe("appended")
      }),
    )
  })

it.live("a journal of schema 1 is sound, and opens with its backlog, retries and dead letters", () => older(1))
