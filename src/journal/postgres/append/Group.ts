/** The events of one commit, with the keys that the database compares to find duplicates. */
import type { Event } from "../../../event/Event.ts"
import type { AppendExit } from "../../Journal.ts"
import { CommitBatch } from "../../stream/CommitBatch.ts"
import type { DuplicateKey } from "../../stream/DuplicateKey.ts"
import { Origin } from "../../stream/Record.ts"

/** The result of a group's commit. Places are positions in the group. */
export interface Stored {
  /** The sequence of its first event. It is 0 if nothing was stored, because all events were duplicates. */
  readonly first: number
  /** The timeline of the server that stored it. */
  readonly timeline: number
  readonly void: ReadonlyArray<number>
  /** Places of events whose id arrived earlier with other bytes. */
  readonly altered: ReadonlyArray<number>
}

/** A commit's events, with the keys of its deliveries. */
export class Group {
  readonly batch = new CommitBatch()
  /** The commit's identity. It is stored with the group's row, and each try has the same one. */
  commit = crypto.randomUUID()
  /** The keys of its deliveries, as the database compares them. `places` has the positions of their events. */
  readonly keys = {
    lo: [] as number[],
    hi: [] as number[],
    crc: [] as number[],
    places: [] as number[],
  }
  readonly #known = new Map<number, Array<number>>()
  readonly isVoid = new Set<number>()
  /** Set if the events were committed one by one and the database refused one. Such a group isn't reused. */
  refusal: AppendExit | undefined

  constructor() {
    this.clear()
  }

  /** Reports whether the group holds the same delivery, or another delivery with the same id and other bytes. */
  find({ hi, lo, bodyCrc }: DuplicateKey): "new" | "same" | "altered" {
    const { keys } = this
    const like = this.#known.get(lo | 0)?.filter((index) => keys.hi[index] === (hi | 0)) ?? []
    if (like.length === 0) return "new"
    return like.some((index) => keys.crc[index] === (bodyCrc | 0)) ? "same" : "altered"
  }

  add(event: Event, sinks: ReadonlyArray<string>, origin: Origin, key: DuplicateKey): number {
    const place = this.batch.entries.length
    if (origin === Origin.delivered) {
      const index = this.keys.lo.length
      const lo = key.lo | 0
      this.keys.lo.push(lo)
      this.keys.hi.push(key.hi | 0)
      this.keys.crc.push(key.bodyCrc | 0)
      this.keys.places.push(place)
      const known = this.#known.get(lo)
      if (known === undefined) this.#known.set(lo, [index])
      else known.push(index)
    }
    this.batch.add(event, sinks, origin, key)
    return place
  }

  clear(): void {
    this.batch.clear(0)
    this.commit = crypto.randomUUID()
    for (const list of Object.values(this.keys)) list.length = 0
    this.#known.clear()
    this.isVoid.clear()
  }
}
