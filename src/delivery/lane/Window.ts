/**
 * The events that a lane has taken from the log and not settled, and the cursor
 * that follows from them. Part of {@link Progress}.
 *
 * Sequences are taken in ascending order, so the set's first element is the
 * lowest that is open: the cursor costs nothing to know.
 */
import type { Cursor } from "../../journal/Journal.ts"

export class Window {
  /** The highest sequence that was read, routed to the lane or not. */
  position: number
  /** The event that was routed to the lane before the one that was taken last, itself taken or not; 0 when there was none. */
  previous = 0
  #newest = 0
  readonly #open = new Set<number>()
  /** Settled before a restart, above the cursor: not to be sent again. */
  #settledBefore: ReadonlyArray<readonly [number, number]>

  constructor(cursor: Cursor) {
    this.position = cursor.sequence
    this.#settledBefore = cursor.settled
  }

  get size(): number {
    return this.#open.size
  }

  /** The lowest open sequence; `undefined` when nothing is open. */
  get oldest(): number | undefined {
    for (const sequence of this.#open) return sequence
    return undefined
  }

  /** Whether it was taken and is not settled. */
  isOpen(sequence: number): boolean {
    return this.#open.has(sequence)
  }

  /** Passes over a sequence that is not routed to the lane. */
  skip(sequence: number, isRouted = false): void {
    this.position = sequence
    if (isRouted) this.#newest = sequence
  }

  /** Takes a sequence; false when it was settled before a restart. */
  take(sequence: number): boolean {
    this.position = sequence
    this.previous = this.#newest
    this.#newest = sequence
    const before = this.#settledBefore[0]
    if (before !== undefined) {
      if (sequence > before[1]) {
        this.#settledBefore = this.#settledBefore.filter(([, to]) => to >= sequence)
      }
      const next = this.#settledBefore[0]
      if (next !== undefined && sequence >= next[0]) return false
    }
    this.#open.add(sequence)
    return true
  }

  /** False when it was not open. */
  settle(sequence: number): boolean {
    return this.#open.delete(sequence)
  }

  /** The cursor to store: everything below the lowest open sequence, and the settled ranges above it. */
  cursor(): Cursor {
    const lowest = this.oldest
    if (lowest === undefined) return { sequence: this.position, settled: this.#unread() }
    const settled: Array<readonly [number, number]> = []
    let next = lowest
    for (const sequence of this.#open) {
      if (sequence > next) settled.push([next, sequence - 1])
      next = sequence + 1
    }
    if (next <= this.position) settled.push([next, this.position])
    return { sequence: lowest - 1, settled: settled.concat(this.#unread()) }
  }

  #unread(): ReadonlyArray<readonly [number, number]> {
    return this.#settledBefore
      .filter(([, to]) => to > this.position)
      .map(([from, to]) => [Math.max(from, this.position + 1), to] as const)
  }
}
