/**
 * Finds events that are kept, newest first, and what became of each.
 *
 * It walks down: where the log is indexed by what the index leads to, else by
 * reading the log's rows; below the log's oldest row it goes on with what is
 * still owed, parked or dead, and so has outlived the log.
 *
 * **Promise.** Every event that it gives was read as it was written. It stops
 * when its time is up, and says where.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Effect } from "effect"
import * as Match from "../../EventMatch.ts"
import * as EventPages from "../../EventPages.ts"
import type { EventPage, EventQuery, FoundEvent, JournalError } from "../../Journal.ts"
import { decodeOne, decodeRow, decodeStored, type Stored } from "../Record.ts"
import { DeliveryStatuses } from "./DeliveryStatus.ts"
import type { Index } from "./Index.ts"
import * as Span from "./IndexBlock.ts"

/** How far the search has come, and what stands there. */
interface Place {
  /** Everything from here up was looked at. */
  readonly at: number
  /** How many since the place before. */
  readonly passed: number
  /** Epoch milliseconds; 0 where nothing is. */
  readonly receivedAt: number
  readonly stored?: Stored | undefined
}

interface LogRow {
  readonly first: number
  readonly last: number
  readonly bytes: Uint8Array
}

/** By number, as `Record.Origin` has them. */
const origins = ["delivered", "replayed", "moved"] as const

const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

export class Search {
  private readonly index: Index | undefined
  private readonly fates: DeliveryStatuses
  private readonly sql
  /** The row that was read last: its events are asked for one after the other. */
  private row: LogRow | undefined

  constructor(db: DatabaseSync, index?: Index) {
    this.index = index
    this.fates = new DeliveryStatuses(db)
    const kept = (...tables: ReadonlyArray<string>) => {
      const each = tables.map((table) => `SELECT DISTINCT sequence FROM ${table} WHERE sequence < ?1`)
      return db.prepare(`${each.join(" UNION ")} ORDER BY sequence DESC LIMIT 64`)
    }
    this.sql = {
      begin: db.prepare("BEGIN"),
      end: db.prepare("COMMIT"),
      tail: db.prepare("SELECT first FROM log ORDER BY first LIMIT 1"),
      rowAt: db.prepare("SELECT first, count, bytes FROM log WHERE first <= ? ORDER BY first DESC LIMIT 1"),
      retrying: kept("retry_record"),
      dead: kept("dead"),
      owed: kept("owed"),
      kept: kept("dead", "retry_record", "owed"),
    }
  }

  /** Looks for so many milliseconds; a little longer when a row is large. */
  look(query: EventQuery, millis: number): EventPage {
    const deadline = performance.now() + millis
    const match = Match.make(query)
    const events: Array<FoundEvent> = []
    let looked = 0
    let lookedTo = 0
    this.sql.begin.run()
    try {
      this.fates.load()
      for (const place of this.places(query, match)) {
        looked += place.passed
        if (place.receivedAt > 0) lookedTo = place.receivedAt
        const found = place.stored && this.found(place.stored, query, match)
        if (found !== undefined) events.push(found)
        if (events.length >= query.limit || performance.now() > deadline) {
          return { events, looked, lookedTo, next: place.at }
        }
      }
      return { events, looked, lookedTo }
    } finally {
      this.row = undefined
      this.sql.end.run()
    }
  }

  private found({ entry, origin }: Stored, query: EventQuery, match: Match.Match): FoundEvent | undefined {
    const { sequence, sinks } = entry
    if (!match.event(sequence, entry.event, sinks)) return undefined
    const fates = this.fates.of(sequence, sinks)
    if (!match.fates(fates)) return undefined
    const { body, ...event } = entry.event
    const namesOne = query.id !== undefined || query.sequence !== undefined
    return { sequence, origin: origins[origin], event, ...(namesOne && { body }), fates }
  }

  private *places(query: EventQuery, match: Match.Match): Generator<Place> {
    const { outcome, sequence = Number.MAX_SAFE_INTEGER, before = Number.MAX_SAFE_INTEGER } = query
    const floor = query.sequence ?? (outcome === "pending" ? this.fates.pendingFrom : 1)
    const tail = Number(this.sql.tail.get()?.first ?? Number.MAX_SAFE_INTEGER)
    let below = Math.min(sequence + 1, before)
    if (outcome === "retrying" || outcome === "dead") return yield* this.kept(this.sql[outcome], below, floor)
    yield* this.logged(query, match, below - 1, Math.max(floor, tail))
    below = Math.min(below, tail)
    yield* this.kept(outcome === "pending" ? this.sql.owed : this.sql.kept, below, floor)
  }

  /** Of the log, from `highest` down to `lowest`. */
  private *logged(query: EventQuery, match: Match.Match, highest: number, lowest: number): Generator<Place> {
    let next = Math.min(highest, this.rowAt(highest)?.last ?? 0)
    while (next >= lowest) {
      const number = Span.numberOf(next)
      const end = Math.max(Span.firstOf(number), lowest)
      const candidates = this.index?.candidates(number, query, match, next)
      if (candidates !== undefined) {
        for (const at of candidates.sequences) {
          if (at < end) break
          const stored = this.read(at)
          yield { at, passed: next + 1 - at, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
          next = at - 1
        }
        if (next >= end) yield { at: end, passed: next + 1 - end, receivedAt: candidates.receivedFrom }
        next = end - 1
        continue
      }
      const row = this.rowAt(next)
      if (row === undefined) return
      const stored = decodeRow(row.bytes, row.first, row.last + 1 - row.first).stored
      for (const one of stored.toReversed()) {
        const { sequence, event } = one.entry
        if (sequence > next || sequence < end) continue
        yield { at: sequence, passed: 1, receivedAt: event.receivedAt, stored: one }
      }
      // Between rows there may be lost ones.
      next = row.last < end ? row.last : Math.max(row.first, end) - 1
    }
  }

  /** Of what is parked or dead, below a sequence. */
  private *kept(statement: Search["sql"]["kept"], before: number, floor: number): Generator<Place> {
    let below = before
    for (;;) {
      const rows = statement.all(below)
      if (rows.length === 0) return
      for (const row of rows) {
        below = Number(row.sequence)
        if (below < floor) return
        const stored = this.read(below) ?? this.readKept(below)
        yield { at: below, passed: 1, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
      }
    }
  }

  /** The row that holds `sequence`, or the last one below it. */
  private rowAt(sequence: number): LogRow | undefined {
    if (this.row !== undefined && this.row.first <= sequence && sequence <= this.row.last) return this.row
    const row = this.sql.rowAt.get(sequence)
    if (row === undefined) return undefined
    const first = Number(row.first)
    this.row = { first, last: first + Number(row.count) - 1, bytes: bytes(row.bytes) }
    return this.row
  }

  private read(sequence: number): Stored | undefined {
    const row = this.rowAt(sequence)
    return row === undefined || row.last < sequence ? undefined : decodeOne(row.bytes, row.first, sequence)
  }

  private readKept(sequence: number): Stored | undefined {
    return decodeStored(bytes(this.fates.record(sequence)), sequence)
  }
}

/** How long a page may be looked for, in milliseconds. */
const pageTimeout = 150

/** Looks until a page is full, everything has been looked at, or it has taken too long. */
export const page = (query: EventQuery, look: (query: EventQuery) => Effect.Effect<EventPage, JournalError>) =>
  EventPages.collect(query, look, pageTimeout)
