/** Checks a journal and its file's directory without opening the journal, for `validate` and `doctor`. */
import { Effect } from "effect"
import type { JournalConfig } from "../../config/Config.ts"
import type { Inspected } from "../../journal/JournalType.ts"
import { lazily, withDeadline } from "../support/Program.ts"

/** Returns the problems of a journal's file, directory and disk that stop a relay from running. */
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

/** Returns the findings of the journal's type, such as an unusable database or a file that is not a journal. */
export const checkJournal = Effect.fnUntraced(function* (config: JournalConfig) {
  const { inspect } = yield* lazily(() => import("../../journal/Journals.ts"))
  const unanswered = (time: string): ReadonlyArray<Inspected> => [
    { verdict: "wrong", message: `no answer within ${time}` },
  ]
  return yield* withDeadline((time) => Effect.succeed(unanswered(time)))(inspect(config))
})
