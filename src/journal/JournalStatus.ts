/** The journal's condition and its figures, for `status`, alerts and metrics. */

/** Percentages of a journal's maximum size. An operator gets a notice when its bytes exceed one. */
export const fillingMarks = [95, 80, 50] as const

/**
 * A journal's condition. Figures over all streams include other relays' streams, as those relays last reported
 * them.
 */
export interface JournalStatus {
  /**
   * `unavailable` while its server doesn't answer. `red` if events were lost or a file was moved aside, until
   * an operator acknowledges it.
   */
  readonly health: "starting" | "ok" | "unavailable" | "full" | "broken" | "red"
  /** The problem and how to solve it; empty if there is none. */
  readonly message: string
  /** Unacknowledged losses, one per line, and when the first was found, in epoch milliseconds. */
  readonly alarm: { readonly lines: ReadonlyArray<string>; readonly since: number }
  /** Number of entries appended to all streams. With one stream this is the highest sequence. */
  readonly head: number
  /** `head + 1` minus the number of events kept. With one stream this is the lowest sequence. */
  readonly first: number
  readonly usedBytes: number
  readonly maxBytes: number
  /** The highest mark that `usedBytes` has exceeded, in percent of `maxBytes`. */
  readonly filling: 0 | (typeof fillingMarks)[number]
  readonly counters: JournalCounters
  readonly engine: EngineStatus
}

/** Figures that only some engines have. `status` shows those that are present. */
export interface EngineStatus {
  readonly path?: string
  readonly walBytes?: number
  readonly freeDiskBytes?: number
  /** When its server last answered, in epoch milliseconds; absent while it answers. */
  readonly answeredAt?: number
}

/** Counts since the start, which only grow. */
export interface JournalCounters {
  readonly appended: number
  readonly duplicates: number
  /** Events with the webhook and id of an earlier event, but other bytes. Each is kept as an event of its own. */
  readonly altered: number
  readonly commits: number
  /** Time spent in commits, in milliseconds. */
  readonly commitMillis: number
}
