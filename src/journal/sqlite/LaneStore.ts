/**
 * Lanes on disk: cursors, parked events, dead letters.
 *
 * Every change is made inside a transaction of the caller's, and returns what
 * to do to the counts in memory once that is committed: a rolled-back change
 * never shows.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import * as Pattern from "../../routing/Pattern.ts"
import type {
  Attempt,
  Cursor,
  DeadLetterQuery,
  Entry,
  LaneState,
  Park,
  Parked,
  ParkedEntries,
  Settlement,
  StoredDeadLetter,
  Tries,
} from "../Journal.ts"
import { keptAttempts } from "../Journal.ts"
import { Backlog } from "./Backlog.ts"
import { type Found, LaneRows } from "./CursorRows.ts"
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

export class LaneTable {
  readonly backlogs = new Map<string, Backlog>()
  /** The lanes as they were found at the start. */
  readonly found: Found

  private readonly rows: LaneRows
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
    this.rows = new LaneRows(db)
    db.function("type_matches", typeMatches())
    this.found = this.rows.find()
    if (!this.found.isListed && !this.found.damaged) this.rows.list()
    this.sql = {
      parkedKeys: db.prepare("SELECT lane, sequence FROM parked"),
      parked: db.prepare(
        `SELECT sequence, ifnull(key, '') AS key, ifnull(due, 0) AS due, ifnull(delay, 0) AS delay,
           ifnull(first_attempt_at, 0) AS first_attempt_at, ifnull(tried, 0) AS tried,
           CASE WHEN json_valid(attempts) THEN ifnull(attempts ->> '$[#-1].reason', '') ELSE '' END AS last_failure
         FROM parked LEFT JOIN retry USING (lane, sequence) WHERE lane = ? ORDER BY sequence`,
      ),
      parkedRecord: db.prepare("SELECT record FROM parked WHERE lane = ? AND sequence = ?"),
      parkedAttempts: db.prepare("SELECT attempts FROM retry WHERE lane = ? AND sequence = ?"),
      park: db.prepare("INSERT OR IGNORE INTO parked (lane, sequence, record) VALUES (?, ?, ?)"),
      retry: db.prepare(
        `INSERT OR REPLACE INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      unpark: db.prepare("DELETE FROM parked WHERE lane = ? AND sequence = ?"),
      endRetry: db.prepare("DELETE FROM retry WHERE lane = ? AND sequence = ?"),
      nextParked: db.prepare("SELECT sequence FROM parked WHERE lane = ? ORDER BY sequence LIMIT 1"),
      moveParked: db.prepare("UPDATE OR IGNORE parked SET lane = ? WHERE lane = ? AND sequence = ?"),
      moveRetry: db.prepare(
        `UPDATE OR REPLACE retry SET lane = ?,
           first_attempt_at = CASE first_attempt_at WHEN 0 THEN 0 ELSE max(first_attempt_at + ?, 1) END
         WHERE lane = ? AND sequence = ?`,
      ),

      deadCounts: db.prepare("SELECT lane, count(*) AS count, sum(size) AS size FROM dead GROUP BY lane"),
      bury: db.prepare(
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
    for (const row of this.sql.parkedKeys.iterate()) this.backlogs.get(text(row.lane))?.parked.add(int(row.sequence))
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
  strayedParked(): ReadonlyArray<{ readonly lane: string; readonly sequence: number }> {
    return this.sql.parkedKeys
      .all()
      .map((row) => ({ lane: text(row.lane), sequence: int(row.sequence) }))
      .filter(({ lane }) => !this.backlogs.has(lane))
  }

  /** Gives a parked event up that can't be sent, and names it. */
  forget(lane: string, sequence: number): Committed {
    this.onUnreadable(lane, sequence)
    this.unpark(lane, sequence)
    return () => this.backlogs.get(lane)?.parked.delete(sequence)
  }

  private unpark(lane: string, sequence: number): void {
    this.sql.unpark.run(lane, sequence)
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
    const parked: Array<number> = []
    const unparked: Array<number> = [...settlement.unpark]
    let dead = 0
    let deadBytes = 0
    for (const item of settlement.park) if (this.park(lane, item)) parked.push(item.sequence)
    for (const sequence of settlement.unpark) this.unpark(lane, sequence)
    for (const item of settlement.bury) {
      const own = this.sql.parkedRecord.get(lane, item.sequence)
      const attempts = this.attempts(lane, item.sequence, item)
      if (own !== undefined) this.unpark(lane, item.sequence)
      unparked.push(item.sequence)
      const entry = own === undefined ? this.find(item.sequence) : decode(bytes(own.record), item.sequence)
      if (entry === undefined) {
        this.onUnreadable(lane, item.sequence)
        continue
      }
      const record = encode(entry)
      const before = this.sql.exhume.all(lane, item.sequence)[0]
      this.sql.bury.run(lane, item.sequence, item.at, entry.event.type, record.length, attempts, record)
      dead += before === undefined ? 1 : 0
      deadBytes += record.length - int(before?.size ?? 0)
    }
    const cursor = this.advance(backlog.cursor, settlement.cursor)
    this.rows.move(lane, cursor, settlement.pausedFor)
    return () => {
      for (const sequence of parked) backlog.parked.add(sequence)
      for (const sequence of unparked) backlog.parked.delete(sequence)
      backlog.deadLetters += dead
      backlog.deadLetterBytes += deadBytes
      backlog.pausedFor = settlement.pausedFor
      this.onMoved(backlog.cursor, cursor)
      backlog.settle(cursor)
    }
  }

  /** Puts a dead letter there that another journal had. */
  inter(lane: string, entry: Entry, at: number, attempts: ReadonlyArray<Attempt>): Committed {
    const record = encode(entry)
    this.sql.bury.run(lane, entry.sequence, at, entry.event.type, record.length, JSON.stringify(attempts), record)
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
    const before = this.sql.parkedAttempts.get(lane, sequence)?.attempts
    return JSON.stringify(keptAttempts(before === undefined ? [] : attemptsOf(before), tries))
  }

  private park(lane: string, item: Park): boolean {
    const { sequence, key, due, delay, firstAttemptAt, tried } = item
    if (!this.backlogs.get(lane)?.parked.has(sequence)) {
      const entry = this.find(sequence)
      if (entry === undefined) {
        this.onUnreadable(lane, sequence)
        return false
      }
      this.sql.park.run(lane, sequence, encode(entry))
    }
    const attempts = this.attempts(lane, sequence, item)
    this.sql.retry.run(lane, sequence, key, due, delay, firstAttemptAt, tried, attempts)
    return true
  }

  /** The parked events of a lane, in order. */
  parked(lane: string): ReadonlyArray<Parked> {
    return this.sql.parked.all(lane).map((row) => ({
      sequence: int(row.sequence),
      key: text(row.key),
      due: int(row.due),
      delay: int(row.delay),
      firstAttemptAt: int(row.first_attempt_at),
      tried: int(row.tried),
      lastFailure: text(row.last_failure),
    }))
  }

  state(backlog: Backlog): LaneState {
    return {
      name: backlog.lane,
      cursor: backlog.cursor,
      parked: backlog.parked.size,
      deadLetters: backlog.deadLetters,
      deadLetterBytes: backlog.deadLetterBytes,
      backlog: backlog.size,
      paused: backlog.paused,
    }
  }

  /** Those that can't be read are named, and stand among the lost until the caller forgets them. */
  readParked(lane: string, sequences: ReadonlyArray<number>): ParkedEntries {
    const entries: Array<Entry> = []
    const lost: Array<number> = []
    let size = 0
    for (const sequence of sequences) {
      if (size >= readBytes) break
      const row = this.sql.parkedRecord.get(lane, sequence)
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
  exhume(id: string): Committed | undefined {
    const parsed = parseDeadLetterId(id)
    const row = parsed === undefined ? undefined : this.sql.exhume.all(parsed.lane, parsed.sequence)[0]
    if (parsed === undefined || row === undefined) return undefined
    return () => this.countDead(parsed.lane, -1, -int(row.size))
  }

  /** Takes one parked event from a lane, and gives it to another if there is one; `undefined` when none is left. */
  takeParked(from: string, to?: string): Committed | undefined {
    const row = this.sql.nextParked.get(from)
    if (row === undefined) return undefined
    const sequence = int(row.sequence)
    // What the other lane has already is the same event: one of the two is enough.
    const moved = to !== undefined && int(this.sql.moveParked.run(to, from, sequence).changes) > 0
    if (moved) this.sql.moveRetry.run(to, this.pausedFor(from) - this.pausedFor(to), from, sequence)
    else this.unpark(from, sequence)
    return () => {
      this.backlogs.get(from)?.parked.delete(sequence)
      if (moved) this.backlogs.get(to)?.parked.add(sequence)
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
