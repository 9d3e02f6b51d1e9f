/**
 * When an event leaves a lane, and which operator asked for it. It is recorded for events that are dropped,
 * replayed or moved.
 */
import { Clock, Effect } from "effect"
import { Operator } from "../Operator.ts"

export interface Removal {
  /** Epoch milliseconds. */
  readonly at: number
  /** The name of the client that asked. */
  readonly by: string
}

/** A removal at this moment, by the {@link Operator}. */
export const removal: Effect.Effect<Removal> = Effect.gen(function* () {
  return { at: yield* Clock.currentTimeMillis, by: yield* Operator }
})
