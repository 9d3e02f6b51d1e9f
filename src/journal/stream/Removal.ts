/** When something leaves a lane, and who asked for it: recorded with what is dropped, replayed or moved. */
import { Clock, Effect } from "effect"
import { Operator } from "../Operator.ts"

/** The facts of a removal that are recorded. */
export interface Removal {
  /** Epoch milliseconds. */
  readonly at: number
  /** The name of the client that asked. */
  readonly by: string
}

/** A removal now, by the {@link Operator}. */
export const removal: Effect.Effect<Removal> = Effect.gen(function* () {
  return { at: yield* Clock.currentTimeMillis, by: yield* Operator }
})
