/**
 * Recognizes deliveries that were received before, by webhook name and event id, or by the body if there is no
 * id. It remembers them within a window of age and count.
 *
 * **Guarantee.** Within the window, a delivery with the same key and the same bytes is found. The same key with
 * different bytes isn't a duplicate: only its sender knows what it means, so it is kept and marked as altered.
 * Beyond the window nothing is found. Hostile senders (many bodies under one id, ids with equal hashes) cost no
 * more than others.
 *
 * **Gotcha.** Keys are 64-bit hashes, stored next to a checksum of the body. A false match needs both to
 * collide.
 *
 * Entries are in a ring in order of arrival (16 bytes an entry), with an open-addressed index. Both are plain
 * typed arrays, so that garbage collection doesn't scan their entries. They start small and double up to the
 * window, because a larger heap makes the collector wait for more garbage. The newest entry of a key is its
 * anchor, which the index finds by the key alone. It finds all others by key and body. So each entry is found
 * immediately, and needs only one slot.
 */
import { randomInt } from "node:crypto"
import type { Event } from "../../../event/Event.ts"
import { type DuplicateKey, hashInto } from "../../stream/DuplicateKey.ts"

/** `pending` is in the open batch; `seen` is committed. */
export type Found = "new" | "pending" | "seen"

/** Fields of a ring entry. */
const hi = 0
const lo = 1
const body = 2
const at = 3
const width = 4

/** Stored in place of the time if the event is lost. Then a repetition isn't a duplicate. */
const lost = 0xffff_ffff

/** Initial capacity. */
const initialCapacity = 64

/** Mixes every bit of a number into all of them (the end of MurmurHash3). */
const mixed = (value: number): number => {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return bits ^ (bits >>> 16)
}

/** The window of remembered deliveries, in memory. */
export class Duplicates {
  /** True if the last delivery that `find` called new has the key of a known one, but other bytes. */
  isAltered = false
  /** The last key that `find` searched for. `add` stores it. */
  keyHi = 0
  keyLo = 0

  /** The entry with number n is at n modulo the capacity. */
  #ring: Uint32Array
  /** The ring position plus one. It is negative if the entry is indexed by key and body; zero is an empty slot. */
  #index: Int32Array
  #mask: number
  /** Random at each start, so that no sender can know which ids collide. */
  readonly #seedLo = randomInt(2 ** 32)
  readonly #seedHi = randomInt(2 ** 32)
  readonly #seedBody = randomInt(2 ** 32)
  /**
   * Entries are numbered. Those with `oldest <= n < next` are in the window; those from `pending` on aren't
   * committed.
   */
  #oldest = 0
  #pending = 0
  #next = 0
  /** For each pending entry, the number of the anchor that it replaced, or -1. */
  readonly #displaced: Array<number> = []

  /** The free slot at which the search for a missing anchor ended. */
  #vacant = 0

  #capacity = initialCapacity
  readonly #maxCapacity: number
  readonly #ageSeconds: number

  /** `age` is in milliseconds. The count has a minimum, so that one commit always fits. */
  constructor(options: { readonly count: number; readonly age: number }) {
    this.#maxCapacity = Math.max(1024, Math.ceil(options.count))
    this.#ageSeconds = Math.max(0, Math.ceil(options.age / 1000))
    this.#ring = new Uint32Array(this.#capacity * width)
    this.#index = new Int32Array(this.#capacity * 2)
    this.#mask = this.#index.length - 1
  }

  /** Number of remembered deliveries. */
  get size(): number {
    return this.#next - this.#oldest
  }

  find(event: Event, bodyCrc: number): Found {
    hashInto(this, event)
    this.isAltered = false
    const anchor = this.#anchorOf(this.keyHi, this.keyLo)
    if (anchor < 0) return "new"
    const position = this.#locate(anchor, bodyCrc, event.receivedAt)
    if (position >= 0) return this.#isPending(position) ? "pending" : "seen"
    this.isAltered = !this.#expired(anchor, event.receivedAt)
    return "new"
  }

  /** Remembers the delivery of the last `find`, as part of the next commit. */
  add(bodyCrc: number, receivedAt: number): void {
    this.#insert(this.keyHi, this.keyLo, bodyCrc, receivedAt)
  }

