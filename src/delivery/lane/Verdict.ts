/**
 * A lane's policy: the next state of an event after an attempt.
 *
 * It is pure: {@link verdictOf} decides from the failure and its circumstances, and
 * `Outcome.ts` applies the verdict. `Verdict.test.ts` has the whole policy as a
 * table.
 */
import type { DeliveryFailed, DeliveryRejected, Reason, SinkMisconfigured } from "../../sinks/Sink.ts"
import type { SinkFailure } from "./CircuitBreaker.ts"
import type { Failure } from "./InFlight.ts"

/** The attempt that included the event. */
export interface Circumstances {
  /** All of its events were sent as one message. */
  readonly isDigest: boolean
  /** It had one event. */
  readonly isAlone: boolean
  /** It was a batch that failed as a whole, so any of its events may be at fault. */
  readonly failedTogether: boolean
}

/** Whether the event or the sink is at fault. See `Suspects.ts`. */
export type Suspicion =
  /** No sign that the event is at fault. */
  | "none"
  /**
   * The event failed again although others have succeeded since. Or it was at fault before, and the sink isn't
   * failing for other events.
   */
  | "atFault"
  /** It was at fault before, but now others fail as well. */
  | "wasAtFault"

/** The failure of the target, if it would refuse every event. See `Suspects.ts`. */
export type TargetFailure = SinkMisconfigured | undefined

/**
 * The decision on an event after an attempt, and whether its failure counts against
 * the event, the sink or both.
 *
 * A `Retried` event is charged an attempt. It waits for the next one, or becomes a
 * dead letter if this was its last. A `Returned` event goes back into the queue
 * uncharged. An `isolated` event goes in a batch of its own from now on.
 */
export type Verdict =
  | { readonly _tag: "Delivered" }
  /** It becomes a dead letter immediately. */
  | { readonly _tag: "Rejected"; readonly failure: DeliveryRejected }
  /** The event alone is at fault. It gets the attempt back if the sink turns out to be down. */
  | { readonly _tag: "Retried"; readonly against: "event"; readonly failure: SinkFailure; readonly isolated: boolean }
  /** The event failed, and the circuit breaker counts it, because the sink may be the cause. */
  | { readonly _tag: "Retried"; readonly against: "both"; readonly failure: DeliveryFailed }
  /** A bug in the relay, which says nothing about the sink. */
  | { readonly _tag: "Retried"; readonly against: "relay"; readonly failure: Failure }
  /** The circuit breaker counts it. */
  | { readonly _tag: "Returned"; readonly against: "sink"; readonly failure: SinkFailure; readonly isolated: boolean }
  /** It is unknown whether the event or the sink is at fault, so neither is charged. */
  | { readonly _tag: "Returned"; readonly against: "either"; readonly isolated: false }
  | { readonly _tag: "Returned"; readonly against: "nobody"; readonly isolated: boolean }

const sinkReasons = ["SinkUnavailable", "SinkThrottled", "SinkMisconfigured"] as const satisfies ReadonlyArray<
  Reason["_tag"]
>

/** Reports whether a stored reason blames the sink. A retry has such a reason only if its event was at fault. */
export const blamesSink = (reason: string): boolean => sinkReasons.some((tag) => tag === reason)

/** Returns the verdict on an event of an attempt. `failure` is absent if the event was delivered. */
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
      // Any of the events may be the cause, so an event is charged only after it has failed alone.
      if (failedTogether) return { _tag: "Returned", against: "sink", failure, isolated: true }
      return { _tag: "Retried", against: "both", failure }
    case "Interrupted":
      return { _tag: "Returned", against: "nobody", isolated: false }
    case "Defect":
      // If there are several events, each is sent alone to find the one that triggers the bug.
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
