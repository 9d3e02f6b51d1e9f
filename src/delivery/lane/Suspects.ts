/**
 * Events that met what is said of the whole sink (away, throttled, wrongly
 * configured), and whether it was the sink's fault or theirs.
 *
 * **Rule.** Failing once proves nothing. An event that fails so again although
 * others have passed since is at fault itself: it is charged an attempt, and
 * the sink is not blamed. From then on it is charged each time, unless others
 * fail as well and nothing passes: nobody is charged while the sink is away.
 *
 * Of a batch that failed as a whole nobody knows whose fault it was: its events
 * are set apart, and go one by one until each has shown what it is.
 */
export class Suspects {
  #passes = 0
  /** Others than those that were found at fault have failed, and nothing has passed since. */
  #mayBeAway = false
  /** How many attempts had passed when the event last failed. */
  readonly #failedAt = new Map<number, number>()
  readonly #found = new Set<number>()
  readonly #apart = new Set<number>()

  /** An attempt passed, or a part of it. */
  passed(): void {
    this.#passes += 1
    this.#mayBeAway = false
  }

  failed(sequence: number): void {
    this.#failedAt.set(sequence, this.#passes)
    if (!this.#found.has(sequence)) this.#mayBeAway = true
  }

  /** Whether others have passed since the event failed; or it was found so before, and no others fail. */
  isAtFault(sequence: number): boolean {
    if (this.#found.has(sequence) && !this.#mayBeAway) return true
    return (this.#failedAt.get(sequence) ?? this.#passes) < this.#passes
  }

  /** It was charged. */
  found(sequence: number): void {
    this.#found.add(sequence)
  }

  wasFound(sequence: number): boolean {
    return this.#found.has(sequence)
  }

  setApart(sequence: number): void {
    this.#apart.add(sequence)
  }

  readonly isApart = (sequence: number): boolean => this.#apart.size > 0 && this.#apart.has(sequence)

  /** The event has ended. */
  ended(sequence: number): void {
    if (this.#failedAt.size + this.#apart.size === 0) return
    this.#failedAt.delete(sequence)
    this.#found.delete(sequence)
    this.#apart.delete(sequence)
  }
}