  /** Remembers a delivery from the log, at the start. */
  restore({ hi, lo, bodyCrc }: DuplicateKey, receivedAt: number): void {
    this.#insert(hi, lo, bodyCrc, receivedAt)
    this.commit()
  }

  /** Forgets a delivery whose event is lost, so that it is new if it is sent again. */
  forget({ hi, lo, bodyCrc }: DuplicateKey): void {
    const anchor = this.#anchorOf(hi, lo)
    const position = anchor < 0 ? -1 : this.#locate(anchor, bodyCrc, 0)
    if (position >= 0) this.#ring[position * width + at] = lost
  }

  /** Marks all added deliveries as durable. */
  commit(): void {
    this.#pending = this.#next
    this.#displaced.length = 0
  }

  /** Forgets all deliveries added since the last commit, because they aren't on disk. */
  rollback(): void {
    while (this.#next > this.#pending) {
      this.#next--
      const position = this.#next % this.#capacity
      const before = this.#displaced.pop() ?? -1
      if (before < this.#oldest) {
        this.#remove(position)
      } else {
        const anchor = before % this.#capacity
        this.#free(this.#slotOf(-anchor - 1))
        this.#index[this.#slotOf(position + 1)] = anchor + 1
      }
    }
  }

  #insert(keyHi: number, keyLo: number, bodyCrc: number, receivedAt: number): void {
    // Two at a time, so that expired entries leave faster than new ones arrive, and no call pays for all of
    // them.
    for (let i = 0; i < 2 && this.#oldest < this.#pending; i++) {
      if (!this.#expired(this.#oldest % this.#capacity, receivedAt)) break
      this.#forgetOldest()
    }
    if (this.size === this.#capacity) {
      if (this.#capacity < this.#maxCapacity) this.#grow()
      else this.#forgetOldest()
    }
    const position = this.#next % this.#capacity
    const anchor = this.#anchorOf(keyHi, keyLo)
    this.#ring[position * width + hi] = keyHi
    this.#ring[position * width + lo] = keyLo
    this.#ring[position * width + body] = bodyCrc
    this.#ring[position * width + at] = Math.floor(receivedAt / 1000)
    if (anchor < 0) {
      this.#displaced.push(-1)
      this.#index[this.#vacant] = position + 1
    } else {
      // An entry's time is never before the time of its key's previous entry. So when an anchor has expired, all
      // entries of its key have.
      const before = this.#ring[anchor * width + at] ?? 0
      if (before !== lost) this.#ring[position * width + at] = Math.max(before, Math.floor(receivedAt / 1000))
      this.#displaced.push(this.#next - ((position - anchor + this.#capacity) % this.#capacity))
      this.#index[this.#slotOf(anchor + 1)] = position + 1
      this.#place(-anchor - 1)
    }
    this.#next++
  }

  /** Doubles the capacity, at most to the window. The last time takes about 20 ms for a million. */
  #grow(): void {
    const capacity = this.#capacity
    this.#capacity = Math.min(capacity * 2, this.#maxCapacity)
    // One after the other, so that the old ring is garbage when the index is made. If a collection finds both
    // old and both new arrays, the heap grows by as much again.
    this.#growRing(capacity)
    this.#growIndex(capacity)
  }

  #growRing(capacity: number): void {
    const ring = this.#ring
    this.#ring = new Uint32Array(this.#capacity * width)
    // In runs, because either ring may end within.
    const first = this.#oldest % capacity
    const from = this.#oldest % this.#capacity
    for (let moved = 0; moved < capacity; ) {
      const [old, now] = [(first + moved) % capacity, (from + moved) % this.#capacity]
      const length = Math.min(capacity - moved, capacity - old, this.#capacity - now)
      this.#ring.set(ring.subarray(old * width, (old + length) * width), now * width)
      moved += length
    }
  }

  #growIndex(capacity: number): void {
    const index = this.#index
    this.#index = new Int32Array(2 ** Math.ceil(Math.log2(this.#capacity * 2)))
    this.#mask = this.#index.length - 1
    const first = this.#oldest % capacity
    const from = this.#oldest % this.#capacity
    for (const value of index) {
      if (value === 0) continue
      const position = (from + ((Math.abs(value) - 1 - first + capacity) % capacity)) % this.#capacity
      this.#place(value > 0 ? position + 1 : -position - 1)
    }
  }

