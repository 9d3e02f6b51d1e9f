/**
 * How many of a lane's newest events the sink rejected. When it is more than
 * half, the lane is blocked before a whole backlog becomes dead letters.
 */
const newest = 20

export class RejectionRate {
  /** True for a rejected event. */
  #outcomes: Array<boolean> = []

  passed(events: number): void {
    this.#record(false, events)
  }

  /** An event was rejected, or given up without asking the sink. True when there are too many. */
  rejected(): boolean {
    this.#record(true, 1)
    return this.#outcomes.length === newest && this.#outcomes.filter((rejected) => rejected).length > newest / 2
  }

  reset(): void {
    this.#outcomes = []
  }

  #record(rejected: boolean, events: number): void {
    for (let i = 0; i < Math.min(events, newest); i++) this.#outcomes.push(rejected)
    if (this.#outcomes.length > newest) this.#outcomes = this.#outcomes.slice(-newest)
  }
}
