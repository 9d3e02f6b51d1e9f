/** Helpers that the parts of the journal's contract share. */
import { Effect, type Layer } from "effect"
import type { Archive } from "../../../src/journal/Archive.ts"
import type { Journal, JournalError } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { event } from "../../journal/samples.ts"
import { whole } from "../../journal/whole.ts"
import { effectOf, it, type Steps } from "../../lib/effect.ts"

export type Service = WholeJournal

/** Makes a new, empty journal that may have `maxSize` bytes; each layer that the result gives opens the same one again. */
export type Create = (maxSize?: number) => () => Layer.Layer<Journal | Archive, JournalError>

/** Opens a journal, uses it, closes it. */
export type Session = <A>(use: (journal: Service) => Steps<A, JournalError>) => Effect.Effect<A, JournalError>

export const sessionsOf =
  (open: () => Layer.Layer<Journal | Archive, JournalError>): Session =>
  (use) => {
    const used = Effect.flatMap(whole, (journal) => effectOf(() => use(journal)))
    return Effect.scoped(Effect.provide(used, open()))
  }

/** Defines tests of one session with a new journal. */
export const testWith =
  (create: Create, maxSize?: number) =>
  (title: string, body: (journal: Service) => Steps<void, JournalError>): void =>
    it.live(title, () => sessionsOf(create(maxSize))(body))

export const appendAll = (journal: Service, ids: ReadonlyArray<string>, sinks: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) => journal.append(event(id), sinks), { discard: true })

export const lane = (journal: Service, name: string) =>
  Effect.map(journal.lanes, (lanes) => lanes.find((lane) => lane.name === name))
