/**
 * A stream in the database, and in memory what is asked of it all the time.
 *
 * **Guarantee.** What is stored carries the epoch under which the stream was
 * taken, and an epoch belongs to a timeline. Once another relay has taken the
 * stream, another server was promoted, or the database went back to an earlier
 * state, nothing is stored and no attempt starts any more: this state is lost for
 * good, and the owner of the stream reads it again.
 */
import { Effect } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import type { Event } from "../../../event/Event.ts"
import { fenced, type JournalError } from "../../JournalError.ts"
import { ceilingOf, floorOf } from "../../Sequences.ts"
import type { OpenOptions } from "../../StreamLog.ts"
import { Backlogs, Passing } from "../../stream/Backlogs.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { sendable } from "../../stream/Erasure.ts"
import { HeadWaiters } from "../../stream/HeadWaiters.ts"
import { RecentEntries } from "../../stream/RecentEntries.ts"
import { keyWidth } from "../../stream/RowKeys.ts"
import type { Database, Queries } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import { type KnownRow, KnownRows, knownColumns } from "../tables/KnownRows.ts"
import { LaneNames, nothingStored, type Place } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { columns, holding, type StreamRow, storedOf } from "../tables/StreamRows.ts"
import { LetterCounts } from "./LetterCounts.ts"
import { type Part, ReadAhead } from "./ReadAhead.ts"

/** Bytes that are read at a time of what a lane reads on and on, about. */
export const partBytes = 1024 * 1024
/** Rows that are looked through at a time. */
const rowsAtOnce = 256

/**
 * Whether a stream, `$1`, is still held under a claim, `$2`: its epoch, and the owner's sign of life. An epoch holds
 * only on the timeline that it began on. A database that lacks the sign of life went back.
 */
export const isOwned =
  "id = $1 AND epoch = ($2::text[])[1]::bigint AND epoch >> 32 = timeline() AND knows(($2::text[])[2:])"

/** The last sign of life that a relay knows to be stored, for the function `knows`: its name, instance, beat and timeline. */
export type Sign = readonly [name: string, instance: string, beat: string, timeline: string]

/** The parts of its owner that a stream needs. */
export interface Owner {
  readonly db: Database
  /** Milliseconds of a steady clock. */
  readonly now: () => number
  /** Whether this relay's last sign of life is young enough that no other can have taken its streams. */
  readonly isAlive: () => boolean
  /** When the last sign of life was sent that was answered, in milliseconds of the clock. */
  readonly askedAt: () => number
  readonly sign: () => Sign
  readonly isPaused: (sink: string) => boolean
  /** The sinks that operators have paused. */
  readonly pausedSinks: () => Iterable<string>
  readonly opened: (sink: string, options: OpenOptions) => Effect.Effect<void, JournalError>
  /** Moves what a lane still holds that a sink had under its former name. */
  readonly empty: (stream: StreamState, from: string) => Effect.Effect<number, JournalError>
  /** Runs work while nothing is added to what is in memory of a stream. */
  readonly exclusively: <A, E>(stream: StreamState, work: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** An event can't be read as it was written. */
  readonly damaged: (sequence: number) => void
}

/** This relay's knowledge of a stream: its lanes, its newest entries, and whether it still has it. */
export class StreamState {
  readonly id: number
  readonly epoch: number
  /** Another relay's, of which this one looks at the lanes: it may change its epoch at any time. */
  readonly isVisited: boolean
  /** The highest sequence that is durable. */
  end: number
  readonly backlogs = new Backlogs()
  names = LaneNames.of(nothingStored)
  /** Lanes that run, or ran. */
  readonly open = new Set<string>()
  recent = new RecentEntries()
  /** The newest rows, by which it is seen that a failover lost some. */
  readonly known = new KnownRows()
  /** Bytes of its rows. */
  bytes = 0
  /** The place where deleting old rows goes on. */
  prunedTo: number
  /** Events of its rows. */
  kept = 0
  /** Numbers that were given to duplicates, those of rows that were deleted included. */
  void = 0
  isLost = false
  /** Why the progress of its lanes could not be stored last; empty when it could. */
  trouble = ""
  /** Nothing is delivered before a sign of life was answered that was sent then or later, in milliseconds of the owner's clock. */
  notBefore = Number.NEGATIVE_INFINITY
  onLost: () => void = () => {}

  readonly owner: Owner
  /** The end when it was loaded. Up to here the backlogs are counted by routes without a checksum. */
  readFrom = Number.POSITIVE_INFINITY
  readonly passing = new Passing()
  readonly waiting = new HeadWaiters({
    end: () => this.end,
    readFrom: () => this.readFrom,
    backlogs: this.backlogs,
    recent: () => this.recent,
  })
  /** Counts the dead letters of its lanes. */
  readonly letters: LetterCounts
  #ahead = this.#reading()

