/** Who waits for something new in the log. */
export class HeadWaiters {
  private readonly waiters = new Set<{ readonly after: number; readonly wake: () => void }>()

  /** Calls `wake` once the log is beyond `after`; the answer takes it back. */
  add(after: number, wake: () => void): () => void {
    const waiter = { after, wake }
    this.waiters.add(waiter)
    return () => {
      this.waiters.delete(waiter)
    }
  }

  /** The log has come to `head`. */
  reached(head: number): void {
    for (const waiter of this.waiters) {
      if (waiter.after >= head) continue
      this.waiters.delete(waiter)
      waiter.wake()
    }
  }
}
