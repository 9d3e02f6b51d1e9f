/**
 * Counts the events that a replay sends, and those that it leaves out, by reason.
 * Its size does not depend on the number of events.
 */
import type { FoundEvent } from "../journal/Archive.ts"
import type { Replay } from "./ReplayApi.ts"

/** Limits on groups, because a sender may invent any number of types. Types beyond the limit are counted together. */
const most = { groups: 10_000, listed: 100, shown: 5 } as const

/** Why an event is left out. */
export type LeftOut = keyof Replay["leftOut"]

export class Summary {
  #count = 0
  #undelivered = 0
  #others = 0
  readonly #leftOut: Record<LeftOut, number> = { copies: 0, quarantined: 0, erased: 0, unrouted: 0, gone: 0 }
  /** Counts by sink and type. */
  readonly #groups = new Map<string, Map<string, number>>()
  #groupsInAll = 0
  readonly #removedSinks = new Map<string, number>()
  /** The events counted first, and those counted last. */
  readonly #ends: Array<Replay["first"][number]> = []
  readonly #isNewestFirst: boolean

  /** `isNewestFirst` means that events are counted in reverse order of sending. */
  constructor({ isNewestFirst = false } = {}) {
    this.#isNewestFirst = isNewestFirst
  }

  sent(found: Pick<FoundEvent, "sequence" | "event" | "deliveries">, sinks: ReadonlyArray<string>): void {
    const { sequence, event } = found
    const { id, type, accountId, receivedAt } = event
    this.#count++
    if (this.#ends.length === 2 * most.shown) this.#ends.splice(most.shown, 1)
    this.#ends.push({ sequence, id, type, accountId, receivedAt, sinks })
    for (const sink of sinks) this.#group(type, sink)
    // A dead letter is kept until an operator replays it, so the sink doesn't also receive it by itself.
    const isWaiting = found.deliveries.some(
      ({ sink, outcome }) => sinks.includes(sink) && (outcome === "pending" || outcome === "retrying"),
    )
    if (isWaiting) this.#undelivered++
  }

  leftOut(why: LeftOut): void {
    this.#leftOut[why]++
  }

  /** Counts an event that was routed to a sink that is not in the config. */
  removedSink(sink: string): void {
    this.#removedSinks.set(sink, (this.#removedSinks.get(sink) ?? 0) + 1)
  }

  #group(type: string, sink: string): void {
    const sinks = this.#groups.get(type) ?? new Map<string, number>()
    const count = sinks.get(sink)
    if (count === undefined && this.#groupsInAll >= most.groups) {
      this.#others++
      return
    }
    if (count === undefined) this.#groupsInAll++
    sinks.set(sink, (count ?? 0) + 1)
    this.#groups.set(type, sinks)
  }

  get counts(): Pick<
    Replay,
    "count" | "groups" | "others" | "first" | "last" | "undelivered" | "leftOut" | "removedSinks"
  > {
    const ends = this.#isNewestFirst ? this.#ends.toReversed() : this.#ends
    const groups = [...this.#groups]
      .flatMap(([type, sinks]) => [...sinks].map(([sink, count]) => ({ type, sink, count })))
      .toSorted((a, b) => b.count - a.count)
    return {
      count: this.#count,
      groups: groups.slice(0, most.listed),
      others: this.#others + groups.slice(most.listed).reduce((sum, { count }) => sum + count, 0),
      first: ends.slice(0, most.shown),
      last: ends.slice(most.shown),
      undelivered: this.#undelivered,
      leftOut: { ...this.#leftOut },
      removedSinks: [...this.#removedSinks].map(([sink, count]) => ({ sink, count })),
    }
  }
}