  constructor(owner: Owner, id: number, epoch: number, isVisited = false) {
    this.owner = owner
    this.id = id
    this.epoch = epoch
    this.isVisited = isVisited
    this.end = floorOf(id)
    this.prunedTo = this.end
    this.letters = new LetterCounts(LaneTables.letterCounts(owner.db, id), owner.now)
  }

  /** `$2` of {@link isOwned}. */
  get claim(): ReadonlyArray<string> {
    return [String(this.epoch), ...this.owner.sign()]
  }

  /** Events that were appended since the stream began. */
  get accepted(): number {
    return this.end - floorOf(this.id) - this.void
  }

  #reading(): ReadAhead {
    return new ReadAhead((after) => Effect.runPromise(Effect.result(this.#part(after, partBytes))))
  }

  /** Says that the log has changed since it was read. */
  forgetEntries(): void {
    this.recent = new RecentEntries()
    this.#ahead = this.#reading()
  }

  // --- ownership -------------------------------------------------------------

  mayStart(): boolean {
    return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore
  }

  /** Another relay has it. */
  lost(): void {
    if (this.isLost) return
    this.isLost = true
    this.onLost()
  }

  get fencedError(): JournalError {
    return fenced(`Another relay has taken the stream ${this.id}: what this one has to say of it is not stored.`)
  }

  /** Work in one transaction, which fails when the stream is lost: three round trips more than the work. */
  transact<A>(work: (queries: Queries) => Effect.Effect<A, JournalError | DatabaseError>) {
    const { db } = this.owner
    return refusing(
      db.transact((queries) =>
        Effect.gen({ self: this }, function* () {
          yield* this.holdIn(queries)
          return yield* work(queries)
        }),
      ),
    )
  }

  /** Locks the stream's row until the transaction ends; fails when the stream is lost. */
  holdIn(queries: Queries, lock: "SHARE" | "UPDATE" = "SHARE"): Effect.Effect<void, JournalError | DatabaseError> {
    if (this.isVisited) return Effect.void
    return Effect.flatMap(
      queries.query(`SELECT id FROM stream WHERE ${isOwned} FOR ${lock}`, [this.id, this.claim]),
      ({ rows }) => {
        if (rows.length > 0) return Effect.void
        this.lost()
        return Effect.fail(this.fencedError)
      },
    )
  }

  // --- the log ---------------------------------------------------------------

  /** Entries were committed, at the head. */
  push(entries: ReadonlyArray<Entry>, row: KnownRow, count: number, bytes: number): void {
    const end = row.first + count - 1
    const lanes = new Set<string>()
    for (const { sequence, sinks, event } of entries) {
      for (const lane of this.routed(sequence, sinks, event)) lanes.add(lane)
    }
    // One that can't be read leaves a gap: what is in memory has none.
    if (entries.length < end - this.end) this.recent = new RecentEntries()
    else this.recent.push(entries)
    this.kept += row.events
    this.void += count - row.events
    this.end = end
    this.known.push(row)
    this.bytes += bytes + count * keyWidth
    this.waiting.reached(lanes)
    this.recent.dropUnwanted()
  }

  /** Counts an event, and returns the lanes that it belongs to. */
  routed(sequence: number, sinks: ReadonlyArray<string>, event?: Event): ReadonlyArray<string> {
    const lanes = this.names.lanesOf(sinks, sequence)
    for (const lane of lanes) {
      const backlog = this.backlogs.begun(lane, { sequence: sequence - 1, settled: [] })
      backlog.routed(sequence, event?.body.length, event?.webhook)
    }
    return lanes
  }

  read(after: number, limit: number, reader?: string): Effect.Effect<ReadonlyArray<Entry>, JournalError> {
    return Effect.suspend((): Effect.Effect<ReadonlyArray<Entry>, JournalError> => {
      if (this.isLost) return Effect.fail(this.fencedError)
      if (after + 1 >= this.recent.first) {
        if (reader !== undefined) this.#ahead.forget(reader)
        return Effect.succeed(this.#named(this.recent.read(after, limit, reader)))
      }
      if (reader !== undefined) {
        return Effect.map(this.#ahead.read(reader, after, limit, this.end), (entries) =>
          this.#named(this.recent.taken(entries, reader)),
        )
      }
      if (after >= this.end) return Effect.succeed([])
      return Effect.map(this.#part(after, readBytes), ({ entries }) => this.#named(entries.slice(0, limit)))
    })
  }

  /** Only rows that are there are passed over: what a server has lost may be written again under the same sequences. */
  pastLost(after: number): Effect.Effect<number, JournalError> {
    return Effect.suspend(() =>
      this.isLost || after >= this.end
        ? Effect.succeed(after)
        : Effect.map(this.#part(after, 1), ({ to, entries }) => (entries.length === 0 ? to : after)),
    )
  }

  #part(after: number, bytes: number): Effect.Effect<Part, JournalError> {
    return Effect.map(refusing(this.rows(after, bytes)), (rows) => {
      const last = rows.at(-1)
      const to = last === undefined ? after : Math.min(last.first + last.count - 1, this.end)
      const entries = rows.flatMap((row) => storedOf(row, this.owner.damaged)).map(({ entry }) => sendable(entry))
      return { after, to, entries: entries.filter(({ sequence }) => sequence > after && sequence <= to) }
    })
  }

  /** Entries with the lanes that they belong to now, which may have been renamed since. */
  #named(entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> {
    if (this.names.isPlain) return entries
    return entries.map((entry) => ({ ...entry, sinks: this.names.lanesOf(entry.sinks, entry.sequence) }))
  }

  /** Rows that hold something above `after`, about so many bytes of them. */
  rows(after: number, bytes: number) {
    const { db } = this.owner
    return Effect.map(
      db.query<StreamRow>(
        `SELECT ${columns} FROM (
           SELECT ${columns}, sum(octet_length(bytes)) OVER (ORDER BY first) - octet_length(bytes) AS before FROM (
             SELECT ${columns} FROM log
             WHERE ${holding} AND first + count > $2
             ORDER BY first LIMIT ${rowsAtOnce}
           ) AS next
         ) AS sized WHERE before < ${bytes} ORDER BY first`,
        [floorOf(this.id), after + 1, ceilingOf(this.id)],
      ),
      ({ rows }) => rows,
    )
  }

  /** Takes what other relays have appended: to the shared stream. Nothing where the stream is not this relay's any more. */
  get follow() {
    const { db, damaged } = this.owner
    return Effect.map(
      db.query<StreamRow & KnownRow>(
        `SELECT ${columns}, ${knownColumns} FROM log
         WHERE first > $3 AND first < $4 AND EXISTS (SELECT FROM stream WHERE ${isOwned})
         ORDER BY first LIMIT ${rowsAtOnce}`,
        [this.id, this.claim, this.end, ceilingOf(this.id)],
        { name: "follow" },
      ),
      ({ rows }) => {
        for (const row of rows) {
          this.push(
            storedOf(row, damaged).map(({ entry }) => entry),
            row,
            row.count,
            row.bytes.length,
          )
        }
      },
    )
  }

  /** Follows the stream until memory knows of all up to `end`, which the log has. */
  reach(end: number): Effect.Effect<void, JournalError> {
    return Effect.suspend(() => {
      const before = this.end
      if (before >= end) return Effect.void
      return Effect.flatMap(refusing(this.owner.exclusively(this, this.follow)), () => {
        if (this.end > before) return this.reach(end)
        this.lost()
        return Effect.fail(this.fencedError)
      })
    })
  }

  /** Entries by their sequences, from memory or from the log: one round trip for those that are not in memory. */
  find(queries: Queries, sequences: ReadonlyArray<number>) {
    return Effect.gen({ self: this }, function* () {
      const found = new Map<number, Entry>()
      const unknown: Array<number> = []
      for (const sequence of sequences) {
        const recent = this.recent.get(sequence)
        if (recent === undefined) unknown.push(sequence)
        else found.set(sequence, recent)
      }
      if (unknown.length === 0) return found
      const { rows } = yield* queries.query<StreamRow>(
        `SELECT ${columns} FROM log WHERE first IN (
           SELECT (SELECT max(first) FROM log WHERE first > $1 AND first <= asked) FROM unnest($2::bigint[]) AS asked
         )`,
        [floorOf(this.id), unknown],
      )
      const wanted = new Set(unknown)
      for (const row of rows) {
        for (const { entry } of storedOf(row, () => {}))
          if (wanted.has(entry.sequence)) found.set(entry.sequence, entry)
      }
      return found
    })
  }

  // --- the lanes -------------------------------------------------------------

  /** Dead letters were added or removed. */
  recount(): void {
    this.letters.changed()
  }

  /** Lanes that begin with entries, of which the first will have the sequence `first`. */
  missingLanes(entries: ReadonlyArray<Entry>, first: number): ReadonlyArray<string> {
    const missing = new Set<string>()
    let last: ReadonlyArray<string> | undefined
    for (const { sinks } of entries) {
      // The router gives the same array for the same type.
      if (sinks === last) continue
      last = sinks
      for (const lane of this.names.lanesOf(sinks, first)) if (!this.backlogs.has(lane)) missing.add(lane)
    }
    return [...missing]
  }

  /** Adds lanes to the progress, at the end of the log; those that are there stay as they are. */
  insertLanes(queries: Queries, names: ReadonlyArray<string>) {
    const place: Place = { sequence: this.end, settled: [], pausedFor: 0 }
    const places = names.map((name) => [name, place])
    return queries.query(
      `INSERT INTO progress (stream, lanes) VALUES ($1, $2::jsonb)
       ON CONFLICT (stream) DO UPDATE SET lanes = excluded.lanes || progress.lanes
       WHERE NOT progress.lanes ?& $3::text[]`,
      [this.id, JSON.stringify(Object.fromEntries(places)), names],
    )
  }
}
