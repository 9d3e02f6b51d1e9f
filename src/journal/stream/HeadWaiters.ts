/** Wakes those that wait for new events. */
export class HeadWaiters {
  readonly #waiters = new Set<{ readonly after: number; readonly wake: () => void }>()

  /** Calls `wake` once the head is above `after`; the result cancels that. */
  add(after: number, wake: () => void): () => void {
    const waiter = { after, wake }
    this.#waiters.add(waiter)
    return () => {
      this.#waiters.delete(waiter)
    }
  }

  reached(head: number): void {
    for (const waiter of this.#waiters) {
      if (waiter.after >= head) continue
      this.#waiters.delete(waiter)
      waiter.wake()
    }
  }
}
