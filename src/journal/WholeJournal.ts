/** A journal when it is made: one object with both services. Its users ask for the service that they need. */
import { Context } from "effect"
import { Archive } from "./Archive.ts"
import { Journal } from "./Journal.ts"

export type WholeJournal = Journal["Service"] & Archive["Service"]

/** Returns a context with both services of a journal, for its layer. */
export const servicesOf = (journal: WholeJournal): Context.Context<Journal | Archive> =>
  Context.make(Journal, journal).pipe(Context.add(Archive, journal))
