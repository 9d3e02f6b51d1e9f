/**
 * Lanes on disk: cursors, parked events, dead letters.
 *
 * Every change is made inside a transaction of the caller's, and returns what
 * to do to the counts in memory once that is committed: a rolled-back change
 * never shows.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import type { Entry } from "../../event/Entry.ts"
import * as Pattern from "../../routing/Pattern.ts"
import type {
  Attempt,
  Cursor,
  DeadLetterQuery,
  LaneInfo,
  Retry,
  RetryChange,
  RetryEntries,
  Settlement,
  StoredDeadLetter,
  Tries,
} from "../Journal.ts"
import { keptAttempts } from "../Journal.ts"
import { Backlog } from "./Backlog.ts"
import { CursorRows, type Found } from "./CursorRows.ts"
import { decode, encode } from "./Record.ts"

/** Bodies that are read at a time, about. */
const readBytes = 4 * 1024 * 1024

/** Applied to the counts in memory after the commit. */
export type Committed = () => void

type Row = Record<string, SQLOutputValue>

const int = (value: unknown): number => Number(value)
const text = (value: unknown): string => String(value)
const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

/** What is kept of attempts; nothing where the disk has damaged it: that hides no event. */
const attemptsOf = (value: unknown): ReadonlyArray<Attempt> => {
  try {
    const parsed: unknown = JSON.parse(String(value))
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}

/** Splits `lake:42`; `undefined` when the text is no id of a dead letter. */
export const parseDeadLetterId = (id: string): { readonly lane: string; readonly sequence: number } | undefined => {
  const match = /^(.+):([1-9][0-9]{0,15})$/.exec(id)
  return match === null ? undefined : { lane: match[1] ?? "", sequence: Number(match[2]) }
}

/** For SQL. A query asks with one pattern, of row after row. */
const typeMatches = () => {
  let pattern = Pattern.make("**")
  return (source: SQLOutputValue, type: SQLOutputValue): number => {
    if (pattern.source !== source) pattern = Pattern.make(text(source))
    return pattern.matches(text(type)) ? 1 : 0
  }
}

export class LaneStore {
  readonly backlogs = new Map<string, Backlog>()
  /** The lanes as they were found at the start. */
  readonly found: Found

  private readonly rows: CursorRows
  private readonly sql
  private readonly find: (sequence: number) => Entry | undefined
  private readonly onUnreadable: (lane: string, sequence: number) => void
  /** A lane's cursor goes from one place to the next. */
  onMoved: (from: Cursor, to: Cursor) => void = () => {}
  onDropped: () => void = () => {}

  /** `find` brings an entry out of the log. */
  constructor(
    db: DatabaseSync,
    find: (sequence: number) => Entry | undefined,
    onUnreadable: (lane: string, sequence: number) => void,
  ) {
    this.find = find
    this.onUnreadable = onUnreadable
    this.rows = new CursorRows(db)
    db.function("type_matches", typeMatches())
    this.found = this.rows.find()
    if (!this.found.isListed && !this.found.damaged) this.rows.list()
    this.sql = {
      retryKeys: db.prepare("SELECT lane, sequence FROM retry_record"),
      retrying: db.prepare(
        `SELECT sequence, ifnull(key, '') AS key, ifnull(due, 0) AS due, ifnull(delay, 0) AS delay,
           ifnull(first_attempt_at, 0) AS first_attempt_at, ifnull(tried, 0) AS tried,
           CASE WHEN json_valid(attempts) THEN ifnull(attempts ->> '$[#-1].reason', '') ELSE '' END AS last_failure
         FROM retry_record LEFT JOIN retry USING (lane, sequence) WHERE lane = ? ORDER BY sequence`,
      ),
      retryRecord: db.prepare("SELECT record FROM retry_record WHERE lane = ? AND sequence = ?"),
      retryAttempts: db.prepare("SELECT attempts FROM retry WHERE lane = ? AND sequence = ?"),
      putRecord: db.prepare("INSERT OR IGNORE INTO retry_record (lane, sequence, record) VALUES (?, ?, ?)"),
      retry: db.prepare(
        `INSERT OR REPLACE INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      dropRecord: db.prepare("DELETE FROM retry_record WHERE lane = ? AND sequence = ?"),
      endRetry: db.prepare("DELETE FROM retry WHERE lane = ? AND sequence = ?"),
      nextRetry: db.prepare("SELECT sequence FROM retry_record WHERE lane = ? ORDER BY sequence LIMIT 1"),
      moveRecord: db.prepare("UPDATE OR IGNORE retry_record SET lane = ? WHERE lane = ? AND sequence = ?"),
      moveRetry: db.prepare(
        `UPDATE OR REPLACE retry SET lane = ?,
           first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE max(first_attempt_at + ?, 1) END
         WHERE lane = ? AND sequence = ?`,
      ),

      deadCounts: db.prepare("SELECT lane, count(*) AS count, sum(size) AS size FROM dead GROUP BY lane"),
      addDead: db.prepare(
        "INSERT INTO dead (lane, sequence, at, type, size, attempts, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      exhume: db.prepare("DELETE FROM dead WHERE lane = ? AND sequence = ? RETURNING size"),
      nextDead: db.prepare("SELECT sequence, size FROM dead WHERE lane = ? ORDER BY sequence LIMIT 1"),
      oneDead: db.prepare("SELECT lane, sequence, at, attempts, record FROM dead WHERE lane = ? AND sequence = ?"),
      dead: db.prepare(
        `SELECT lane, sequence, at, attempts, record FROM dead
         WHERE (?1 IS NULL OR lane = ?1) AND (?2 IS NULL OR type_matches(?2, type))
           AND (?3 IS NULL OR sequence < ?3 OR (sequence = ?3 AND lane < ?4))
         ORDER BY sequence DESC, lane DESC LIMIT ?5`,
      ),
      moveDead: db.prepare("UPDATE OR IGNORE dead SET lane = ? WHERE lane = ? AND sequence = ?"),
    }
    this.load()
  }

  /** Counts in memory as the tables have them; what is in the log is counted by who reads it. */
  private load(): void {
    for (const { name, cursor, paused, pausedFor } of this.found.rows) {
      const backlog = new Backlog(name, cursor)
      backlog.paused = paused
      backlog.pausedFor = pausedFor
      this.backlogs.set(name, backlog)
    }
    this.loadKept()
  }

  private loadKept(): void {
    for (const row of this.sql.retryKeys.iterate()) this.backlogs.get(text(row.lane))?.retrying.add(int(row.sequence))
    this.loadDeadCounts()
  }

  /** Lanes whose place is damaged begin again after `sequence`. */
  beginAgain(sequence: number): Committed {
    this.rows.repair(this.found, sequence)
    return () => {
      for (const name of this.found.lost) this.backlogs.set(name, new Backlog(name, { sequence, settled: [] }))
      this.loadKept()
    }
  }

  private loadDeadCounts(): void {
    for (const backlog of this.backlogs.values()) {
      backlog.deadLetters = 0
      backlog.deadLetterBytes = 0
    }
    for (const row of this.sql.deadCounts.all()) {
      const backlog = this.backlogs.get(text(row.lane))
      if (backlog === undefined) continue
      backlog.deadLetters = int(row.count)
      backlog.deadLetterBytes = int(row.size)
    }
  }

  /** Dead letters of lanes that are not known: their lane's name was altered. */
  strayed(): ReadonlyArray<string> {
    return this.sql.deadCounts
      .all()
      .map((row) => text(row.lane))
      .filter((lane) => !this.backlogs.has(lane))
  }

  /** Parked events of lanes that are not known: their lane's name was altered, so nobody can send them. */
  strayedRetries(): ReadonlyArray<{ readonly lane: string; readonly sequence: number }> {
    return this.sql.retryKeys
      .all()
      .map((row) => ({ lane: text(row.lane), sequence: int(row.sequence) }))
      .filter(({ lane }) => !this.backlogs.has(lane))
  }

  /** Gives a parked event up that can't be sent, and names it. */
  forget(lane: string, sequence: number): Committed {
    this.onUnreadable(lane, sequence)
    this.endRetry(lane, sequence)
    return () => this.backlogs.get(lane)?.retrying.delete(sequence)
  }

  private endRetry(lane: string, sequence: number): void {
    this.sql.dropRecord.run(lane, sequence)
    this.sql.endRetry.run(lane, sequence)
  }

  insert(name: string, cursor: number): void {
    this.rows.insert(name, cursor)
  }

  setPaused(name: string, paused: boolean): Committed {
    this.rows.setPaused(name, paused)
    return () => {
      const backlog = this.backlogs.get(name)
      if (backlog !== undefined) backlog.paused = paused
    }
  }

  /** Applies a lane's settlement. One for a lane that was dropped meanwhile is nothing. */
  settle(settlement: Settlement): Committed {
    const backlog = this.backlogs.get(settlement.lane)
    if (backlog === undefined) return () => {}
    const lane = settlement.lane
    const retrying: Array<number> = []
    const ended: Array<number> = [...settlement.endRetry]
    let dead = 0
    let deadBytes = 0
    for (const item of settlement.retry) if (this.putRetry(lane, item)) retrying.push(item.sequence)
    for (const sequence of settlement.endRetry) this.endRetry(lane, sequence)
    for (const item of settlement.deadLetter) {
      const own = this.sql.retryRecord.get(lane, item.sequence)
      const attempts = this.attempts(lane, item.sequence, item)
      if (own !== undefined) this.endRetry(lane, item.sequence)
      ended.push(item.sequence)
      const entry = own === undefined ? this.find(item.sequence) : decode(bytes(own.record), item.sequence)
      if (entry === undefined) {
        this.onUnreadable(lane, item.sequence)
        continue
      }
      const record = encode(entry)
      const before = this.sql.exhume.all(lane, item.sequence)[0]
      this.sql.addDead.run(lane, item.sequence, item.at, entry.event.type, record.length, attempts, record)
      dead += before === undefined ? 1 : 0
      deadBytes += record.length - int(before?.size ?? 0)
    }
    const cursor = this.advance(backlog.cursor, settlement.cursor)
    this.rows.move(lane, cursor, settlement.pausedFor)
    return () => {
      for (const sequence of retrying) backlog.retrying.add(sequence)
      for (const sequence of ended) backlog.retrying.delete(sequence)
      backlog.deadLetters += dead
      backlog.deadLetterBytes += deadBytes
      backlog.pausedFor = settlement.pausedFor
      this.onMoved(backlog.cursor, cursor)
      backlog.settle(cursor)
    }
  }

  /** Puts a dead letter there that another journal had. */
  addDeadLetter(lane: string, entry: Entry, at: number, attempts: ReadonlyArray<Attempt>): Committed {
    const record = encode(entry)
    this.sql.addDead.run(lane, entry.sequence, at, entry.event.type, record.length, JSON.stringify(attempts), record)
    const size = record.length
    return () => {
      const backlog = this.backlogs.get(lane)
      if (backlog === undefined) return
      backlog.deadLetters++
      backlog.deadLetterBytes += size
    }
  }

  /** A cursor never moves back: what was settled stays settled. */
  private advance(from: Cursor, to: Cursor): Cursor {
    return to.sequence < from.sequence ? from : to
  }

  /** What is kept of an event's attempts, with those that failed since it was parked. */
  private attempts(lane: string, sequence: number, tries: Tries): string {
    const before = this.sql.retryAttempts.get(lane, sequence)?.attempts
    return JSON.stringify(keptAttempts(before === undefined ? [] : attemptsOf(before), tries))
  }

  private putRetry(lane: string, item: RetryChange): boolean {
    const { sequence, key, due, delay, firstAttemptAt, tried } = item
    if (!this.backlogs.get(lane)?.retrying.has(sequence)) {
      const entry = this.find(sequence)
      if (entry === undefined) {
        this.onUnreadable(lane, sequence)
        return false
      }
      this.sql.putRecord.run(lane, sequence, encode(entry))
    }
    const attempts = this.attempts(lane, sequence, item)
    this.sql.retry.run(lane, sequence, key, due, delay, firstAttemptAt, tried, attempts)
    return true
  }

  /** The parked events of a lane, in order. */
  retries(lane: string): ReadonlyArray<Retry> {
    return this.sql.retrying.all(lane).map((row) => ({
      sequence: int(row.sequence),
      key: text(row.key),
      due: int(row.due),
      delay: int(row.delay),
      firstAttemptAt: int(row.first_attempt_at),
      tried: int(row.tried),
      lastFailure: text(row.last_failure),
    }))
  }

  state(backlog: Backlog): LaneInfo {
    return {
      name: backlog.lane,
      cursor: backlog.cursor,
      retrying: backlog.retrying.size,
      deadLetters: backlog.deadLetters,
      deadLetterBytes: backlog.deadLetterBytes,
      backlog: backlog.size,
      paused: backlog.paused,
    }
  }

  /** Those that can't be read are named, and stand among the lost until the caller forgets them. */
  readRetries(lane: string, sequences: ReadonlyArray<number>): RetryEntries {
    const entries: Array<Entry> = []
    const lost: Array<number> = []
    let size = 0
    for (const sequence of sequences) {
      if (size >= readBytes) break
      const row = this.sql.retryRecord.get(lane, sequence)
      if (row === undefined) continue
      const entry = decode(bytes(row.record), sequence)
      if (entry === undefined) lost.push(sequence)
      else {
        entries.push(entry)
        size += entry.event.body.length
      }
    }
    return { entries, lost }
  }

  deadLetters(query: DeadLetterQuery): ReadonlyArray<StoredDeadLetter> {
    const before = query.before === undefined ? undefined : parseDeadLetterId(query.before)
    const letters: Array<StoredDeadLetter> = []
    let size = 0
    const rows = this.sql.dead.iterate(
      query.lane ?? null,
      query.type ?? null,
      before?.sequence ?? null,
      before?.lane ?? null,
      query.limit,
    )
    for (const row of rows) {
      const letter = this.readDead(row)
      if (letter === undefined) continue
      letters.push(letter)
      size += letter.entry.event.body.length
      if (size >= readBytes) break
    }
    return letters
  }

  private readDead(row: Row): StoredDeadLetter | undefined {
    const lane = text(row.lane)
    const sequence = int(row.sequence)
    const entry = decode(bytes(row.record), sequence)
    if (entry === undefined) {
      this.onUnreadable(lane, sequence)
      return undefined
    }
    const attempts = attemptsOf(row.attempts)
    return { id: `${lane}:${sequence}`, lane, sequence, at: int(row.at), attempts, entry }
  }

  /** The dead letter of an id; `undefined` when there is none, or when it can't be read. */
  deadLetter(id: string): StoredDeadLetter | undefined {
    const parsed = parseDeadLetterId(id)
    const row = parsed === undefined ? undefined : this.sql.oneDead.get(parsed.lane, parsed.sequence)
    return row === undefined ? undefined : this.readDead(row)
  }

  /** Takes a dead letter out; `undefined` when there is none. */
  removeDeadLetter(id: string): Committed | undefined {
    const parsed = parseDeadLetterId(id)
    const row = parsed === undefined ? undefined : this.sql.exhume.all(parsed.lane, parsed.sequence)[0]
    if (parsed === undefined || row === undefined) return undefined
    return () => this.countDead(parsed.lane, -1, -int(row.size))
  }

  /** Takes one parked event from a lane, and gives it to another if there is one; `undefined` when none is left. */
  takeRetry(from: string, to?: string): Committed | undefined {
    const row = this.sql.nextRetry.get(from)
    if (row === undefined) return undefined
    const sequence = int(row.sequence)
    // What the other lane has already is the same event: one of the two is enough.
    const moved = to !== undefined && int(this.sql.moveRecord.run(to, from, sequence).changes) > 0
    if (moved) this.sql.moveRetry.run(to, this.pausedFor(from) - this.pausedFor(to), from, sequence)
    else this.endRetry(from, sequence)
    return () => {
      this.backlogs.get(from)?.retrying.delete(sequence)
      if (moved) this.backlogs.get(to)?.retrying.add(sequence)
    }
  }

  /** The same of a dead letter. */
  takeDead(from: string, to?: string): Committed | undefined {
    const row = this.sql.nextDead.get(from)
    if (row === undefined) return undefined
    const sequence = int(row.sequence)
    const size = int(row.size)
    const moved = to !== undefined && int(this.sql.moveDead.run(to, from, sequence).changes) > 0
    if (!moved) this.sql.exhume.all(from, sequence)
    return () => {
      this.countDead(from, -1, -size)
      if (moved) this.countDead(to, 1, size)
    }
  }

  private pausedFor(lane: string): number {
    return this.backlogs.get(lane)?.pausedFor ?? 0
  }

  private countDead(lane: string, letters: number, size: number): void {
    const backlog = this.backlogs.get(lane)
    if (backlog === undefined) return
    backlog.deadLetters += letters
    backlog.deadLetterBytes += size
  }

  /** Forgets a lane that holds nothing any more. */
  drop(name: string): Committed {
    this.rows.delete(name)
    return () => {
      this.backlogs.delete(name)
      this.onDropped()
    }
  }

  /** Sequences from `from` to `to` that any lane waits for, ascending. */
  pendingWithin(from: number, to: number): ReadonlyArray<number> {
    const found = new Set<number>()
    for (const backlog of this.backlogs.values()) {
      for (const sequence of backlog.pendingWithin(from, to)) found.add(sequence)
    }
    return [...found].sort((a, b) => a - b)
  }

  /** The lowest cursor: no lane waits for anything up to it. */
  get passed(): number {
    let lowest = Number.POSITIVE_INFINITY
    for (const backlog of this.backlogs.values()) lowest = Math.min(lowest, backlog.cursor.sequence)
    return lowest
  }
}
