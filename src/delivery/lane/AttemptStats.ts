/**
 * Counts a sink's attempts since the start, by outcome and by duration. A new lane
 * of the sink continues the counts of the last one.
 */

/** Upper bounds in seconds of the delivery duration histogram. */
export const durationBuckets = [0.005, 0.025, 0.1, 0.5, 1, 5, 10, 30] as const

export class AttemptStats {
  /** Events by the outcome of their attempt: `delivered`, or a reason's tag. */
  readonly outcomes: Record<string, number> = {}
  /** Attempts by duration: one count for each bucket and one above them all. The sum is in seconds. */
  readonly durations = { counts: new Array<number>(durationBuckets.length + 1).fill(0), sum: 0 }
  /** The last failed attempt; `at` is in monotonic milliseconds. */
  lastFailure: { readonly at: number; readonly message: string } | undefined

  /** The number of times that the sink was closed because of a bug in its client library. */
  bugs = 0

  bug(message: string, at: number): void {
    this.bugs += 1
    this.lastFailure = { at, message }
  }

  count(outcome: string, events: number): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + events
  }

  failed(tag: string, message: string, at: number): void {
    this.count(tag, 1)
    this.lastFailure = { at, message }
  }

  observe(seconds: number): void {
    const bucket = durationBuckets.findIndex((bound) => seconds <= bound)
    const index = bucket === -1 ? durationBuckets.length : bucket
    this.durations.counts[index] = (this.durations.counts[index] ?? 0) + 1
    this.durations.sum += seconds
  }
}
