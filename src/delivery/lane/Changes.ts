/**
 * What a lane has decided and not yet handed to the journal. A later decision
 * on an event replaces an earlier one, so a settlement never contradicts itself.
 */
import type { Attempt, Cursor, DeadLetter, RetryChange, Settlement, Tries, Wait } from "../../journal/Journal.ts"

/** The attempts of an earlier change and a later one, as one change. */
const joined = (earlier: Tries, later: Tries): Tries => {
  const kept = Math.max(0, earlier.failed.length - later.refunded)
  return {
    failed: [...earlier.failed.slice(0, kept), ...later.failed],
    refunded: earlier.refunded + Math.max(0, later.refunded - earlier.failed.length),
  }
}

export class Changes {
  #retries = new Map<number, RetryChange>()
  /** Parked by the settlement that is being stored. */
  #storing: ReadonlySet<number> = new Set()
  /** The settlement that is being stored lets events go that were parked. */
  #ending = false
  #ended = new Set<number>()
  #deadLetters = new Map<number, DeadLetter>()
  #stored: number
  #moved = false
  /** Events settled that the journal does not know of: a crash would send them again. */
  unstored = 0
  #taken = 0

  /** `stored` is the cursor that the journal has. */
  constructor(stored: number) {
    this.#stored = stored
  }

  /** The cursor or its ranges are others than stored. */
  moved(): void {
    this.#moved = true
  }

  /** `last` is the attempt that leads to it, if one does. */
  retry(retrying: Wait, last?: Attempt): void {
    this.#ended.delete(retrying.sequence)
    this.#retries.set(retrying.sequence, { ...retrying, ...this.#tries(retrying.sequence, last) })
  }

  /** The same, with its newest attempt given back. */
  refund(retrying: Wait): void {
    const { failed, refunded } = this.#tries(retrying.sequence)
    const tries = failed.length > 0 ? { failed: failed.slice(0, -1), refunded } : { failed, refunded: refunded + 1 }
    this.#retries.set(retrying.sequence, { ...retrying, ...tries })
  }

  /** What the journal has yet to hear of an event's attempts. */
  #tries(sequence: number, last?: Attempt): Tries {
    const { failed = [], refunded = 0 } = this.#retries.get(sequence) ?? {}
    return { failed: last === undefined ? failed : [...failed, last], refunded }
  }

  endRetry(sequence: number): void {
    this.#retries.delete(sequence)
    this.#ended.add(sequence)
    this.unstored += 1
  }

  /** Nothing is to be said of an event any more. */
  forget(sequence: number): void {
    this.#retries.delete(sequence)
  }

  /** Whether the journal has yet to hear that a parked event is no longer. */
  ends(sequence: number): boolean {
    return this.#ended.has(sequence) || this.#deadLetters.has(sequence)
  }

  deadLetter(sequence: number, last: Attempt): void {
    const tries = this.#tries(sequence, last)
    this.#retries.delete(sequence)
    this.#deadLetters.set(sequence, { sequence, at: last.at, ...tries })
  }

  /** All of it, with the cursor as it is now; `undefined` when the journal has it all. */
  take(lane: string, cursor: Cursor, pausedFor: number): Settlement | undefined {
    const decided = this.#retries.size + this.#ended.size + this.#deadLetters.size > 0
    if (!decided && !this.#moved && cursor.sequence === this.#stored) return undefined
    const settlement: Settlement = {
      lane,
      cursor,
      retry: [...this.#retries.values()],
      endRetry: [...this.#ended],
      deadLetter: [...this.#deadLetters.values()],
      pausedFor,
    }
    this.#storing = new Set(this.#retries.keys())
    this.#ending = this.#ended.size + this.#deadLetters.size > 0
    this.#retries = new Map()
    this.#ended = new Set()
    this.#deadLetters = new Map()
    this.#stored = cursor.sequence
    this.#moved = false
    this.#taken = this.unstored
    return settlement
  }

  /** Whether an event is parked otherwise than the disk says. */
  isRetrying(sequence: number): boolean {
    return this.#retries.has(sequence) || this.#storing.has(sequence)
  }

  /** Whether events that were parked have ended, and the disk does not say so. */
  get isEnding(): boolean {
    return this.#ending || this.#ended.size + this.#deadLetters.size > 0
  }

  /** The settlement that was taken last is on disk. */
  stored(): void {
    this.#storing = new Set()
    this.#ending = false
    this.unstored -= this.#taken
    this.#taken = 0
  }

  /** Takes back what could not be stored; it goes with the next settlement. */
  restore(settlement: Settlement): void {
    this.#storing = new Set()
    this.#ending = false
    const since = (sequence: number) => this.#ended.has(sequence) || this.#deadLetters.has(sequence)
    for (const one of settlement.retry) {
      const { sequence } = one
      const [retrying, dead] = [this.#retries.get(sequence), this.#deadLetters.get(sequence)]
      if (retrying !== undefined) this.#retries.set(sequence, { ...retrying, ...joined(one, retrying) })
      else if (dead !== undefined) this.#deadLetters.set(sequence, { ...dead, ...joined(one, dead) })
      else if (!since(sequence)) this.#retries.set(sequence, one)
    }
    for (const sequence of settlement.endRetry) if (!this.#retries.has(sequence)) this.#ended.add(sequence)
    for (const one of settlement.deadLetter) this.#deadLetters.set(one.sequence, one)
    this.#moved = true
  }
}
