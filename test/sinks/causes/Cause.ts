/** A fault as it really is, to see what a sink says about it and what it tells to do. */
import type { Effect, Scope } from "effect"
import type { Reason } from "../../../src/sinks/Sink.ts"

export interface Cause {
  /** What is really wrong, in words. */
  readonly name: string
  /** What the message must tell to do; empty where the relay tries again by itself. */
  readonly todo: string
  readonly reason: Effect.Effect<Reason | undefined, unknown, Scope.Scope>
}

/** What a relay talks to. */
export interface Part {
  readonly title: string
  /** Why its causes can't be made here; `undefined` when they can. */
  readonly lacking: () => string | undefined
  readonly causes: () => Promise<ReadonlyArray<Cause>>
}
