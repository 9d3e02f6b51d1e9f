/**
 * Which deliveries were seen before: (webhook name, event id), or the body
 * itself where there is no id, within a window by age and count.
 *
 * **Promise.** Within the window a delivery with the same key and the same
 * bytes is found. The same key with other bytes is not a duplicate: it is kept,
 * and counted, because only its sender knows what it means. Older than the
 * window, or beyond its count, nothing is found.
 *
 * **Gotcha.** Keys are 64-bit hashes and stand beside a checksum of the body:
 * a false hit needs both to collide. The hashes lie in the log, so the function
 * that makes them can't change without a migration.
 *
 * A ring in order of arrival (16 bytes an entry) and an open-addressed index
 * into it; both are plain typed arrays, so a million entries cost no garbage
 * collection, and memory is only touched as it fills.
 */
import { createHash } from "node:crypto"
import type { Event } from "../event/Event.ts"

export type Found = "new" | "pending" | "seen"

/** Fields of a ring entry. */
const hi = 0
const lo = 1
const body = 2
const at = 3
const width = 4

export class Duplicates {
  /** The same key came again with other bytes. */
  altered = 0
  /** The key that `find` last looked for; `add` keeps it. */
  keyHi = 0
  keyLo = 0

  private readonly ring: Uint32Array
  /** Ring position plus one; zero is empty. */
  private readonly index: Int32Array
  private readonly mask: number
  /** Entries are numbered for ever; `oldest <= n < next` are in the window, from `pending` on not committed. */
  private oldest = 0
  private pending = 0
  private next = 0

  private readonly capacity: number
  private readonly ageSeconds: number

  /** `age` in milliseconds. The count has a floor, so that one commit always fits. */
  constructor(options: { readonly count: number; readonly age: number }) {
    this.capacity = Math.max(1024, Math.ceil(options.count))
    this.ageSeconds = Math.max(0, Math.ceil(options.age / 1000))
    this.ring = new Uint32Array(this.capacity * width)
    const slots = 2 ** Math.ceil(Math.log2(this.capacity * 2))
    this.index = new Int32Array(slots)
    this.mask = slots - 1
  }

  /** How many are remembered. */
  get size(): number {
    return this.next - this.oldest
  }

  /** Looks a delivery up. `altered` grows when its key is known with other bytes only. */
  find(event: Event, bodyCrc: number): Found {
    this.hash(event)
    let altered = false
    for (let slot = this.keyLo & this.mask; ; slot = (slot + 1) & this.mask) {
      const position = (this.index[slot] ?? 0) - 1
      if (position < 0) break
      const field = position * width
      if (this.ring[field + lo] !== this.keyLo || this.ring[field + hi] !== this.keyHi) continue
      if (this.expired(field, event.receivedAt)) continue
      if (this.ring[field + body] === bodyCrc) return this.isPending(position) ? "pending" : "seen"
      altered = true
    }
    if (altered) this.altered++
    return "new"
  }

  /** Remembers what `find` just looked for, as part of the commit to come. */
  add(bodyCrc: number, receivedAt: number): void {
    this.insert(this.keyHi, this.keyLo, bodyCrc, receivedAt)
  }

  /** Remembers what the log holds, at start. */
  restore(keyHi: number, keyLo: number, bodyCrc: number, receivedAt: number): void {
    this.insert(keyHi, keyLo, bodyCrc, receivedAt)
    this.pending = this.next
  }

  /** What was added is on disk. */
  commit(): void {
    this.pending = this.next
  }

  /** What was added is not on disk: its keys are free again. */
  rollback(): void {
    while (this.next > this.pending) {
      this.next--
      this.remove(this.next % this.capacity)
    }
  }

  private insert(keyHi: number, keyLo: number, bodyCrc: number, receivedAt: number): void {
    const seconds = Math.floor(receivedAt / 1000)
    if (this.next - this.oldest === this.capacity) this.forgetOldest()
    // Two at a time, so the expired leave faster than new ones come, and no call pays for all of them.
    for (let i = 0; i < 2 && this.oldest < this.pending; i++) {
      if (!this.expired((this.oldest % this.capacity) * width, receivedAt)) break
      this.forgetOldest()
    }
    const position = this.next % this.capacity
    this.ring[position * width + hi] = keyHi
    this.ring[position * width + lo] = keyLo
    this.ring[position * width + body] = bodyCrc
    this.ring[position * width + at] = seconds
    let slot = keyLo & this.mask
    while (this.index[slot] !== 0) slot = (slot + 1) & this.mask
    this.index[slot] = position + 1
    this.next++
  }

  private expired(field: number, now: number): boolean {
    return Math.floor(now / 1000) - (this.ring[field + at] ?? 0) > this.ageSeconds
  }

  private isPending(position: number): boolean {
    const ahead = (position - (this.pending % this.capacity) + this.capacity) % this.capacity
    return ahead < this.next - this.pending
  }

  private forgetOldest(): void {
    this.remove(this.oldest % this.capacity)
    this.oldest++
    if (this.pending < this.oldest) this.pending = this.oldest
  }

  /** Takes a position out of the index and closes the hole, so that probing never has to skip graves. */
  private remove(position: number): void {
    let slot = (this.ring[position * width + lo] ?? 0) & this.mask
    while (this.index[slot] !== position + 1) slot = (slot + 1) & this.mask
    let hole = slot
    for (;;) {
      slot = (slot + 1) & this.mask
      const moved = (this.index[slot] ?? 0) - 1
      if (moved < 0) break
      const home = (this.ring[moved * width + lo] ?? 0) & this.mask
      // It may move back only if its home is not between the hole and itself.
      if (((slot - home) & this.mask) >= ((slot - hole) & this.mask)) {
        this.index[hole] = moved + 1
        hole = slot
      }
    }
    this.index[hole] = 0
  }

  /** Two 32-bit multiplicative hashes over webhook name and id, mixed at the end. */
  private hash(event: Event): void {
    const id = event.id === "" ? createHash("sha256").update(event.body).digest("base64") : event.id
    let a = 0x9e3779b9 ^ id.length
    let b = 0x85ebca6b ^ event.webhook.length
    for (let i = 0; i < event.webhook.length; i++) {
      const c = event.webhook.charCodeAt(i)
      a = Math.imul(a ^ c, 0x9e3779b1)
      b = Math.imul(b ^ c, 0x5f356495)
    }
    for (let i = 0; i < id.length; i++) {
      const c = id.charCodeAt(i)
      a = Math.imul(a ^ c, 0x9e3779b1)
      b = Math.imul(b ^ c, 0x5f356495)
    }
    a = Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ Math.imul(b ^ (b >>> 13), 0xc2b2ae35)
    b = Math.imul(b ^ (b >>> 16), 0x85ebca6b) ^ Math.imul(a ^ (a >>> 13), 0xc2b2ae35)
    this.keyLo = (a ^ (a >>> 15)) >>> 0
    this.keyHi = (b ^ (b >>> 15)) >>> 0
  }
}
