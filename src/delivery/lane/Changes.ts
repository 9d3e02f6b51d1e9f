/**
 * Decisions of a lane that the journal does not know. A later decision on an
 * event replaces an earlier one, so a settlement never contradicts itself. Part
 * of {@link Progress}.
 */
import type {
  Attempt,
  Cursor,
  DeadLetter,
  DeliveredRange,
  Delivery,
  LateDelivery,
  RetryChange,
  Settlement,
  Tries,
  Wait,
} from "../../journal/Journal.ts"

/** The attempts of an earlier change and a later one, as one change. */
const joined = (earlier: Tries, later: Tries): Tries => {
  const kept = Math.max(0, earlier.failed.length - later.refunded)
  return {
    failed: [...earlier.failed.slice(0, kept), ...later.failed],
    refunded: earlier.refunded + Math.max(0, later.refunded - earlier.failed.length),
  }
}

/** A range while it grows: events of one attempt that follow one another in the lane. */
interface Range {
  readonly delivery: Delivery
  readonly from: number
  to: number
}

export class Changes {
  #delivered: Array<Range> = []
  /** The delivered ranges of settlements that could not be stored. */
  #restored: ReadonlyArray<DeliveredRange> = []
  #late = new Map<number, LateDelivery>()
  #retries = new Map<number, RetryChange>()
  #endedRetries = new Set<number>()
  #deadLetters = new Map<number, DeadLetter>()
  /** Dead letters of earlier settlements that wait for a retry again. */
  #takenBack = new Map<number, Wait>()
  /** Events settled that the journal does not know of: a crash would send them again. */
  unstored = 0
  /** The cursor or its ranges differ from what is stored. */
  #moved = false
  #stored: { readonly cursor: number; readonly pausedFor: number }
  /** The settlement that is being stored: its retries, whether it ends any, and its share of `unstored`. */
  #storing:
    | { readonly retries: ReadonlySet<number>; readonly ended: ReadonlySet<number>; readonly settled: number }
    | undefined

  /** The cursor and the time paused, as the journal has them. */
  constructor(cursor: number, pausedFor: number) {
    this.#stored = { cursor, pausedFor }
  }

  /** The part of `unstored` that is not in the settlement being stored. */
  get untold(): number {
    return this.unstored - (this.#storing?.settled ?? 0)
  }

  /** An event was settled. */
  settled(): void {
    this.#moved = true
    this.unstored += 1
  }

  /** `last` is the attempt that led to it, if there was one. */
  retry(wait: Wait, last?: Attempt): void {
    this.#endedRetries.delete(wait.sequence)
    this.#retries.set(wait.sequence, { ...wait, ...this.#tries(wait.sequence, last) })
  }

  /** The change with its newest attempt refunded. */
  refund(wait: Wait): void {
    const { failed, refunded } = this.#tries(wait.sequence)
    const tries = failed.length > 0 ? { failed: failed.slice(0, -1), refunded } : { failed, refunded: refunded + 1 }
    this.#retries.set(wait.sequence, { ...wait, ...tries })
  }

  endRetry(sequence: number): void {
    this.#retries.delete(sequence)
    this.#endedRetries.add(sequence)
    this.unstored += 1
  }

  /** An event was delivered by its first attempt; `previous` is the one before it in the lane's log. */
  delivered(sequence: number, previous: number | undefined, delivery: Delivery): void {
    const last = this.#delivered.at(-1)
    if (last !== undefined && last.delivery === delivery && last.to === previous) last.to = sequence
    else this.#delivered.push({ delivery, from: sequence, to: sequence })
  }

  /** An event was delivered by the last of so many attempts: called before its retry ends. */
  late(sequence: number, attempts: number, delivery: Delivery): void {
    this.#late.set(sequence, { sequence, attempts, ...delivery, ...this.#tries(sequence) })
  }

  /** The journal has lost the event and said so. */
  forget(sequence: number): void {
    this.#retries.delete(sequence)
  }

  deadLetter(sequence: number, last: Attempt): void {
    const tries = this.#tries(sequence, last)
    this.#retries.delete(sequence)
    this.#deadLetters.set(sequence, { sequence, at: last.at, ...tries })
  }

  /** A dead letter waits for a retry again. */
  takeBack(wait: Wait): void {
    const letter = this.#deadLetters.get(wait.sequence)
    if (letter === undefined) {
      this.#takenBack.set(wait.sequence, wait)
      return
    }
    const { failed, refunded } = letter
    this.#deadLetters.delete(wait.sequence)
    this.#retries.set(wait.sequence, { ...wait, failed, refunded })
  }

  /** An event's attempts that the journal has yet to store. */
  #tries(sequence: number, last?: Attempt): Tries {
    const { failed = [], refunded = 0 } = this.#retries.get(sequence) ?? {}
    return { failed: last === undefined ? failed : [...failed, last], refunded }
  }

