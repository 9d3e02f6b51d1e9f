/** Looks at a journal that is on another machine, without opening it: for `validate` and `doctor`. */
import { Effect } from "effect"
import type { JournalConfig } from "../../config/Config.ts"
import type { Inspected } from "../../journal/JournalType.ts"
import { withDeadline } from "./deadline.ts"
import { lazily } from "./Program.ts"

/** Nothing where the journal is a file of this machine. */
export const checkJournal = Effect.fnUntraced(function* (config: JournalConfig) {
  const { inspect } = yield* lazily(() => import("../../journal/Journals.ts"))
  const unanswered = (time: string): ReadonlyArray<Inspected> => [
    { verdict: "wrong", message: `no answer within ${time}` },
  ]
  return yield* withDeadline((time) => Effect.succeed(unanswered(time)))(inspect(config))
})
