/**
 * The events that a lane holds in memory and may send. It forms batches in order. If
 * order is kept by key, two batches with the same key are never in flight together.
 *
 * Events of one key may share a batch, because a sink sends a batch in order. An
 * event whose key is in flight waits for that batch to end. Muted events that are
 * sent together are a batch of their own.
 */
import type { Entry } from "../../event/Event.ts"
import type { Mute } from "../../journal/LaneInfo.ts"

const mutePrefix = "#muted:"

/** Maximum number of events in one message. */
export const maxMuted = 1_000
/** Milliseconds after the first event of a message was collected until the message is sent. */
export const collectMutedFor = 2_000

/**
 * After a mute has ended by itself, its events are sent as one message or dropped. Events that are sent together
 * wait in the retry queue under a key of their own, so a restart doesn't separate them. Reports whether the event
 * was received during the mute. An operator's replay is never muted.
 */
export const muteCovers = ({ from, until }: Mute, { event, replayed }: Entry): boolean =>
  !replayed && from <= event.receivedAt && event.receivedAt < until

/** Returns the key of the events that are sent together. `key` is their order key, or empty if the lane keeps no order. */
export const muteKey = ({ until }: Mute, key: string): string => `${mutePrefix}${until}:${key}`

/** Returns the key of alerts' messages that quiet hours delay and that are sent together. */
export const quietKey = (key: string): string => `${mutePrefix}quiet:${key}`

