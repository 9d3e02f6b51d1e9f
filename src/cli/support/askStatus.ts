/** Asks the running relay for its status. */
import { Effect } from "effect"
import { ask } from "./adminClient.ts"
import { unreachable } from "./CommandError.ts"
import { checkJournal } from "./checkJournal.ts"
import { withDeadline } from "./deadline.ts"
import { loadJournal } from "./loadConfig.ts"

/** Why the relay does not answer: its database may not, and then that hangs. */
const unanswered = Effect.fnUntraced(function* (time: string) {
  const looked = yield* Effect.flatMap(loadJournal, checkJournal).pipe(Effect.orElseSucceed(() => []))
  const wrong = looked.filter(({ verdict }) => verdict === "wrong").map(({ message }) => message)
  const why = wrong.length === 0 ? "it may hang" : `its journal can't be used: ${wrong.join("; ")}`
  return yield* unreachable(`the relay does not answer within ${time}: ${why}`)
})

export const askStatus = ask((client) => client.status()).pipe(withDeadline(unanswered))
