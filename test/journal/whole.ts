/** Both services of a journal as one object, for tests that append and then read kept events. */
import { Effect } from "effect"
import { Archive } from "../../src/journal/Archive.ts"
import { Journal } from "../../src/journal/Journal.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"

export const whole: Effect.Effect<WholeJournal, never, Journal | Archive> = Effect.gen(function* () {
  return Object.assign(yield* Archive, yield* Journal)
})
