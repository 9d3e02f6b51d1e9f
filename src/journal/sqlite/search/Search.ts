/**
 * Finds stored events, newest first or oldest first, and their state at each sink.
 *
 * Newest first, it goes down the log, through the index if there is one, and then through older pending events,
 * retries and dead letters. Oldest first, it goes the same way up.
 *
 * **Guarantee.** Each event that it returns is as it was written. It stops when its time is up, and reports its
 * position.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite"
import { Effect } from "effect"
import type { Attempt, DeliveryStatus } from "../../DeliveryStatus.ts"
import { collect, type EventPage, type EventQuery, type FoundEvent, type Match, matchOf } from "../../EventQuery.ts"
import type { JournalError } from "../../JournalError.ts"
import type { Cursor } from "../../Settlement.ts"
import { bucketOf, findDelivery } from "../../stream/OutcomeRecord.ts"
import { decodeOne, decodeRow, decodeStored, type Stored } from "../../stream/Record.ts"
import { type SearchIds, textsOf } from "../../stream/SearchIds.ts"
import { foundEvent, heldStatus, type LaneStates, laneStates, noPlace, pageTimeout } from "../../stream/SearchResult.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"
import { endedOf } from "../rows/OutcomeRows.ts"
import { bytes, int, list, text } from "../rows/Rows.ts"
import type { Candidates, Index } from "./Index.ts"

/**
 * Reads the state of one event at its sinks from the journal's tables. Reads states within the caller's
 * transaction, after `load`.
 */
