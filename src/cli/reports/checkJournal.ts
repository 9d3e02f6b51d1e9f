/** Looks at a journal without opening it, for `validate` and `doctor`: the journal itself, and the directory of a file. */
import { Effect } from "effect"
import type { JournalConfig } from "../../config/Config.ts"
import type { Inspected } from "../../journal/JournalType.ts"
import { lazily, withDeadline } from "../support/Program.ts"

/** A journal's file, its directory and its disk: what stops a relay from running there. */
export const checkJournalFile = Effect.fnUntraced(function* (config: JournalConfig) {
  const [{ fileOf }, { disk }] = yield* Effect.all([
    lazily(() => import("../../journal/Journals.ts")),
    lazily(() => import("./doctorFindings.ts")),
  ])
  const file = fileOf(config)
  if (file === undefined) return []
  const found = yield* disk(file)
  return found
    .filter(({ verdict }) => verdict !== "ok")
    .map(({ verdict, message }): Inspected => ({ verdict, message }))
})

/** The findings of the journal's type: a database that can't be used, or a file that is not a journal. */
export const checkJournal = Effect.fnUntraced(function* (config: JournalConfig) {
  const { inspect } = yield* lazily(() => import("../../journal/Journals.ts"))
  const unanswered = (time: string): ReadonlyArray<Inspected> => [
    { verdict: "wrong", message: `no answer within ${time}` },
  ]
  return yield* withDeadline((time) => Effect.succeed(unanswered(time)))(inspect(config))
})
