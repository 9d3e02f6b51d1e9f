/** Opens a journal on disk, uses it, and closes it. */
import { Effect } from "effect"
import type { JournalError } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import type { SqliteConfig } from "../../../src/journal/sqlite/SqliteConfig.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { effectOf, type Steps } from "../../lib/effect.ts"
import { event } from "../samples.ts"
import { whole } from "../whole.ts"

export type Service = WholeJournal

/** Opens the journal, uses it, closes it. */
export const session = <A>(at: SqliteConfig, use: (journal: Service) => Steps<A, JournalError>) =>
  Effect.flatMap(whole, (journal) => effectOf(() => use(journal))).pipe(
    Effect.provide(SqliteJournal.layer(at)),
    Effect.scoped,
  )

export const appendAll = (journal: Service, ids: ReadonlyArray<string>, sinks: ReadonlyArray<string> = ["lake"]) =>
  Effect.forEach(ids, (id) => journal.append(event(id), sinks), { concurrency: "unbounded", discard: true })

export const ids = (count: number, prefix = "evt"): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => `${prefix}_${index}`)

export const failure = <A>(effect: Effect.Effect<A, JournalError>) => Effect.orDie(Effect.flip(effect))

export const lane = (journal: Service, name: string) =>
  Effect.map(journal.lanes, (lanes) => lanes.find((lane) => lane.name === name))

export const read = (journal: Service, after = 0) =>
  Effect.map(journal.read(after, 10_000), (entries) => entries.map((entry) => entry.event.id))
