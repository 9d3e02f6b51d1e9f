/** The journal's condition and its figures, for `status`, alerts and metrics. */

/** In percent of a journal's largest size: an operator is told when its bytes pass one. */
export const fillingMarks = [95, 80, 50] as const

/** A journal's condition. Figures over all streams count those of other relays as these reported them last. */
export interface JournalStatus {
  /** `unavailable` while its server does not answer; `red` until a person acknowledges it: events were lost, or a file was set aside. */
  readonly health: "starting" | "ok" | "unavailable" | "full" | "broken" | "red"
  /** The problem and what to do about it; empty when there is none. */
  readonly message: string
  /** Losses that nobody has acknowledged, one per line, and when the first was found (epoch milliseconds). */
  readonly alarm: { readonly lines: ReadonlyArray<string>; readonly since: number }
  /** Entries that were appended so far, in all streams: the highest sequence where there is one. */
  readonly head: number
  /** `head + 1` less the events that are kept: the lowest sequence where there is one stream. */
  readonly first: number
  readonly usedBytes: number
  readonly maxBytes: number
  /** The highest mark, in percent of `maxBytes`, that `usedBytes` has passed. */
  readonly filling: 0 | (typeof fillingMarks)[number]
  readonly counters: JournalCounters
  readonly engine: EngineStatus
}

/** Figures that only some engines have; `status` shows those that are there. */
export interface EngineStatus {
  readonly path?: string
  readonly walBytes?: number
  readonly freeDiskBytes?: number
  /** Epoch milliseconds at which its server answered last; absent while it answers. */
  readonly answeredAt?: number
}

/** Since the start; all of them only grow. */
export interface JournalCounters {
  readonly appended: number
  readonly duplicates: number
  /** Same webhook and event id as an earlier event, different bytes: kept as an event of its own. */
  readonly altered: number
  readonly commits: number
  /** Time spent in commits, in milliseconds. */
  readonly commitMillis: number
}
