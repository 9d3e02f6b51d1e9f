/**
 * Counts delivered events that are newer than an event of the same key that a replay
 * sends. A sink with `order: "key"` then gets the older event last.
 *
 * Its work is bounded: it holds a limited number of keys and searches a limited number
 * of events. The count is a lower bound if it stops early.
 */
import { Effect } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import type { Event } from "../../event/Event.ts"
import { orUndefined } from "../../event/Tolerance.ts"
import { orderKey } from "../../formats/Template.ts"
import type { Archive, EventQuery } from "../../journal/Archive.ts"
import { nextQuery } from "../../journal/EventQuery.ts"
import type { JournalError } from "../../journal/Journal.ts"
import type { Newer } from "./ReplayReport.ts"

/** Limits for each sink: keys, replayed events that are remembered, and events that are searched. */
const most = { keys: 10_000, replayed: 100_000, searched: 20_000 } as const
const pageSize = 256

interface Place {
  readonly sequence: number
  readonly receivedAt: number
}

const isOlder = (one: Place, other: Place): boolean =>
  one.receivedAt < other.receivedAt || (one.receivedAt === other.receivedAt && one.sequence < other.sequence)

/** The replayed events of a sink. */
class Replayed {
  /** The oldest event of each key. */
  readonly oldest = new Map<string, Place>()
  readonly sequences = new Set<number>()
  isWhole = true
  readonly #keyOf: ReturnType<typeof orderKey>

  constructor(config: LaneConfig) {
    this.#keyOf = orderKey(config)
  }

  /** Returns the event's key, or an empty text if it has none. */
  keyOf(sequence: number, event: Event): string {
    return orUndefined(() => this.#keyOf({ sequence, event, sinks: [], replayed: false })) ?? ""
  }

  add(sequence: number, event: Event): void {
    const key = this.keyOf(sequence, event)
    if (key === "") return
    const place = { sequence, receivedAt: event.receivedAt }
    const before = this.oldest.get(key)
    if ((before === undefined && this.oldest.size === most.keys) || this.sequences.size === most.replayed) {
      this.isWhole = false
      return
    }
    this.sequences.add(sequence)
    if (before === undefined || isOlder(place, before)) this.oldest.set(key, place)
  }

  isOvertaken(sequence: number, event: Event): boolean {
    if (this.sequences.has(sequence)) return false
    const oldest = this.oldest.get(this.keyOf(sequence, event))
    return oldest !== undefined && isOlder(oldest, { sequence, receivedAt: event.receivedAt })
  }
}

export class NewerEvents {
  /** By sink. */
  readonly #replayed: ReadonlyMap<string, Replayed>

  constructor(sinks: ReadonlyArray<LaneConfig>) {
    const ordered = sinks.filter(({ order }) => order === "key")
    this.#replayed = new Map(ordered.map((config) => [config.name, new Replayed(config)]))
  }

  /** Reports whether any sink keeps an order, so that the events' bodies are needed. */
  get isNeeded(): boolean {
    return this.#replayed.size > 0
  }

  /** Notes an event that is replayed to these sinks. */
  add(sequence: number, event: Event, sinks: ReadonlyArray<string>): void {
    for (const sink of sinks) this.#replayed.get(sink)?.add(sequence, event)
  }

  /** Counts the newer events of each sink. `searched` is the maximum number of events to search for each. */
  readonly count = Effect.fnUntraced(function* (
    this: NewerEvents,
    archive: Pick<Archive["Service"], "events">,
    searched: number = most.searched,
  ): Effect.fn.Return<ReadonlyArray<Newer>, JournalError> {
    const found: Array<Newer> = []
    for (const [sink, replayed] of this.#replayed) {
      if (replayed.oldest.size === 0) continue
      const { count, isWhole } = yield* countAt(archive, sink, replayed, searched)
      if (count > 0) found.push({ sink, count, ...(!(isWhole && replayed.isWhole) && { atLeast: true }) })
    }
    return found
  })
}

const countAt = Effect.fnUntraced(function* (
  archive: Pick<Archive["Service"], "events">,
  sink: string,
  replayed: Replayed,
  searched: number,
): Effect.fn.Return<{ readonly count: number; readonly isWhole: boolean }, JournalError> {
  const since = Math.min(...[...replayed.oldest.values()].map(({ receivedAt }) => receivedAt))
  let query: EventQuery = { sink, outcome: "delivered", since, bodies: true, limit: pageSize }
  let count = 0
  for (let looked = 0; looked < searched; ) {
    const page = yield* archive.events(query)
    for (const { sequence, origin, event, body } of page.events) {
      if (origin === "delivered" && body !== undefined && replayed.isOvertaken(sequence, { ...event, body })) count++
    }
    looked += page.looked
    if (page.next === undefined) return { count, isWhole: true }
    query = nextQuery(query, page.next)
  }
  return { count, isWhole: false }
})
