/**
 * The backlogs of a log's lanes. Idle lanes cost nothing, however many there are, because no code iterates over
 * them.
 */
import type { LaneInfo } from "../LaneInfo.ts"
import type { Cursor } from "../Settlement.ts"
import { Backlog } from "./Backlog.ts"

/** The cursors of idle lanes move to the end of the log after this many events or milliseconds. */
export const passAfter = 10_000
const passEvery = 60_000

/** Decides when the cursors of idle lanes must move to the end: a search and a start begin at the lowest cursor. */
export class Passing {
  #last = { end: 0, at: Number.NEGATIVE_INFINITY }

  /** `now` is monotonic, in milliseconds. If the result is true, the next interval starts here. */
  isDue(end: number, now: number): boolean {
    if (end < this.#last.end + passAfter && now < this.#last.at + passEvery) return false
    this.#last = { end, at: now }
    return true
  }
}

export class Backlogs extends Map<string, Backlog> {
  /** Returns the name of a lane that begins. */
  nameOf: (lane: string) => string = (lane) => lane
  /** All lanes that are not idle. A lane joins when it may hold something, and leaves when an iteration finds it idle. */
  readonly #holding = new Set<Backlog>()

  override set(lane: string, backlog: Backlog): this {
    backlog.onHolding = () => this.#holding.add(backlog)
    this.#holding.add(backlog)
    return super.set(lane, backlog)
  }

  /** Returns the backlog of a lane. A lane that isn't known yet begins at the cursor. */
  begun(lane: string, cursor: Cursor, pausedFor = 0): Backlog {
    const known = this.get(lane)
    if (known !== undefined) return known
    const backlog = new Backlog(lane, cursor, pausedFor)
    backlog.name = this.nameOf(lane)
    this.set(lane, backlog)
    return backlog
  }

  /** Returns all lanes by name. The cursors of idle lanes are at the head. */
  infos(readFrom: number, head: number): ReadonlyArray<LaneInfo> {
    const idle = new Set(this.behind(readFrom, head))
    const passed = { cursor: { sequence: head, settled: [] } }
    return [...this.values()]
      .map((backlog) => ({ ...backlog.info, ...(idle.has(backlog) && passed) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Limits a lane's events and bytes; see `limitBacklog` of `StreamLog.ts`. */
  limit(lane: string, max = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY): void {
    const backlog = this.get(lane)
    if (backlog !== undefined) Object.assign(backlog, { max, maxBytes })
  }

  /** Lanes that have pending events or dead letters, or are paused. */
  *holding(): Generator<Backlog> {
    for (const backlog of this.#holding) {
      if (this.get(backlog.lane) === backlog && backlog.isHolding) yield backlog
      else this.#holding.delete(backlog)
    }
  }

  /** Returns the sequences from `from` to `to` that any lane waits for, ascending. */
  pendingWithin(from: number, to: number): ReadonlyArray<number> {
    const found = new Set<number>()
    for (const backlog of this.holding()) {
      for (const sequence of backlog.pendingWithin(from, to)) found.add(sequence)
    }
    return [...found].sort((a, b) => a - b)
  }

  /** Reports whether any lane waits for an event from `from` to `to`. */
  isPending(from: number, to: number): boolean {
    for (const backlog of this.holding()) if (backlog.pendingWithin(from, to).length > 0) return true
    return false
  }

  /**
   * Returns lanes with cursors between `readFrom` and `head` that wait for no event in the log. A lane below
   * `readFrom` must read the log itself first.
   */
  behind(readFrom: number, head: number): ReadonlyArray<Backlog> {
    return [...this.values()].filter(
      ({ isWaiting, cursor }) => !isWaiting && readFrom <= cursor.sequence && cursor.sequence < head,
    )
  }
}
