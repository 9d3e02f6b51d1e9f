/** The verdicts on an answer, and one that a service documents. */

export const verdicts = ["delivered", "retry", "reject", "throttle", "misconfigured"] as const
export type Verdict = (typeof verdicts)[number]

/** The documented meaning of an answer. */
export interface Documented {
  readonly verdict: Verdict
  /** It says what happened and what to do. */
  readonly because?: string
  /** The wait in milliseconds, where it isn't in `Retry-After`. */
  readonly retryAfter?: number | undefined
  /** A rejection for the event's own size or content. */
  readonly ofEvent?: boolean
}
