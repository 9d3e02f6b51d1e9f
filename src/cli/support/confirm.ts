/** Asks before a change that can't be undone. */
import { Effect } from "effect"
import { Prompt, TerminalCapabilities } from "effect/cli"
import { failed, usage } from "./CommandError.ts"
import { toggle } from "./flags.ts"

export const yes = toggle("yes", "Confirm without a question, for scripts")

/** Asks on a terminal whether to go on. Without one, it requires `--yes`. */
export const confirmed = Effect.fnUntraced(function* (isGiven: boolean, what: string) {
  if (isGiven) return
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  if (!canAnimate) return yield* usage(`${what}: confirm it with --yes`)
  const question = Prompt.Confirm({ message: `${what}. Go on?` })
  const isSure = yield* Effect.orElseSucceed(Prompt.run(question), () => false)
  if (!isSure) return yield* failed("nothing was changed")
})
