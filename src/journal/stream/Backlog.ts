/**
 * An exact count of the events that are routed to a lane and not settled.
 *
 * Sequences routed to the lane are stored as runs, so a lane that gets every event costs one run, whatever its
 * backlog. The count follows the log: it includes only committed events.
 */
import type { LaneInfo, Mute, Paused } from "../LaneInfo.ts"
import type { Cursor } from "../Settlement.ts"
import { isPassed } from "./Cursors.ts"

/** Stored bytes, by webhook. */
export class WebhookBytes {
  total = 0
  readonly #of = new Map<string, number>()

  add(webhook: string, bytes: number): void {
    const now = this.of(webhook) + bytes
    this.total += bytes
    if (now === 0) this.#of.delete(webhook)
    else this.#of.set(webhook, now)
  }

  of(webhook: string): number {
    return this.#of.get(webhook) ?? 0
  }

  /** The webhook with the most bytes, or `undefined` if there are none. */
  get most(): string | undefined {
    return [...this.#of].sort(([, a], [, b]) => b - a)[0]?.[0]
  }
}

/** The backlog of one lane in one stream. */
export class Backlog {
  readonly lane: string
  /** The lane's name in status and messages, if it isn't `lane`. */
  name: string
  cursor: Cursor
  /** Appends are refused above this number of events. */
  max = Number.POSITIVE_INFINITY
  /**
   * Maximum bytes of its dead letters and waiting events. A webhook may use at most as many bytes as it leaves
   * free. So a webhook with a flood leaves space for all others.
   */
  maxBytes = Number.POSITIVE_INFINITY
  /** Milliseconds. */
  pausedFor = 0
  letterBytes = new WebhookBytes()
  mute: Mute | undefined
  /** Called when the lane may have something to hold, so that it may no longer be idle. */
  onHolding: () => void = () => {}
  readonly #retrying = new Set<number>()
  #returned = 0
  #paused: Paused = false
  #deadLetters = 0

  /** Ascending runs of routed sequences above the cursor, both ends included. */
  #runs: Array<{ from: number; to: number }> = []
  #start = 0
  #above = 0
  #inRanges = 0
  /** Waiting events with their bytes. Filled only if bytes are limited. */
  #waiting: Array<readonly [sequence: number, bytes: number, webhook: string]> = []
  readonly #waitingBytes = new WebhookBytes()

  constructor(lane: string, cursor: Cursor, pausedFor = 0) {
    this.lane = lane
    this.name = lane
    this.cursor = cursor
    this.pausedFor = pausedFor
  }

