/** A real fault, to test the sink's message about it and the remedy in it. */
import type { Effect, Scope } from "effect"
import type { Reason } from "../../../src/sinks/Sink.ts"

export interface Cause {
  /** The actual fault, in words. */
  readonly name: string
  /** The remedy that the message must name, or an empty string if the relay retries by itself. */
  readonly todo: string
  readonly reason: Effect.Effect<Reason | undefined, unknown, Scope.Scope>
}

/** A service that a relay talks to. */
export interface Part {
  readonly title: string
  /** The reason why its faults can't be produced here, or `undefined` if they can. */
  readonly lacking: () => string | undefined
  readonly causes: () => Promise<ReadonlyArray<Cause>>
}
