/**
 * The events that a lane has taken from the log and not settled, and the cursor
 * derived from them. Part of {@link Progress}.
 *
 * Sequences are taken in ascending order, so the set's first element is the lowest
 * open one. So computing the cursor is cheap.
 */
import type { Cursor } from "../../journal/Journal.ts"

export class Window {
  /** The highest sequence that was read, routed to the lane or not. */
  position: number
  /**
   * The sequence of the event that was routed to the lane before the last one taken, whether or not it was taken
   * itself; 0 if there is none.
   */
  previous = 0
  #newest = 0
  readonly #open = new Set<number>()
  /** Ranges above the cursor that were settled before a restart and must not be sent again. */
  #settledBefore: ReadonlyArray<readonly [number, number]>

  constructor(cursor: Cursor) {
    this.position = cursor.sequence
    this.#settledBefore = cursor.settled
  }

  get size(): number {
    return this.#open.size
  }

  /** The lowest open sequence, or `undefined` if none is open. */
  get oldest(): number | undefined {
    for (const sequence of this.#open) return sequence
    return undefined
  }

  /** Reports whether the sequence was taken and is not settled. */
  isOpen(sequence: number): boolean {
    return this.#open.has(sequence)
  }

  /** Passes over a sequence that is not routed to the lane. */
  skip(sequence: number, isRouted = false): void {
    this.position = sequence
    if (isRouted) this.#newest = sequence
  }

  /** Takes a sequence. Returns false if it was settled before a restart. */
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

  /** Returns false if the sequence was not open. */
  settle(sequence: number): boolean {
    return this.#open.delete(sequence)
  }

  /** Returns the cursor to store: the sequence below the lowest open one, and the settled ranges above it. */
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