  /** Returns a backlog of the same events under another name of the lane. */
  renamed(lane: string): Backlog {
    const renamed = new Backlog(lane, this.cursor, this.pausedFor)
    renamed.#runs = this.#runs.slice(this.#start)
    renamed.#above = this.#above
    renamed.#inRanges = this.#inRanges
    for (const sequence of this.#retrying) renamed.#retrying.add(sequence)
    return renamed
  }

  get info(): LaneInfo {
    const { name, cursor, retrying, returned, deadLetters, size, oldest, paused, mute } = this
    const deadLetterBytes = this.letterBytes.total
    return {
      ...{ name, cursor, retrying: retrying.size, returned, deadLetters, deadLetterBytes },
      ...{ backlog: size, oldest, paused },
      ...(mute !== undefined && { mute }),
    }
  }

  /** Events that wait for a retry. */
  get retrying(): ReadonlySet<number> {
    return this.#retrying
  }

  get paused(): Paused {
    return this.#paused
  }

  set paused(paused: Paused) {
    this.#paused = paused
    this.onHolding()
  }

  /** Number of replayed dead letters that the lane has not taken up yet. They are not in `retrying`. */
  get returned(): number {
    return this.#returned
  }

  set returned(count: number) {
    this.#returned = count
    this.onHolding()
  }

  get deadLetters(): number {
    return this.#deadLetters
  }

  set deadLetters(count: number) {
    this.#deadLetters = count
    this.onHolding()
  }

  /** Records that an event waits for a retry. */
  retries(sequence: number): void {
    this.#retrying.add(sequence)
    this.onHolding()
  }

  /** Records that an event no longer waits for a retry. */
  endRetry(sequence: number): void {
    this.#retrying.delete(sequence)
  }

  endRetries(): void {
    this.#retrying.clear()
  }

  /** False while the lane is idle: it has no waiting events and no dead letters, and isn't paused. */
  get isHolding(): boolean {
    return this.isWaiting || this.#retrying.size + this.#returned + this.#deadLetters > 0 || this.#paused !== false
  }

  /** Number of events in the log above the cursor that aren't settled, plus retries. */
  get size(): number {
    return this.#above - this.#inRanges + this.#retrying.size + this.#returned
  }

  /** Reports whether the lane waits for events in the log. */
  get isWaiting(): boolean {
    return this.#above > this.#inRanges
  }

  /** The lowest sequence of unsettled events in the log and of retries, or 0 if there are none. */
  get oldest(): number {
    let oldest = this.#oldestInLog
    for (const sequence of this.#retrying) oldest = Math.min(oldest, sequence)
    return oldest === Number.POSITIVE_INFINITY ? 0 : oldest
  }

  get #oldestInLog(): number {
    for (let index = this.#start; index < this.#runs.length; index++) {
      const { from, to } = this.#runs[index] ?? { from: 1, to: 0 }
      let sequence = from
      for (const [first, last] of this.cursor.settled) {
        if (first <= sequence && sequence <= last) sequence = last + 1
      }
      if (sequence <= to) return sequence
    }
    return Number.POSITIVE_INFINITY
  }

  /**
   * Returns why the lane accepts no more events from a webhook; empty if it does. The string is the same as
   * long as the reason lasts, because refusals are counted by it.
   */
  whyFull(webhook: string, size = this.size): string {
    if (size >= this.max) {
      return `The sink ${this.name} has reached its maximum backlog of ${this.max} waiting events. See \`relay lanes list\`.`
    }
    if (this.maxBytes === Number.POSITIVE_INFINITY) return ""
    const free = this.maxBytes - this.letterBytes.total - this.#waitingBytes.total
    const own = this.letterBytes.of(webhook) + this.#waitingBytes.of(webhook)
    if (own < free) return ""
    return `The webhook ${webhook} has its share of the ${Math.floor(this.maxBytes / 1024)} KiB that ${this.name} may have: the rest is reserved for other webhooks. See \`relay dlq list --sink ${this.name}\`; replay or drop them.`
  }

  /** Adds an event that was committed for this lane, or found in the log at the start. Sequences must ascend. */
  routed(sequence: number, bytes = 0, webhook = ""): void {
    if (sequence <= this.cursor.sequence) return
    if (this.maxBytes < Number.POSITIVE_INFINITY) {
      this.#waiting.push([sequence, bytes, webhook])
      this.#waitingBytes.add(webhook, bytes)
    }
    const last = this.#start < this.#runs.length ? this.#runs[this.#runs.length - 1] : undefined
    if (last !== undefined && last.to >= sequence) return
    if (last?.to === sequence - 1) last.to = sequence
    else this.#runs.push({ from: sequence, to: sequence })
    this.#above++
    this.onHolding()
  }

  /** Moves the cursor. */
  settle(cursor: Cursor): void {
    this.cursor = cursor
    const passed = this.#waiting.findIndex(([sequence]) => sequence > cursor.sequence)
    for (const [, bytes, webhook] of this.#waiting.splice(0, passed === -1 ? this.#waiting.length : passed)) {
      this.#waitingBytes.add(webhook, -bytes)
    }
    for (;;) {
      const run = this.#runs[this.#start]
      if (run === undefined || run.from > cursor.sequence) break
      if (run.to > cursor.sequence) {
        this.#above -= cursor.sequence + 1 - run.from
        run.from = cursor.sequence + 1
        break
      }
      this.#above -= run.to - run.from + 1
      this.#start++
    }
    if (this.#start > 1024 && this.#start * 2 > this.#runs.length) {
      this.#runs = this.#runs.slice(this.#start)
      this.#start = 0
    }
    this.recount()
  }

  /** Recounts the events in the settled ranges. Needed after a load; `settle` does it itself. */
  recount(): void {
    this.#inRanges = 0
    let index = this.#start
    for (const [from, to] of this.cursor.settled) {
      for (; index < this.#runs.length; index++) {
        const run = this.#runs[index]
        if (run === undefined || run.from > to) break
        this.#inRanges += Math.max(0, Math.min(to, run.to) - Math.max(from, run.from) + 1)
        if (run.to > to) break
      }
    }
  }

  /** Returns the sequences from `from` to `to`, both included, that are routed to the lane and not settled. */
  pendingWithin(from: number, to: number): ReadonlyArray<number> {
    if (to <= this.cursor.sequence) return []
    const found: Array<number> = []
    for (let index = this.#runFrom(from); index < this.#runs.length; index++) {
      const run = this.#runs[index]
      if (run === undefined || run.from > to) break
      for (let sequence = Math.max(run.from, from); sequence <= Math.min(run.to, to); sequence++) {
        if (this.isPending(sequence)) found.push(sequence)
      }
    }
    return found
  }

  /**
   * Returns the lowest sequence above `after` that is routed to the lane, settled or not, or `undefined` if
   * there is none.
   */
  nextAbove(after: number): number | undefined {
    const run = this.#runs[this.#runFrom(after + 1)]
    return run && Math.max(run.from, after + 1)
  }

  /** Returns the index of the first run that ends at or above `sequence`. */
  #runFrom(sequence: number): number {
    let low = this.#start
    let high = this.#runs.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#runs[middle]?.to ?? 0) < sequence) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Reports whether `sequence`, if it is routed to the lane, is not settled yet. */
  isPending(sequence: number): boolean {
    return !isPassed(this.cursor, sequence)
  }
}

/** The cursors of idle lanes move to the end of the log after this many events or milliseconds. */
const passAfter = 10_000
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

/**
 * The backlogs of a log's lanes. Idle lanes cost nothing, however many there are, because no code iterates over
 * them.
 */
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

  /**
   * Returns why one of the lanes of an event accepts no more events from its webhook; empty if all do. `sizeOf` counts
   * a lane's events elsewhere.
   */
  whyFull(lanes: ReadonlyArray<string>, webhook: string, sizeOf?: (lane: string) => number): string {
    for (const lane of lanes) {
      const why = this.get(lane)?.whyFull(webhook, sizeOf?.(lane)) ?? ""
      if (why !== "") return why
    }
    return ""
  }

  /** Limits a lane's events and bytes; see `limitBacklog` of `Journal.ts`. */
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

  /**
   * Returns the lanes that are probably idle at a start, by name. The backlogs were counted from routes, which have no
   * checksum. So the events above `after` are read once, for all of these lanes, and a lane with one of them isn't idle.
   * Returns `undefined` if there are too many: a lane that is further behind reads them itself.
   */
  probablyIdle(head: number): { readonly lanes: Map<string, Backlog>; readonly after: number } | undefined {
    const lanes = new Map(this.behind(0, head).map((backlog) => [backlog.lane, backlog]))
    const after = Math.min(...[...lanes.values()].map(({ cursor }) => cursor.sequence), head)
    return head - after > 2 * passAfter ? undefined : { lanes, after }
  }
}