export class DeliveryStatuses {
  #cursors = new Map<string, Cursor>()
  readonly #names: NamedLanes
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#names = new NamedLanes(db)
    this.#sql = {
      lanes: db.prepare("SELECT name, cursor, settled FROM lane ORDER BY name"),
      retrying: db.prepare(
        `SELECT lane, due, attempts FROM retry_record JOIN retry USING (lane, sequence)
         WHERE retry_record.sequence = ? ORDER BY lane`,
      ),
      retryRecord: db.prepare("SELECT record FROM retry_record WHERE sequence = ? LIMIT 1"),
      dead: db.prepare("SELECT lane, at, attempts FROM dead WHERE sequence = ?"),
      deadRecord: db.prepare("SELECT record FROM dead WHERE sequence = ? LIMIT 1"),
      delivered: db.prepare("SELECT lane, bytes FROM outcome WHERE bucket = ?"),
      // Each uses its own index: with an ORDER BY over a union of the three, SQLite scans the whole table.
      ended: ["sequence = ?1 AND last IS NULL", "copy = ?1", "last >= ?1 AND sequence <= ?1"].map((rows) =>
        db.prepare(`SELECT * FROM ended WHERE ${rows}`),
      ),
      pending: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
    }
  }

  /** Reads the cursors and names. The following calls of `of` must be in the same transaction. */
  load(): void {
    this.#names.load()
    this.#cursors = new Map(
      this.#sql.lanes
        .all()
        .map(({ name, cursor, settled }) => [text(name), { sequence: int(cursor), settled: list(settled) }]),
    )
  }

  /** Returns the states at the sinks that the event was routed to, and in lanes that it was moved to. */
  of(sequence: number, sinks: ReadonlyArray<string>): LaneStates {
    const held = new Map<string, DeliveryStatus>()
    for (const { lane, due, attempts } of this.#sql.retrying.all(sequence)) {
      held.set(text(lane), heldStatus(text(lane), { due: int(due) }, list<Attempt>(attempts)))
    }
    for (const { lane, at, attempts } of this.#sql.dead.all(sequence)) {
      held.set(text(lane), heldStatus(text(lane), { at: int(at) }, list<Attempt>(attempts)))
    }
    const delivered = this.#sql.delivered.all(bucketOf(sequence))
    const states = laneStates(sequence, sinks, {
      held,
      ended: this.#ended(sequence),
      cursorOf: (lane) => this.#cursors.get(lane),
      deliveryOf: (isName) => {
        const row = delivered.find(({ lane }) => isName(text(lane)))
        return row && findDelivery(bytes(row.bytes), sequence)
      },
    })
    return { ...states, deliveries: states.deliveries.map((status) => this.#named(status)) }
  }

  #named(status: DeliveryStatus): DeliveryStatus {
    const { sink, to } = status
    return { ...status, sink: this.#names.nameOf(sink), ...(to !== undefined && { to: this.#names.nameOf(to) }) }
  }

  /** Returns ends, oldest first. */
  #ended(sequence: number) {
    const rows = this.#sql.ended.flatMap((rows) => rows.all(sequence))
    return rows.sort((a, b) => int(a.id) - int(b.id)).map(endedOf)
  }

  /** Returns the record of a pending event, retry or dead letter. The log may no longer have it. */
  record(sequence: number): unknown {
    const { pending, retryRecord, deadRecord } = this.#sql
    return (pending.get(sequence) ?? retryRecord.get(sequence) ?? deadRecord.get(sequence))?.record
  }

  /** Every lane has passed all events below this sequence. */
  get pendingFrom(): number {
    return 1 + Math.min(...[...this.#cursors.values()].map(({ sequence }) => sequence))
  }
}

/** The position of the search, and the event there. */
interface Place {
  /** Everything from the beginning to here was searched. */
  readonly at: number
  /** Number of events since the previous position. */
  readonly passed: number
  /** Epoch milliseconds; 0 if there is no event. */
  readonly receivedAt: number
  readonly stored?: Stored | undefined
}

interface RowBytes {
  readonly first: number
  readonly last: number
  readonly bytes: Uint8Array
}

/** Sequences, both ends included. */
interface Range {
  readonly lowest: number
  readonly highest: number
}

const placesIn = ({ bytes, first, last }: RowBytes, { lowest, highest }: Range): ReadonlyArray<Place> =>
  decodeRow(bytes, first, last + 1 - first)
    .stored.filter(({ entry: { sequence } }) => lowest <= sequence && sequence <= highest)
    .map((stored) => ({ at: stored.entry.sequence, passed: 1, receivedAt: stored.entry.event.receivedAt, stored }))

/**
 * Reports whether no event of a row has the query's id, which a header holds as JSON, or the text that is to be
 * in the body. Decoding would take ten times as long.
 */
const isWithout = ({ bytes }: RowBytes, { id, mentioned }: EventQuery): boolean => {
  const row = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (id !== undefined && !row.includes(JSON.stringify(id))) return true
  return mentioned !== undefined && !textsOf(mentioned).some((text) => row.includes(text))
}

/** Searches over one connection. Without an `index` it reads the log itself. Throws SQLite's errors. */
export class Search {
  readonly #index: Index | undefined
  readonly #searchIds: SearchIds
  readonly #deliveries: DeliveryStatuses
  readonly #sql
  /** The last row that was read. */
  #row: RowBytes | undefined

  constructor(db: DatabaseSync, searchIds: SearchIds, index?: Index) {
    this.#index = index
    this.#searchIds = searchIds
    this.#deliveries = new DeliveryStatuses(db)
    const keptIn = (tables: ReadonlyArray<string>, beyond: string, order: string) => {
      const each = tables.map((table) => `SELECT DISTINCT sequence FROM ${table} WHERE sequence ${beyond} ?1`)
      return db.prepare(`${each.join(" UNION ")} ORDER BY sequence ${order} LIMIT 64`)
    }
    const kept = (...tables: ReadonlyArray<string>) => ({
      down: keptIn(tables, "<", "DESC"),
      up: keptIn(tables, ">", "ASC"),
    })
    this.#sql = {
      begin: db.prepare("BEGIN"),
      end: db.prepare("COMMIT"),
      first: db.prepare("SELECT first FROM log ORDER BY first LIMIT 1"),
      rowAt: db.prepare("SELECT first, count, bytes FROM log WHERE first <= ? ORDER BY first DESC LIMIT 1"),
      rowAfter: db.prepare("SELECT first FROM log WHERE first > ? ORDER BY first LIMIT 1"),
      head: db.prepare("SELECT first + count - 1 AS head FROM log ORDER BY first DESC LIMIT 1"),
      retrying: kept("retry_record"),
      dead: kept("dead"),
      ended: kept("ended"),
      tried: kept("ended", "dead", "retry_record"),
      pending: kept("owed"),
      kept: kept("dead", "retry_record", "owed"),
    }
  }

  /** Searches for `millis` milliseconds, or a little longer if a row is large. */
  look(query: EventQuery, millis: number): EventPage {
    const deadline = performance.now() + millis
    const match = matchOf(query, this.#searchIds)
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
    const found = this.#deliveries.of(sequence, sinks)
    if (!match.deliveries(found.deliveries)) return undefined
    return foundEvent({ entry, origin }, String(sequence), query, found)
  }

  #places(query: EventQuery, match: Match): Generator<Place> {
    const { outcome, sequence = Number.MAX_SAFE_INTEGER } = query
    const { before = Number.MAX_SAFE_INTEGER, after = 0, through = Number.MAX_SAFE_INTEGER } = query
    const range = {
      lowest: Math.max(query.sequence ?? (outcome === "pending" ? this.#deliveries.pendingFrom : 1), Number(after) + 1),
      highest: Math.min(sequence, Number(before) - 1, Number(through)),
    }
    return query.after === undefined ? this.#down(query, match, range) : this.#up(query, match, range)
  }

  /** Returns the tables outside the log whose events may have the query's outcome. */
  #keptFor({ outcome }: EventQuery) {
    return outcome === "pending" ? this.#sql.pending : this.#sql.kept
  }

  /** Returns the tables that hold all events that the query can find, or `undefined` if the log must be read. */
  #only({ outcome, attemptsOver = 0, alert }: EventQuery) {
    if (alert !== undefined) return this.#sql.ended
    if (outcome === "retrying" || outcome === "dead") return this.#sql[outcome]
    if (outcome === "dropped" || outcome === "replayed" || outcome === "moved" || outcome === "counted") {
      return this.#sql.ended
    }
    return attemptsOver > 0 ? this.#sql.tried : undefined
  }

  get #first(): number {
    return Number(this.#sql.first.get()?.first ?? Number.MAX_SAFE_INTEGER)
  }

  *#down(query: EventQuery, match: Match, { lowest, highest }: Range): Generator<Place> {
    const only = this.#only(query)
    if (only !== undefined) return yield* this.#kept(only.down, highest + 1, (at) => at >= lowest)
    const first = this.#first
    yield* this.#loggedDown(query, match, { lowest: Math.max(lowest, first), highest })
    yield* this.#kept(this.#keptFor(query).down, Math.min(highest + 1, first), (at) => at >= lowest)
  }

  *#up(query: EventQuery, match: Match, { lowest, highest }: Range): Generator<Place> {
    const only = this.#only(query)
    if (only !== undefined) return yield* this.#kept(only.up, lowest - 1, (at) => at <= highest)
    const first = this.#first
    yield* this.#kept(this.#keptFor(query).up, lowest - 1, (at) => at <= highest && at < first)
    const head = this.#sql.head.get()?.head
    if (head === undefined) return
    yield* this.#loggedUp(query, match, { lowest: Math.max(lowest, first), highest: Math.min(highest, Number(head)) })
  }

  /** Returns the index for a query, unless the query needs every event. */
  #indexFor({ mentioned }: EventQuery): Index | undefined {
    return mentioned === undefined ? this.#index : undefined
  }

  /** Reads the log from `highest` down to `lowest`. */
  *#loggedDown(query: EventQuery, match: Match, { lowest, highest }: Range): Generator<Place> {
    const index = this.#indexFor(query)
    let next = Math.min(highest, this.#rowAt(highest)?.last ?? 0)
    while (next >= lowest) {
      const candidates = index?.candidates(query, match, { lowest, highest: next, direction: "down" })
      if (candidates !== undefined) {
        yield* this.#named(candidates, next, -1)
        next = candidates.end - 1
        continue
      }
      const through = index?.through ?? 0
      const end = Math.max(lowest, next > through ? through + 1 : 1)
      const row = this.#rowAt(next)
      if (row === undefined) return
      const range = { lowest: Math.max(row.first, end), highest: Math.min(row.last, next) }
      if (isWithout(row, query)) yield this.#passed(range.lowest, range)
      else yield* placesIn(row, range).toReversed()
      // Rows between may be missing.
      next = row.last < end ? row.last : Math.max(row.first, end) - 1
    }
  }

  /** Reads the log from `lowest` up. */
  *#loggedUp(query: EventQuery, match: Match, { lowest, highest }: Range): Generator<Place> {
    const index = this.#indexFor(query)
    let next = lowest
    while (next <= highest) {
      const candidates = index?.candidates(query, match, { lowest: next, highest, direction: "up" })
      if (candidates !== undefined) {
        yield* this.#named(candidates, next, 1)
        next = candidates.end + 1
        continue
      }
      const row = this.#rowFrom(next)
      if (row === undefined) return
      const range = { lowest: Math.max(row.first, next), highest: Math.min(row.last, highest) }
      if (isWithout(row, query)) yield this.#passed(range.highest, range)
      else yield* placesIn(row, range)
      next = row.last + 1
    }
  }

  /** Returns the events that the index names, from `next` up or down to the end of its search. */
  *#named({ sequences, end, receivedAt }: Candidates, next: number, step: 1 | -1): Generator<Place> {
    let from = next
    for (const at of sequences) {
      const stored = this.#read(at)
      yield { at, passed: (at - from) * step + 1, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
      from = at + step
    }
    const left = (end - from) * step + 1
    if (left > 0) yield { at: end, passed: left, receivedAt }
  }

  /** Returns the position after a range of a row, at one end of the range. */
  #passed(at: number, { lowest, highest }: Range): Place {
    const receivedAt = this.#read(at)?.entry.event.receivedAt ?? 0
    return { at, passed: Math.max(0, highest + 1 - lowest), receivedAt }
  }

  /** Reads the events outside the log beyond a sequence, as far as `isWithin` allows. */
  *#kept(statement: StatementSync, from: number, isWithin: (at: number) => boolean): Generator<Place> {
    let beyond = from
    for (;;) {
      const rows = statement.all(beyond)
      if (rows.length === 0) return
      for (const row of rows) {
        beyond = Number(row.sequence)
        if (!isWithin(beyond)) return
        const stored = this.#read(beyond) ?? this.#readKept(beyond)
        yield { at: beyond, passed: 1, receivedAt: stored?.entry.event.receivedAt ?? 0, stored }
      }
    }
  }

  /** Returns the row that holds `sequence`, or the first row above it. */
  #rowFrom(sequence: number): RowBytes | undefined {
    const row = this.#rowAt(sequence)
    if (row !== undefined && sequence <= row.last) return row
    const after = this.#sql.rowAfter.get(sequence)
    return after === undefined ? undefined : this.#rowAt(Number(after.first))
  }

  /** Returns the row that holds `sequence`, or the last row below it. */
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

/** Reports whether a string is a sequence. */
const isPlace = (place: string): boolean => /^[0-9]{0,16}$/.test(place)

/** Searches until a page is full, everything was searched, or the time is up. */
export const page = (query: EventQuery, look: (query: EventQuery) => Effect.Effect<EventPage, JournalError>) => {
  const { before = "", after = "", through = "" } = query
  const strange = [before, after, through].find((place) => !isPlace(place))
  return strange === undefined ? collect(query, look, pageTimeout) : Effect.fail(noPlace(strange))
}
