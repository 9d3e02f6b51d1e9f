/** The steps of each lane in the last hour, for its charts. They are kept only in memory, at most 360 for each lane. */
import type { LaneStatus } from "../delivery/LaneStatus.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import type { LaneHistory } from "./HistoryApi.ts"
import { percentile99 } from "./Percentile.ts"

interface Step {
  readonly at: EpochMillis
  readonly delivered: number
  readonly failed: number
  readonly backlog: number
  readonly p99: Millis | null
}

interface Counted {
  readonly delivered: number
  readonly failed: number
  readonly durations: ReadonlyArray<number>
}

/** Returns the increase of a count. If the count was reset, returns its whole value. */
export const more = (now: number, before: number): number => (now >= before ? now - before : now)

const nothing: Counted = { delivered: 0, failed: 0, durations: [] }

const countedOf = ({ attempts, durations: { counts } }: LaneStatus): Counted => {
  const { delivered = 0, ...failures } = attempts
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  return { delivered, failed, durations: [...counts] }
}

interface Lane {
  since: EpochMillis
  readonly steps: Array<Step>
  last: Counted
}

export class LaneSteps {
  readonly #lanes = new Map<string, Lane>()
  readonly #most: number
  #at: EpochMillis

  /** `start` is the time at which the first step began. */
  constructor(start: EpochMillis, most: number) {
    this.#at = start
    this.#most = most
  }

  /** Ends a step at `at`, and forgets lanes that no longer exist. */
  add(at: EpochMillis, statuses: ReadonlyArray<LaneStatus>): void {
    const names = new Set(statuses.map(({ name }) => name))
    for (const name of this.#lanes.keys()) if (!names.has(name)) this.#lanes.delete(name)
    for (const status of statuses) {
      const now = countedOf(status)
      const lane: Lane = this.#lanes.get(status.name) ?? { since: this.#at, steps: [], last: nothing }
      const { last, steps } = lane
      steps.push({
        at,
        delivered: more(now.delivered, last.delivered),
        failed: more(now.failed, last.failed),
        backlog: status.backlog,
        p99: percentile99(now.durations.map((count, index) => more(count, last.durations[index] ?? 0))) ?? null,
      })
      if (steps.length > this.#most) lane.since = steps.shift()?.at ?? lane.since
      lane.last = now
      this.#lanes.set(status.name, lane)
    }
    this.#at = at
  }

  /** Returns a lane's steps. There are none for a lane that did not exist at the end of a step. */
  report(name: string): LaneHistory {
    const lane = this.#lanes.get(name) ?? { since: this.#at, steps: [] }
    const column = <K extends keyof Step>(of: K) => lane.steps.map((step) => step[of])
    return {
      since: lane.since,
      at: column("at"),
      delivered: column("delivered"),
      failed: column("failed"),
      backlog: column("backlog"),
      p99: column("p99"),
    }
  }
}
