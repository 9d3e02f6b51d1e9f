/**
 * Lanes on disk: cursors, parked events, dead letters.
 *
 * Every change is made inside a transaction of the caller's, and returns what
 * to do to the counts in memory once that is committed: a rolled-back change
 * never shows.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import * as Pattern from "../routing/Pattern.ts"
import { Backlog } from "./Backlog.ts"
import type {
  Attempt,
  Cursor,
  DeadLetterQuery,
  Entry,
  LaneState,
  Parked,
  Settlement,
  StoredDeadLetter,
} from "./Journal.ts"
import { type Found, LaneRows } from "./LaneRows.ts"
import { decode, encode } from "./Record.ts"

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
        "SELECT sequence, key, due, delay, first_attempt_at, attempts FROM parked WHERE lane = ? ORDER BY sequence",
      ),
      parkedRecords: db.prepare("SELECT lane, sequence, record FROM parked"),
      parkedRecord: db.prepare("SELECT record FROM parked WHERE lane = ? AND sequence = ?"),
      repark: db.prepare(
        "UPDATE parked SET key = ?, due = ?, delay = ?, first_attempt_at = ?, attempts = ? WHERE lane = ? AND sequence = ?",
      ),
      park: db.prepare(
        "INSERT INTO parked (key, due, delay, first_attempt_at, attempts, lane, sequence, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      ),
      unpark: db.prepare("DELETE FROM parked WHERE lane = ? AND sequence = ? RETURNING record"),
      moveParked: db.prepare("UPDATE OR IGNORE parked SET lane = ? WHERE lane = ?"),
      dropParked: db.prepare("DELETE FROM parked WHERE lane = ?"),

      deadCounts: db.prepare("SELECT lane, count(*) AS count, sum(size) AS size FROM dead GROUP BY lane"),
      bury: db.prepare(
        "INSERT INTO dead (lane, sequence, at, type, size, attempts, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      exhume: db.prepare("DELETE FROM dead WHERE lane = ? AND sequence = ? RETURNING size"),
      oneDead: db.prepare("SELECT lane, sequence, at, attempts, record FROM dead WHERE lane = ? AND sequence = ?"),
      dead: db.prepare(
        `SELECT lane, sequence, at, attempts, record FROM dead
         WHERE (?1 IS NULL OR lane = ?1) AND (?2 IS NULL OR type_matches(?2, type))
           AND (?3 IS NULL OR sequence < ?3 OR (sequence = ?3 AND lane < ?4))
         ORDER BY sequence DESC, lane DESC LIMIT ?5`,
      ),
      moveDead: db.prepare("UPDATE OR IGNORE dead SET lane = ? WHERE lane = ?"),
      dropDead: db.prepare("DELETE FROM dead WHERE lane = ?"),
    }
    this.load()
  }

  /** Counts in memory as the tables have them; what is in the log is counted by who reads it. */
  private load(): void {
    for (const { name, cursor, paused } of this.found.rows) {
      const backlog = new Backlog(name, cursor)
      backlog.paused = paused
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

  /**
   * Parked events that no lane can send: of no lane that is known, or with
   * other bytes than were written. A lane would wait for them for ever, and
   * their key with it.
   */
  unreadable(): ReadonlyArray<{ readonly lane: string; readonly sequence: number }> {
    const found: Array<{ readonly lane: string; readonly sequence: number }> = []
    for (const row of this.sql.parkedRecords.iterate()) {
      const sequence = int(row.sequence)
      const lane = text(row.lane)
      const isSound = this.backlogs.has(lane) && decode(bytes(row.record), sequence) !== undefined
      if (!isSound) found.push({ lane, sequence })
    }
    return found
  }

  /** Gives a parked event up that can't be read, and names it. */
  forget(lane: string, sequence: number): Committed {
    this.onUnreadable(lane, sequence)
    this.sql.unpark.all(lane, sequence)
    return () => this.backlogs.get(lane)?.parked.delete(sequence)
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
    for (const sequence of settlement.unpark) this.sql.unpark.all(lane, sequence)
    for (const item of settlement.bury) {
      const own = this.sql.unpark.all(lane, item.sequence)[0]
      unparked.push(item.sequence)
      const entry = own === undefined ? this.find(item.sequence) : decode(bytes(own.record), item.sequence)
      if (entry === undefined) {
        this.onUnreadable(lane, item.sequence)
        continue
      }
      const record = encode(entry)
      const before = this.sql.exhume.all(lane, item.sequence)[0]
      const attempts = JSON.stringify(item.attempts)
      this.sql.bury.run(lane, item.sequence, item.at, entry.event.type, record.length, attempts, record)
      dead += before === undefined ? 1 : 0
      deadBytes += record.length - int(before?.size ?? 0)
    }
    const cursor = this.advance(backlog.cursor, settlement.cursor)
    this.rows.move(lane, cursor)
    return () => {
      for (const sequence of parked) backlog.parked.add(sequence)
      for (const sequence of unparked) backlog.parked.delete(sequence)
      backlog.deadLetters += dead
      backlog.deadLetterBytes += deadBytes
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

  private park(lane: string, item: Parked): boolean {
    const fields = [item.key, item.due, item.delay, item.firstAttemptAt, JSON.stringify(item.attempts)] as const
    if (this.sql.repark.run(...fields, lane, item.sequence).changes !== 0) return true
    const entry = this.find(item.sequence)
    if (entry === undefined) {
      this.onUnreadable(lane, item.sequence)
      return false
    }
    this.sql.park.run(...fields, lane, item.sequence, encode(entry))
    return true
  }

  state(backlog: Backlog): LaneState {
    return {
      name: backlog.lane,
      cursor: backlog.cursor,
      parked: this.sql.parked.all(backlog.lane).map((row) => ({
        sequence: int(row.sequence),
        key: text(row.key),
        due: int(row.due),
        delay: int(row.delay),
        firstAttemptAt: int(row.first_attempt_at),
        attempts: attemptsOf(row.attempts),
      })),
      deadLetters: backlog.deadLetters,
      deadLetterBytes: backlog.deadLetterBytes,
      backlog: backlog.size,
      paused: backlog.paused,
    }
  }

  readParked(lane: string, sequences: ReadonlyArray<number>): ReadonlyArray<Entry> {
    const entries: Array<Entry> = []
    for (const sequence of sequences) {
      const row = this.sql.parkedRecord.get(lane, sequence)
      if (row === undefined) continue
      const entry = decode(bytes(row.record), sequence)
      if (entry === undefined) this.onUnreadable(lane, sequence)
      else entries.push(entry)
    }
    return entries
  }

  deadLetters(query: DeadLetterQuery): ReadonlyArray<StoredDeadLetter> {
    const before = query.before === undefined ? undefined : parseDeadLetterId(query.before)
    const letters: Array<StoredDeadLetter> = []
    const rows = this.sql.dead.all(
      query.lane ?? null,
      query.type ?? null,
      before?.sequence ?? null,
      before?.lane ?? null,
      query.limit,
    )
    for (const row of rows) {
      const letter = this.readDead(row)
      if (letter !== undefined) letters.push(letter)
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
    return () => {
      const backlog = this.backlogs.get(parsed.lane)
      if (backlog === undefined) return
      backlog.deadLetters--
      backlog.deadLetterBytes -= int(row.size)
    }
  }

  /** Gives parked events and dead letters of one lane to another; how many. */
  moveKept(from: string, to: string): { readonly moved: number; readonly committed: Committed } {
    const moved = int(this.sql.moveParked.run(to, from).changes) + int(this.sql.moveDead.run(to, from).changes)
    // What the other lane has already is the same event: one of the two is enough.
    this.sql.dropParked.run(from)
    this.sql.dropDead.run(from)
    return {
      moved,
      committed: () => {
        const source = this.backlogs.get(from)
        const target = this.backlogs.get(to)
        for (const sequence of source?.parked ?? []) target?.parked.add(sequence)
        source?.parked.clear()
        this.loadDeadCounts()
      },
    }
  }

  drop(name: string): Committed {
    this.rows.delete(name)
    this.sql.dropParked.run(name)
    this.sql.dropDead.run(name)
    return () => {
      this.backlogs.delete(name)
    }
  }

  /** The lowest cursor: everything up to it may be pruned. */
  get passed(): number {
    let lowest = Number.POSITIVE_INFINITY
    for (const backlog of this.backlogs.values()) lowest = Math.min(lowest, backlog.cursor.sequence)
    return lowest
  }
}
