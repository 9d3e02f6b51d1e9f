/** Wakes callers that wait for events of a log. Some wait for any event, and each lane waits for its own events. */
import type { Backlog } from "./Backlog.ts"
import type { RecentEntries } from "./RecentEntries.ts"

type Wake = () => void

/** The parts of a log that waiting requires. */
export interface WaitedLog {
  /** The highest sequence that is durable. */
  readonly end: () => number
  /** The backlogs are exact above this sequence. Up to it, a lane must read the log to find its events. */
  readonly readFrom: () => number
  readonly backlogs: ReadonlyMap<string, Backlog>
  /** Records which lanes wait, and which will read. */
  readonly recent: () => Pick<RecentEntries, "waits" | "wants">
}

/** The waiters of one log. */
export class HeadWaiters {
  readonly #log: WaitedLog
  readonly #waiters = new Set<{ readonly after: number; readonly wake: Wake }>()
  readonly #lanes = new Map<string, Set<Wake>>()

  constructor(log: WaitedLog) {
    this.#log = log
  }

  /**
   * Calls `reached` when `Log.awaitBeyond` must return, immediately or later. Returns a function that cancels
   * the wait, or `undefined` if `reached` was already called.
   */
  awaitBeyond(after: number, lane: string | undefined, reached: (through: number) => void): (() => void) | undefined {
    const { end, readFrom, backlogs, recent } = this.#log
    if (lane === undefined || after < readFrom()) {
      if (end() <= after) return this.#add(after, () => reached(after))
      reached(after)
      return undefined
    }
    const next = () => backlogs.get(lane)?.nextAbove(after)
    const wake = (): void => {
      const through = (next() ?? after + 1) - 1
      recent().wants(lane, through)
      reached(through)
    }
    if (next() === undefined) {
      recent().waits(lane)
      return this.#addLane(lane, wake)
    }
    wake()
    return undefined
  }

  #add(after: number, wake: Wake): () => void {
    const waiter = { after, wake }
    this.#waiters.add(waiter)
    return () => {
      this.#waiters.delete(waiter)
    }
  }

  #addLane(lane: string, wake: Wake): () => void {
    const waiting = this.#lanes.get(lane) ?? new Set()
    this.#lanes.set(lane, waiting.add(wake))
    return () => {
      waiting.delete(wake)
    }
  }

  /** Call it after events up to the end were committed and routed to these lanes. */
  reached(lanes: Iterable<string>): void {
    const end = this.#log.end()
    for (const waiter of this.#waiters) {
      if (waiter.after >= end) continue
      this.#waiters.delete(waiter)
      waiter.wake()
    }
    for (const lane of lanes) this.#wakeLane(lane)
  }

  #wakeLane(lane: string): void {
    const waiting = this.#lanes.get(lane)
    if (waiting === undefined) return
    this.#lanes.delete(lane)
    for (const wake of waiting) wake()
  }
}