  /** Whether the event's wait for a retry ended, and the journal has not stored that. */
  ends(sequence: number): boolean {
    return this.#hasEnded(sequence) || this.#storing?.ended.has(sequence) === true
  }

  #hasEnded(sequence: number): boolean {
    return this.#endedRetries.has(sequence) || this.#deadLetters.has(sequence)
  }

  /** Whether the event's wait for a retry is not on disk as it is here. */
  isRetrying(sequence: number): boolean {
    const isTold = this.#retries.has(sequence) || this.#takenBack.has(sequence)
    return isTold || this.#storing?.retries.has(sequence) === true
  }

  /** Whether waits for a retry have ended that are still on disk. */
  get isEnding(): boolean {
    return (this.#storing?.ended.size ?? 0) > 0 || this.#endsAny
  }

  get #endsAny(): boolean {
    return this.#endedRetries.size + this.#deadLetters.size > 0
  }

  /** All of it, with the cursor as it is now; `undefined` when the journal knows it all. */
  take(lane: string, cursor: Cursor, pausedFor: number): Settlement | undefined {
    const isSame = cursor.sequence === this.#stored.cursor && pausedFor === this.#stored.pausedFor
    const waits = this.#retries.size + this.#takenBack.size
    if (isSame && !this.#moved && !this.#endsAny && waits === 0) return undefined
    const settlement: Settlement = {
      lane,
      cursor,
      takeBack: [...this.#takenBack.values()],
      retry: [...this.#retries.values()],
      endRetry: [...this.#endedRetries],
      deadLetter: [...this.#deadLetters.values()],
      delivered: [...this.#restored, ...this.#delivered.map(({ delivery, from, to }) => ({ ...delivery, from, to }))],
      late: [...this.#late.values()],
      pausedFor,
    }
    this.#storing = {
      retries: new Set([...this.#retries.keys(), ...this.#takenBack.keys()]),
      ended: new Set([...this.#endedRetries, ...this.#deadLetters.keys()]),
      settled: this.unstored,
    }
    this.#delivered = []
    this.#restored = []
    this.#late = new Map()
    this.#retries = new Map()
    this.#takenBack = new Map()
    this.#endedRetries = new Set()
    this.#deadLetters = new Map()
    this.#stored = { cursor: cursor.sequence, pausedFor }
    this.#moved = false
    return settlement
  }

  /** The settlement that was taken last is on disk. */
  stored(): void {
    this.unstored -= this.#storing?.settled ?? 0
    this.#storing = undefined
  }

  /** Takes back what could not be stored; it goes with the next settlement. */
  restore(settlement: Settlement): void {
    this.#storing = undefined
    for (const one of settlement.retry) {
      const { sequence } = one
      const [retrying, dead] = [this.#retries.get(sequence), this.#deadLetters.get(sequence)]
      const late = this.#late.get(sequence)
      if (retrying !== undefined) this.#retries.set(sequence, { ...retrying, ...joined(one, retrying) })
      else if (dead !== undefined) this.#deadLetters.set(sequence, { ...dead, ...joined(one, dead) })
      else if (late !== undefined) this.#late.set(sequence, { ...late, ...joined(one, late) })
      else if (!this.#hasEnded(sequence)) this.#retries.set(sequence, one)
    }
    this.#restored = [...settlement.delivered, ...this.#restored]
    for (const one of settlement.late) this.#late.set(one.sequence, one)
    for (const sequence of settlement.endRetry) if (!this.#retries.has(sequence)) this.#endedRetries.add(sequence)
    for (const one of settlement.deadLetter) {
      const { sequence, failed, refunded } = one
      const wait = this.#takenBack.get(sequence)
      if (wait === undefined) this.#deadLetters.set(sequence, one)
      else this.#retries.set(sequence, { ...wait, failed, refunded })
      this.#takenBack.delete(sequence)
    }
    for (const one of settlement.takeBack) this.#takenBack.set(one.sequence, one)
    this.#moved = true
  }
}