  #expired(position: number, now: number): boolean {
    const seconds = this.#ring[position * width + at] ?? 0
    return seconds === lost || Math.floor(now / 1000) - seconds > this.#ageSeconds
  }

  #isPending(position: number): boolean {
    const ahead = (position - (this.#pending % this.#capacity) + this.#capacity) % this.#capacity
    return ahead < this.#next - this.#pending
  }

  #forgetOldest(): void {
    this.#remove(this.#oldest % this.#capacity)
    this.#oldest++
    if (this.#pending < this.#oldest) this.#pending = this.#oldest
  }

  /** Returns a key's anchor: the ring position of its newest entry, or -1 if there is none. */
  #anchorOf(keyHi: number, keyLo: number): number {
    for (let slot = this.#keyHash(keyHi, keyLo) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const value = this.#index[slot] ?? 0
      if (value === 0) {
        this.#vacant = slot
        return -1
      }
      const field = (value - 1) * width
      if (value > 0 && this.#ring[field + lo] === keyLo && this.#ring[field + hi] === keyHi) return value - 1
    }
  }

  /** Returns the ring position of the entry with the anchor's key and this body, or -1 if none counts. */
  #locate(anchor: number, bodyCrc: number, now: number): number {
    const own = anchor * width
    if (this.#ring[own + body] === bodyCrc && !this.#expired(anchor, now)) return anchor
    const keyHi = this.#ring[own + hi] ?? 0
    const keyLo = this.#ring[own + lo] ?? 0
    for (let slot = this.#pairHash(keyHi, keyLo, bodyCrc) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const value = this.#index[slot] ?? 0
      if (value === 0) return -1
      const field = (-value - 1) * width
      if (value > 0 || this.#ring[field + body] !== bodyCrc) continue
      if (this.#ring[field + lo] !== keyLo || this.#ring[field + hi] !== keyHi) continue
      if (!this.#expired(-value - 1, now)) return -value - 1
    }
  }

  /**
   * Removes a position from the index. If it is an anchor, it is the last of its key, because the others were
   * older.
   */
  #remove(position: number): void {
    const field = position * width
    const isAnchor = this.#anchorOf(this.#ring[field + hi] ?? 0, this.#ring[field + lo] ?? 0) === position
    this.#free(this.#slotOf(isAnchor ? position + 1 : -position - 1))
  }

  #place(value: number): void {
    let slot = this.#homeOf(value)
    while (this.#index[slot] !== 0) slot = (slot + 1) & this.#mask
    this.#index[slot] = value
  }

  #slotOf(value: number): number {
    let slot = this.#homeOf(value)
    while (this.#index[slot] !== value) slot = (slot + 1) & this.#mask
    return slot
  }

  /** Empties a slot and closes the gap, so that a search meets no deleted slots. */
  #free(from: number): void {
    let slot = from
    let gap = from
    for (;;) {
      slot = (slot + 1) & this.#mask
      const moved = this.#index[slot] ?? 0
      if (moved === 0) break
      // It may move back only if its home is not between the gap and itself.
      if (((slot - this.#homeOf(moved)) & this.#mask) >= ((slot - gap) & this.#mask)) {
        this.#index[gap] = moved
        gap = slot
      }
    }
    this.#index[gap] = 0
  }

  /** The first slot in the search for an index entry's event. */
  #homeOf(value: number): number {
    const field = (Math.abs(value) - 1) * width
    const keyHi = this.#ring[field + hi] ?? 0
    const keyLo = this.#ring[field + lo] ?? 0
    const hash = value > 0 ? this.#keyHash(keyHi, keyLo) : this.#pairHash(keyHi, keyLo, this.#ring[field + body] ?? 0)
    return hash & this.#mask
  }

  #keyHash(keyHi: number, keyLo: number): number {
    return mixed(mixed(keyLo ^ this.#seedLo) + (keyHi ^ this.#seedHi))
  }

  #pairHash(keyHi: number, keyLo: number, bodyCrc: number): number {
    return mixed(this.#keyHash(keyHi, keyLo) + (bodyCrc ^ this.#seedBody))
  }
}
