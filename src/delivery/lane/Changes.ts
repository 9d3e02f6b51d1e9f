/** The parts of {@link Progress}: the events that are taken and not settled, and the decisions that are not stored. */
import type {
  AlertChange,
  Attempt,
  CountedEvent,
  Cursor,
  DeadLetter,
  DeliveredRange,
  Delivery,
  DroppedEvent,
  LateDelivery,
  RetryChange,
  Settlement,
  Tries,
  Wait,
} from "../../journal/Journal.ts"

/**
 * The events that a lane has taken from the log and not settled, and the cursor derived from them. Part of {@link
 * Progress}.
 *
 * Sequences are taken in ascending order, so the set's first element is the lowest open one. So computing the
 * cursor is cheap.
 */
export class Window {
  /** The highest sequence that was read, routed to the lane or not. */
  position: number
  /**
   * The sequence of the last event that was routed to the lane before the one taken last; 0 if there is none. That
   * event counts even if the lane skipped it.
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

/** Combines the attempts of an earlier and a later change. */
const joined = (earlier: Tries, later: Tries): Tries => {
  const kept = Math.max(0, earlier.failed.length - later.refunded)
  return {
    failed: [...earlier.failed.slice(0, kept), ...later.failed],
    refunded: earlier.refunded + Math.max(0, later.refunded - earlier.failed.length),
  }
}

/** A range that still grows: consecutive events of the lane that one attempt delivered. */
interface Range {
  readonly delivery: Delivery
  readonly from: number
  to: number
}

/**
 * The decisions of a lane that the journal has not stored. A later decision on an event replaces an earlier one, so
 * a settlement never contradicts itself. Part of {@link Progress}.
 */
export class Changes {
  #delivered: Array<Range> = []
  /** The delivered ranges of settlements that could not be stored. */
  #restored: ReadonlyArray<DeliveredRange> = []
  #late = new Map<number, LateDelivery>()
  #dropped: Array<DroppedEvent> = []
  #counted: Array<CountedEvent> = []
  /** By key, the newest state of each changed alert. */
  #alerts = new Map<string, AlertChange>()
  #retries = new Map<number, RetryChange>()
  #endedRetries = new Set<number>()
  #deadLetters = new Map<number, DeadLetter>()
  /** Dead letters of earlier settlements that now wait for a retry again. */
  #takenBack = new Map<number, Wait>()
  /** The number of settled events that the journal has not stored. A crash would send them again. */
  unstored = 0
  /** The cursor or its ranges differ from what is stored. */
  #moved = false
  #stored: { readonly cursor: number; readonly pausedFor: number }
  /** The settlement that is being stored: its retries, whether it ends any, and its share of `unstored`. */
  #storing:
    | { readonly retries: ReadonlySet<number>; readonly ended: ReadonlySet<number>; readonly settled: number }
    | undefined

  /** Starts from the cursor and the paused time that the journal has stored. */
  constructor(cursor: number, pausedFor: number) {
    this.#stored = { cursor, pausedFor }
  }

  /** The number of events in `unstored` that are not in the settlement being stored. */
  get unsubmitted(): number {
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

  /** Records a wait whose newest attempt is refunded. */
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

  /** Records an event that its first attempt delivered. `previous` is the sequence before it in the lane's log. */
  delivered(sequence: number, previous: number | undefined, delivery: Delivery): void {
    const last = this.#delivered.at(-1)
    if (last !== undefined && last.delivery === delivery && last.to === previous) last.to = sequence
    else this.#delivered.push({ delivery, from: sequence, to: sequence })
  }

  /** Records an event that was delivered after `attempts` attempts. Call it before `endRetry`. */
  late(sequence: number, attempts: number, delivery: Delivery): void {
    this.#late.set(sequence, { sequence, attempts, ...delivery, ...this.#tries(sequence) })
  }

  dropped(event: DroppedEvent): void {
    this.#dropped.push(event)
  }

  counted(event: CountedEvent): void {
    this.#counted.push(event)
  }

  alert(change: AlertChange): void {
    this.#alerts.set(change.key, change)
  }

  /** Forgets an event that the journal reported as lost. */
  forget(sequence: number): void {
    this.#retries.delete(sequence)
  }

  deadLetter(sequence: number, last: Attempt): void {
    const tries = this.#tries(sequence, last)
    this.#retries.delete(sequence)
    this.#deadLetters.set(sequence, { sequence, at: last.at, ...tries })
  }

  /** Makes a dead letter wait for a retry again. */
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

  /** Reports whether the event's wait for a retry has ended and the journal has not stored this. */
  ends(sequence: number): boolean {
    return this.#hasEnded(sequence) || this.#storing?.ended.has(sequence) === true
  }

  #hasEnded(sequence: number): boolean {
    return this.#endedRetries.has(sequence) || this.#deadLetters.has(sequence)
  }

