/**
 * Finds events that are kept, newest first, and their state at each sink.
 *
 * It goes down the log, through the index where there is one, and then through
 * the pending events, retries and dead letters that are older than the log.
 *
 * **Guarantee.** Every event that it returns is read as it was written. It stops
 * when its time is up, and says where.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite"
import type { Effect } from "effect"
import * as EventPages from "../../EventPages.ts"
import { type EventPage, type EventQuery, type FoundEvent, type Match, matchOf } from "../../EventQuery.ts"
import type { JournalError } from "../../JournalError.ts"
import { decodeOne, decodeRow, decodeStored, type Stored } from "../../stream/Record.ts"
import { bytes } from "../Rows.ts"
import { DeliveryStatuses } from "./DeliveryStatus.ts"
import type { Index } from "./Index.ts"

/** How far the search has come, and the event there. */
interface Place {
  /** Everything from here up was searched. */
  readonly at: number
  /** Events since the place before. */
  readonly passed: number
  /** Epoch milliseconds; 0 where nothing is. */
  readonly receivedAt: number
  readonly stored?: Stored | undefined
}

interface RowBytes {
  readonly first: number
  readonly last: number
  readonly bytes: Uint8Array
}

/** By `Record.Origin`. */
const origins = ["delivered", "replayed", "moved"] as const

export class Search {
  readonly #index: Index | undefined
  readonly #deliveries: DeliveryStatuses
  readonly #sql
  /** The row that was read last. */
  #row: RowBytes | undefined

  constructor(db: DatabaseSync, index?: Index) {
    this.#index = index
    this.#deliveries = new DeliveryStatuses(db)
    const kept = (...tables: ReadonlyArray<string>) => {
      const each = tables.map((table) => `SELECT DISTINCT sequence FROM ${table} WHERE sequence < ?1`)
      return db.prepare(`${each.join(" UNION ")} ORDER BY sequence DESC LIMIT 64`)
    }
    this.#sql = {
      begin: db.prepare("BEGIN"),
      end: db.prepare("COMMIT"),
      first: db.prepare("SELECT first FROM log ORDER BY first LIMIT 1"),
      rowAt: db.prepare("SELECT first, count, bytes FROM log WHERE first <= ? ORDER BY first DESC LIMIT 1"),
      retrying: kept("retry_record"),
      dead: kept("dead"),
      pending: kept("owed"),
      kept: kept("dead", "retry_record", "owed"),
    }
  }

  /** Searches for so many milliseconds, a little longer when a row is large. */
  look(query: EventQuery, millis: number): EventPage {
    const deadline = performance.now() + millis
    const match = matchOf(query)
    const events: Array<FoundEvent> = []
    let looked = 0
    let lookedTo = 0
    this.#sql.begin.run()
    try {
      this.#deliveries.load()
      for (const place of this.#places(query, match)) {
        looked += place.passed
        if (place.receivedAt > 0) lookedTo = place.receivedAt
        const found = place.stored && this.#found(place.stored, query, match)
        if (found !== undefined) events.push(found)
        if (events.length >= query.limit || performance.now() > deadline) {
          return { events, looked, lookedTo, next: String(place.at) }
        }
      }
      return { events, looked, lookedTo }
    } finally {
      this.#row = undefined
      this.#sql.end.run()
    }
  }

  #found({ entry, origin }: Stored, query: EventQuery, match: Match): FoundEvent | undefined {
    const { sequence, sinks } = entry
    if (!match.event(sequence, entry.event, sinks)) return undefined
    const deliveries = this.#deliveries.of(sequence, sinks)
    if (!match.deliveries(deliveries)) return undefined
    const { body, ...event } = entry.event
    const namesOne = query.id !== undefined || query.sequence !== undefined
    return { sequence, origin: origins[origin], event, ...(namesOne && { body }), deliveries }
  }

  *#places(query: EventQuery, match: Match): Generator<Place> {
    const { outcome, sequence = Number.MAX_SAFE_INTEGER } = query
    const floor = query.sequence ?? (outcome === "pending" ? this.#deliveries.pendingFrom : 1)
    const first = Number(this.#sql.first.get()?.first ?? Number.MAX_SAFE_INTEGER)
    let below = Math.min(sequence + 1, query.before === undefined ? Number.MAX_SAFE_INTEGER : Number(query.before))
    if (outcome === "retrying" || outcome === "dead") return yield* this.#kept(this.#sql[outcome], below, floor)
    yield* this.#logged(query, match, below - 1, Math.max(floor, first))
    below = Math.min(below, first)
    yield* this.#kept(outcome === "pending" ? this.#sql.pending : this.#sql.kept, below, floor)
  }

  /** Of the log, from `highest` down to `lowest`. */
  *#logged(query: EventQuery, match: Match, highest: number, lowest: number): Generator<Place> {
    let next = Math.min(highest, this.#rowAt(highest)?.last ?? 0)
    while (next >= lowest) {
      const candidates = this.#index?.candidates(query, match, next, lowest)
      if (candidates !== undefined) {
        const end = candidates.from
        for (const at of candidates.sequences) {
          const stored = this.#read(at)
          yield { at, passed: next + 1 - at, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
          next = at - 1
        }
        if (next >= end) yield { at: end, passed: next + 1 - end, receivedAt: candidates.receivedAt }
        next = end - 1
        continue
      }
      const through = this.#index?.through ?? 0
      const end = Math.max(lowest, next > through ? through + 1 : 1)
      const row = this.#rowAt(next)
      if (row === undefined) return
      const stored = decodeRow(row.bytes, row.first, row.last + 1 - row.first).stored
      for (const one of stored.toReversed()) {
        const { sequence, event } = one.entry
        if (sequence > next || sequence < end) continue
        yield { at: sequence, passed: 1, receivedAt: event.receivedAt, stored: one }
      }
      // Rows may be missing in between.
      next = row.last < end ? row.last : Math.max(row.first, end) - 1
    }
  }

  /** Of the events outside the log, below a sequence. */
  *#kept(statement: StatementSync, before: number, floor: number): Generator<Place> {
    let below = before
    for (;;) {
      const rows = statement.all(below)
      if (rows.length === 0) return
      for (const row of rows) {
        below = Number(row.sequence)
        if (below < floor) return
        const stored = this.#read(below) ?? this.#readKept(below)
        yield { at: below, passed: 1, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
      }
    }
  }

  /** The row that holds `sequence`, or the last one below it. */
  #rowAt(sequence: number): RowBytes | undefined {
    if (this.#row !== undefined && this.#row.first <= sequence && sequence <= this.#row.last) return this.#row
    const row = this.#sql.rowAt.get(sequence)
    if (row === undefined) return undefined
    const first = Number(row.first)
    this.#row = { first, last: first + Number(row.count) - 1, bytes: bytes(row.bytes) }
    return this.#row
  }

  #read(sequence: number): Stored | undefined {
    const row = this.#rowAt(sequence)
    return row === undefined || row.last < sequence ? undefined : decodeOne(row.bytes, row.first, sequence)
  }

  #readKept(sequence: number): Stored | undefined {
    return decodeStored(bytes(this.#deliveries.record(sequence)), sequence)
  }
}

/** Milliseconds that a page may take. */
const pageTimeout = 150

/** Searches until a page is full, everything was searched, or the time is up. */
export const page = (query: EventQuery, look: (query: EventQuery) => Effect.Effect<EventPage, JournalError>) =>
  EventPages.collect(query, look, pageTimeout)
