/**
 * The policy of a lane: what becomes of an event after an attempt with it.
 *
 * It is pure: {@link verdictOf} reads the failure and what is known beside it,
 * and `Outcome.ts` applies what it says. `Verdict.test.ts` is the whole policy
 * as a table.
 */
import type { DeliveryFailed, DeliveryRejected, Reason, SinkMisconfigured } from "../../sinks/Sink.ts"
import type { SinkFailure } from "./CircuitBreaker.ts"
import type { Failure } from "./InFlight.ts"

/** The attempt that an event was a part of. */
export interface Circumstances {
  /** All of its events went as one message. */
  readonly isDigest: boolean
  /** It had one event. */
  readonly isAlone: boolean
  /** It was a batch that failed as a whole, so any of its events may be at fault. */
  readonly failedTogether: boolean
}

/** Whether an event fails by itself, or because the sink does. See `Suspects.ts`. */
export type Suspicion =
  /** Nothing speaks against the event. */
  | "none"
  /** It failed again although others have passed since, or it was at fault before and no others fail. */
  | "atFault"
  /** It was at fault before, but now others fail as well. */
  | "wasAtFault"

/** The failure of the target, if it would refuse every event. See `TargetRefusals.ts`. */
export type TargetFailure = SinkMisconfigured | undefined

/**
 * The end of an event's attempt, and whom the failure counts against.
 *
 * A `Retried` event is charged an attempt: it waits for the next one, or is a
 * dead letter if this was its last. A `Returned` event goes back into the queue
 * uncharged. What is `isolated` goes in a batch of its own from now on.
 */
export type Verdict =
  | { readonly _tag: "Delivered" }
  /** It is a dead letter at once. */
  | { readonly _tag: "Rejected"; readonly failure: DeliveryRejected }
  /** The event alone is at fault. It gets the attempt back if the sink turns out to be down. */
  | { readonly _tag: "Retried"; readonly against: "event"; readonly failure: SinkFailure; readonly isolated: boolean }
  /** The event failed, and the circuit breaker counts it, because the sink may be why. */
  | { readonly _tag: "Retried"; readonly against: "both"; readonly failure: DeliveryFailed }
  /** A bug of the relay met the event: that says nothing about the sink. */
  | { readonly _tag: "Retried"; readonly against: "relay"; readonly failure: Failure }
  /** The circuit breaker counts it. */
  | { readonly _tag: "Returned"; readonly against: "sink"; readonly failure: SinkFailure; readonly isolated: boolean }
  /** Event or sink, it can't be told: neither is charged. */
  | { readonly _tag: "Returned"; readonly against: "either"; readonly isolated: false }
  | { readonly _tag: "Returned"; readonly against: "nobody"; readonly isolated: boolean }

const sinkReasons = ["SinkUnavailable", "SinkThrottled", "SinkMisconfigured"] as const satisfies ReadonlyArray<
  Reason["_tag"]
>

/** Whether a stored reason says that the sink is down. A retry has such a reason only if its event was at fault. */
export const blamesSink = (reason: string): boolean => sinkReasons.some((tag) => tag === reason)

/** The verdict on an event of an attempt; `failure` is absent where it was delivered. */
export const verdictOf = (
  failure: Failure | undefined,
  { isDigest, isAlone, failedTogether }: Circumstances,
  suspicion: Suspicion,
  ofTarget?: TargetFailure,
): Verdict => {
  if (failure === undefined) return { _tag: "Delivered" }
  switch (failure._tag) {
    case "DeliveryRejected":
      if (ofTarget !== undefined) return { _tag: "Returned", against: "sink", failure: ofTarget, isolated: false }
      return { _tag: "Rejected", failure }
    case "DeliveryFailed":
      // Any of them may be why, so none is charged before it has failed by itself.
      if (failedTogether) return { _tag: "Returned", against: "sink", failure, isolated: true }
      return { _tag: "Retried", against: "both", failure }
    case "Interrupted":
      return { _tag: "Returned", against: "nobody", isolated: false }
    case "Defect":
      // Which of several events the bug is about shows when each goes by itself.
      if (!isAlone) return { _tag: "Returned", against: "nobody", isolated: true }
      if (ofTarget !== undefined) return { _tag: "Returned", against: "sink", failure: ofTarget, isolated: false }
      return { _tag: "Retried", against: "relay", failure }
    case "SinkUnavailable":
    case "SinkThrottled":
    case "SinkMisconfigured":
      if (failedTogether) return { _tag: "Returned", against: "sink", failure, isolated: suspicion === "atFault" }
      if (suspicion === "none") return { _tag: "Returned", against: "sink", failure, isolated: false }
      if (suspicion === "wasAtFault") return { _tag: "Returned", against: "either", isolated: false }
      return { _tag: "Retried", against: "event", failure, isolated: !isDigest }
  }
}
