/** The patterns of `--type`, checked before the relay is asked. */
import { Effect } from "effect"
import { usage } from "./CommandError.ts"
import { plain } from "./output.ts"
import { lazily } from "./Program.ts"

export const requirePatterns = Effect.fnUntraced(function* (types: ReadonlyArray<string>) {
  if (types.length === 0) return
  const { problem } = yield* lazily(() => import("../../routing/Pattern.ts"))
  for (const type of types) {
    const wrong = problem(type)
    if (wrong !== undefined) return yield* usage(`--type ${plain(type)}: ${wrong}`)
  }
})