  /** Reports whether the event's wait for a retry differs from the one on disk. */
  isRetrying(sequence: number): boolean {
    const isChanged = this.#retries.has(sequence) || this.#takenBack.has(sequence)
    return isChanged || this.#storing?.retries.has(sequence) === true
  }

  /** Reports whether any waits on disk have already ended here. */
  get isEnding(): boolean {
    return (this.#storing?.ended.size ?? 0) > 0 || this.#endsAny
  }

  get #endsAny(): boolean {
    return this.#endedRetries.size + this.#deadLetters.size > 0
  }

  /** Returns all changes with the current cursor, or `undefined` if there are none to store. */
  take(lane: string, cursor: Cursor, pausedFor: number): Settlement | undefined {
    const isSame = cursor.sequence === this.#stored.cursor && pausedFor === this.#stored.pausedFor
    const waits = this.#retries.size + this.#takenBack.size + this.#alerts.size
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
      dropped: this.#dropped,
      counted: this.#counted,
      alerts: [...this.#alerts.values()],
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
    this.#dropped = []
    this.#counted = []
    this.#alerts = new Map()
    this.#retries = new Map()
    this.#takenBack = new Map()
    this.#endedRetries = new Set()
    this.#deadLetters = new Map()
    this.#stored = { cursor: cursor.sequence, pausedFor }
    this.#moved = false
    return settlement
  }

  /** Called when the last taken settlement is on disk. */
  stored(): void {
    this.unstored -= this.#storing?.settled ?? 0
    this.#storing = undefined
  }

  /** Takes back a settlement that could not be stored. Its changes go into the next one. */
  restore(settlement: Settlement): void {
    this.#storing = undefined
    for (const retry of settlement.retry) {
      const { sequence } = retry
      const [retrying, dead] = [this.#retries.get(sequence), this.#deadLetters.get(sequence)]
      const late = this.#late.get(sequence)
      if (retrying !== undefined) this.#retries.set(sequence, { ...retrying, ...joined(retry, retrying) })
      else if (dead !== undefined) this.#deadLetters.set(sequence, { ...dead, ...joined(retry, dead) })
      else if (late !== undefined) this.#late.set(sequence, { ...late, ...joined(retry, late) })
      else if (!this.#hasEnded(sequence)) this.#retries.set(sequence, retry)
    }
    this.#restored = [...settlement.delivered, ...this.#restored]
    this.#dropped = [...settlement.dropped, ...this.#dropped]
    this.#counted = [...settlement.counted, ...this.#counted]
    for (const change of settlement.alerts) if (!this.#alerts.has(change.key)) this.#alerts.set(change.key, change)
    for (const late of settlement.late) this.#late.set(late.sequence, late)
    for (const sequence of settlement.endRetry) if (!this.#retries.has(sequence)) this.#endedRetries.add(sequence)
    for (const letter of settlement.deadLetter) {
      const { sequence, failed, refunded } = letter
      const wait = this.#takenBack.get(sequence)
      if (wait === undefined) this.#deadLetters.set(sequence, letter)
      else this.#retries.set(sequence, { ...wait, failed, refunded })
      this.#takenBack.delete(sequence)
    }
    for (const wait of settlement.takeBack) this.#takenBack.set(wait.sequence, wait)
    this.#moved = true
  }
}