/** Returns the key without the part that says that its events are sent together. */
export const ownKeyOf = (key: string): string => key.replace(/^#muted:[^:]*:/, "")

/** Reports whether events with this key are sent together after a mute or quiet hours. */
export const isMuteKey = (key: string): boolean => key.startsWith(mutePrefix)

export interface Item {
  readonly entry: Entry
  /** The order key; empty if the lane keeps no order or the event has no key. */
  readonly key: string
  /** The sequence of the event before it in the lane's log; absent for a retry. */
  readonly previous?: number
}

export interface Limits {
  readonly events: number
  readonly bytes: number
  /** The sink is probed: take the next event, not the same one again. */
  readonly probing: boolean
  /** Reports whether the event goes in a batch of its own. */
  readonly isIsolated: (sequence: number) => boolean
  /** Predicates of events to avoid. The first predicate that doesn't exclude all events is used. */
  readonly avoids?: ReadonlyArray<(item: Item) => boolean> | undefined
}

interface Choice extends Limits {
  readonly avoid?: ((item: Item) => boolean) | undefined
}

/** The last arguments of {@link Queue.next}. */
type Rest = [isBehind: (item: Item) => boolean, wait: (item: Item) => void]

const bySequence = (a: Item, b: Item) => a.entry.sequence - b.entry.sequence

export class Queue {
  /** Reports whether all events of a key are one message, such as a digest. */
  readonly #isOneMessage: (key: string) => boolean
  #fresh: Array<Item> = []
  #retries: Array<Item> = []
  /** By key in flight: the events that wait for it. */
  readonly #blocked = new Map<string, Array<Item>>()
  /** Monotonic milliseconds when the oldest fresh event arrived, or the last batch was taken. */
  fillingSince = 0
  #retryTurn = false
  /** The first sequence of the last batch of fresh events, and of the last batch of retries. */
  #lastFresh = 0
  #lastRetry = 0

  constructor(isOneMessage: (key: string) => boolean) {
    this.#isOneMessage = isOneMessage
  }

  get size(): number {
    return this.#fresh.length + this.#retries.length
  }

  get retries(): number {
    return this.#retries.length
  }

  get fresh(): number {
    return this.#fresh.length
  }

  /** Bytes of the bodies of the fresh events. */
  get freshBytes(): number {
    return this.#fresh.reduce((sum, { entry }) => sum + entry.event.body.length, 0)
  }

  get first(): Item | undefined {
    return this.#fresh[0]
  }

  add(item: Item, now: number): void {
    if (this.size === 0) this.fillingSince = now
    this.#fresh.push(item)
  }

  addRetry(item: Item): void {
    this.#retries.push(item)
  }

  /** Reports whether a batch with an event of this key is in flight. */
  isInFlight(key: string): boolean {
    return this.#blocked.has(key)
  }

  /** Removes and returns the oldest fresh events. */
  takeOldest(limit: number): ReadonlyArray<Item> {
    return this.#fresh.splice(0, limit)
  }

  /**
   * Returns the next batch. Retries and fresh events take turns. `isBehind` reports whether an earlier event of the key
   * waits for a retry. `wait` is called with each event that must wait behind one.
   */
  next(
    limits: Limits,
    now: number,
    isBehind: (item: Item) => boolean,
    wait: (item: Item) => void,
  ): ReadonlyArray<Item> {
    this.fillingSince = now
    const avoid = limits.avoids?.find((avoid) => this.#has(avoid))
    this.#retryTurn = this.#isRetryTurn(avoid)
    const choice: Choice = avoid === undefined ? limits : { ...limits, avoid }
    // Retries and fresh events each have their own position. With a shared one, two bad events would take turns and no
    // good event would be tried.
    if (this.#retries.length > 0 && (this.#retryTurn || this.#fresh.length === 0)) {
      const batch = this.#choose(this.#retries, choice, limits.probing ? this.#lastRetry : 0, isBehind, wait)
      this.#lastRetry = batch[0]?.entry.sequence ?? 0
      if (batch.length > 0) return batch
    }
    const batch = this.#choose(this.#fresh, choice, limits.probing ? this.#lastFresh : 0, isBehind, wait)
    this.#lastFresh = batch[0]?.entry.sequence ?? 0
    return batch
  }

  #has(avoid: (item: Item) => boolean): boolean {
    return [this.#retries, this.#fresh].some((queue) => queue.some((item) => !avoid(item)))
  }

  #isRetryTurn(avoid: Choice["avoid"]): boolean {
    if (avoid !== undefined) {
      const [retries, fresh] = [this.#retries, this.#fresh].map((queue) => queue.some((item) => !avoid(item)))
      if (retries !== fresh) return retries === true
    }
    return !this.#retryTurn
  }

  /** Called when a batch has ended. Frees its keys and puts its unsettled events back in order. */
  ended(items: ReadonlyArray<Item>, back: ReadonlyArray<Item>): void {
    if (back.length === 0 && this.#blocked.size === 0) return
    const ready = [...back]
    if (this.#blocked.size > 0) {
      for (const { key } of items) {
        const waiting = this.#blocked.get(key)
        if (waiting === undefined) continue
        this.#blocked.delete(key)
        ready.push(...waiting)
      }
    }
    if (ready.length > 0) this.#fresh = [...ready, ...this.#fresh].sort(bySequence)
  }

  /** Chooses events after the last one sent, or from the start of the queue. Avoided events are chosen last. */
  #choose(queue: Array<Item>, choice: Choice, after: number, ...rest: Rest): ReadonlyArray<Item> {
    const batch = this.#fill(queue, choice, after, ...rest)
    if (batch.length > 0 || queue.length === 0) return batch
    if (after > 0) {
      const first = this.#fill(queue, choice, 0, ...rest)
      if (first.length > 0) return first
    }
    return choice.avoid === undefined ? batch : this.#choose(queue, { ...choice, avoid: undefined }, after, ...rest)
  }

  #fill(queue: Array<Item>, limits: Choice, after: number, ...[isBehind, wait]: Rest): ReadonlyArray<Item> {
    const batch: Array<Item> = []
    const passed: Array<Item> = []
    // Only events with a key count. If no order is kept, none has one.
    let passedKeys: Set<string> | undefined
    let own: Set<string> | undefined
    let together = ""
    let bytes = 0
    let index = 0
    for (; index < queue.length && (together !== "" || batch.length < limits.events); index++) {
      const item = queue[index] as Item
      const { key } = item
      const size = item.entry.event.body.length
      const isolated = limits.isIsolated(item.entry.sequence)
      const isFull = together === "" ? bytes + size > limits.bytes || this.#isOneMessage(key) : key !== together
      if (batch.length > 0 && (isolated || isFull)) break
      // A message is not divided.
      const isLater = together === "" && (item.entry.sequence <= after || limits.avoid?.(item) === true)
      if (isLater || (key !== "" && passedKeys?.has(key))) {
        passed.push(item)
        if (key !== "") passedKeys = (passedKeys ?? new Set()).add(key)
        continue
      }
      if (key !== "" && !own?.has(key)) {
        if (isBehind(item)) {
          wait(item)
          continue
        }
        const waiting = this.#blocked.get(key)
        if (waiting !== undefined) {
          waiting.push(item)
          continue
        }
        own = (own ?? new Set()).add(key)
        this.#blocked.set(key, [])
      }
      if (batch.length === 0 && this.#isOneMessage(key)) together = key
      batch.push(item)
      bytes += size
      if (!isolated) continue
      index += 1
      break
    }
    queue.splice(0, index, ...passed)
    return batch
  }
}
