/** Wakes those who wait for events: each for any that comes, or a lane for its own. */
type Wake = () => void

export class HeadWaiters {
  readonly #waiters = new Set<{ readonly after: number; readonly wake: Wake }>()
  readonly #lanes = new Map<string, Set<Wake>>()

  /** Calls `wake` once the head is above `after`; the result cancels that. */
  add(after: number, wake: Wake): () => void {
    const waiter = { after, wake }
    this.#waiters.add(waiter)
    return () => {
      this.#waiters.delete(waiter)
    }
  }

  /** Calls `wake` once an event that is routed to the lane is durable; the result cancels that. */
  addLane(lane: string, wake: Wake): () => void {
    const waiting = this.#lanes.get(lane) ?? new Set()
    this.#lanes.set(lane, waiting.add(wake))
    return () => {
      waiting.delete(wake)
    }
  }

  /** Events up to the head were committed, and routed to these lanes. */
  reached(head: number, lanes: Iterable<string> = []): void {
    for (const waiter of this.#waiters) {
      if (waiter.after >= head) continue
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
