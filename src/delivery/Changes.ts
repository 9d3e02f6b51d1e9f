/**
 * What a lane has decided and not yet handed to the journal. A later decision
 * on an event replaces an earlier one, so a settlement never contradicts itself.
 */
import type { Attempt, Cursor, DeadLetter, Park, Settlement, Tries, Wait } from "../journal/Journal.ts"

/** The attempts of an earlier change and a later one, as one change. */
const joined = (earlier: Tries, later: Tries): Tries => {
  const kept = Math.max(0, earlier.failed.length - later.refunded)
  return {
    failed: [...earlier.failed.slice(0, kept), ...later.failed],
    refunded: earlier.refunded + Math.max(0, later.refunded - earlier.failed.length),
  }
}

export class Changes {
  #park = new Map<number, Park>()
  /** Parked by the settlement that is being stored. */
  #storing: ReadonlySet<number> = new Set()
  /** Events that were parked and that the settlement which is being stored lets go. */
  #ending: ReadonlySet<number> = new Set()
  #unpark = new Set<number>()
  #bury = new Map<number, DeadLetter>()
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
  park(parked: Wait, last?: Attempt): void {
    this.#unpark.delete(parked.sequence)
    this.#park.set(parked.sequence, { ...parked, ...this.#tries(parked.sequence, last) })
  }

  /** The same, with its newest attempt given back. */
  refund(parked: Wait): void {
    const { failed, refunded } = this.#tries(parked.sequence)
    const tries = failed.length > 0 ? { failed: failed.slice(0, -1), refunded } : { failed, refunded: refunded + 1 }
    this.#park.set(parked.sequence, { ...parked, ...tries })
  }

  /** What the journal has yet to hear of an event's attempts. */
  #tries(sequence: number, last?: Attempt): Tries {
    const { failed = [], refunded = 0 } = this.#park.get(sequence) ?? {}
    return { failed: last === undefined ? failed : [...failed, last], refunded }
  }

  unpark(sequence: number): void {
    this.#park.delete(sequence)
    this.#unpark.add(sequence)
    this.unstored += 1
  }

  /** Nothing is to be said of an event any more. */
  forget(sequence: number): void {
    this.#park.delete(sequence)
  }

  /** Whether the journal has yet to hear that a parked event is no longer. */
  ends(sequence: number): boolean {
    return this.#unpark.has(sequence) || this.#bury.has(sequence) || this.#ending.has(sequence)
  }

  bury(sequence: number, last: Attempt): void {
    const tries = this.#tries(sequence, last)
    this.#park.delete(sequence)
    this.#bury.set(sequence, { sequence, at: last.at, ...tries })
  }

  /** All of it, with the cursor as it is now; `undefined` when the journal has it all. */
  take(lane: string, cursor: Cursor, pausedFor: number): Settlement | undefined {
    const decided = this.#park.size + this.#unpark.size + this.#bury.size > 0
    if (!decided && !this.#moved && cursor.sequence === this.#stored) return undefined
    const settlement: Settlement = {
      lane,
      cursor,
      park: [...this.#park.values()],
      unpark: [...this.#unpark],
      bury: [...this.#bury.values()],
      pausedFor,
    }
    this.#storing = new Set(this.#park.keys())
    this.#ending = new Set([...this.#unpark, ...this.#bury.keys()])
    this.#park = new Map()
    this.#unpark = new Set()
    this.#bury = new Map()
    this.#stored = cursor.sequence
    this.#moved = false
    this.#taken = this.unstored
    return settlement
  }

  /** Whether an event is parked otherwise than the disk says. */
  isParking(sequence: number): boolean {
    return this.#park.has(sequence) || this.#storing.has(sequence)
  }

  /** Whether events that were parked have ended, and the disk does not say so. */
  get isEnding(): boolean {
    return this.#ending.size + this.#unpark.size + this.#bury.size > 0
  }

  /** The settlement that was taken last is on disk. */
  stored(): void {
    this.#storing = new Set()
    this.#ending = new Set()
    this.unstored -= this.#taken
    this.#taken = 0
  }

  /** Takes back what could not be stored; it goes with the next settlement. */
  restore(settlement: Settlement): void {
    this.#storing = new Set()
    this.#ending = new Set()
    const since = (sequence: number) => this.#unpark.has(sequence) || this.#bury.has(sequence)
    for (const one of settlement.park) {
      const { sequence } = one
      const [parked, dead] = [this.#park.get(sequence), this.#bury.get(sequence)]
      if (parked !== undefined) this.#park.set(sequence, { ...parked, ...joined(one, parked) })
      else if (dead !== undefined) this.#bury.set(sequence, { ...dead, ...joined(one, dead) })
      else if (!since(sequence)) this.#park.set(sequence, one)
    }
    for (const sequence of settlement.unpark) if (!this.#park.has(sequence)) this.#unpark.add(sequence)
    for (const one of settlement.bury) this.#bury.set(one.sequence, one)
    this.#moved = true
  }
}
