/** The events of one commit: what the database must know of them to tell duplicates. */
import type { Event } from "../../../event/Event.ts"
import type { AppendExit } from "../../Journal.ts"
import { CommitBatch } from "../../stream/CommitBatch.ts"
import type { DuplicateKey } from "../../stream/DuplicateKey.ts"
import { Origin } from "../../stream/Record.ts"

/** The result of a group. Places are those in the group. */
export interface Stored {
  /** The sequence of its first event; 0 when all were known already, and nothing was stored. */
  readonly first: number
  /** The timeline of the server that stored it. */
  readonly timeline: number
  readonly void: ReadonlyArray<number>
  /** Their id came before with other bytes. */
  readonly altered: ReadonlyArray<number>
}

/** A commit's events, with the keys of its deliveries. */
export class Group {
  readonly batch = new CommitBatch()
  /** The identity of its commit: stored with its row, and the same for each try. */
  commit = crypto.randomUUID()
  /** The keys of its deliveries, as the database compares them; `places` says of which events. */
  readonly keys = {
    lo: [] as number[],
    hi: [] as number[],
    crc: [] as number[],
    places: [] as number[],
  }
  readonly #known = new Map<number, Array<number>>()
  readonly isVoid = new Set<number>()
  /** Set if its events were committed one by one and the database refused one. Such a group is not filled again. */
  refusal: AppendExit | undefined

  constructor() {
    this.clear()
  }

  /** Whether it holds a delivery of this key: the same, or one with other bytes. */
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
