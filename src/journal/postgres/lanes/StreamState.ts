/**
 * A stream in the database, with the state that is needed all the time in memory.
 *
 * **Guarantee.** Each write carries the epoch under which the stream was claimed, and an epoch belongs to a
 * timeline. If another relay has claimed the stream, another server was promoted, or the database went back to
 * an earlier state, nothing is stored and no attempt starts any more. This state is then lost for good, and the
 * stream's owner reads the stream again.
 */
import { Effect, type Result } from "effect"
import type { Entry, Event } from "../../../event/Event.ts"
import { sendable } from "../../archive/Erasure.ts"
import type { OpenOptions } from "../../Journal.ts"
import { fenced, type JournalError } from "../../JournalError.ts"
import type { Pause } from "../../LaneInfo.ts"
import { ceilingOf, floorOf } from "../../Sequences.ts"
import { Backlogs, Passing } from "../../stream/Backlog.ts"
import { readBytes } from "../../stream/BulkSlices.ts"
import { keyWidth } from "../../stream/DuplicateKey.ts"
import { HeadWaiters, RecentEntries } from "../../stream/RecentEntries.ts"
import type { Database, Queries } from "../connection/Database.ts"
import { type DatabaseError, refusing } from "../connection/DatabaseError.ts"
import { type KnownRow, KnownRows, knownColumns, lostParams, lostRows } from "../tables/KnownRows.ts"
import { LaneNames, nothingStored, type Place } from "../tables/LaneNames.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import { columns, holding, type StreamRow, storedOf } from "../tables/StreamRows.ts"
import { LetterCounts } from "./LetterCounts.ts"

/** Entries above `after`, up to `to`, in order. There may be gaps. */
export interface Part {
  readonly after: number
  readonly to: number
  readonly entries: ReadonlyArray<Entry>
}

type Reading = Promise<Result.Result<Part, JournalError>>

interface Reader {
  part?: Part
  /** The next part, which is being read. */
  next?: { readonly after: number; readonly read: Reading }
}

const holds = ({ after, to }: Part, at: number): boolean => after <= at && at < to

/** Returns the index of the first entry above `after`. */
const placeOf = (entries: ReadonlyArray<Entry>, after: number): number => {
  let [low, high] = [0, entries.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((entries[middle]?.sequence ?? 0) > after) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * Reads a stream's log for lanes that are behind, a megabyte at a time. While the lanes deliver one part, the next
 * is read. So a read mostly waits for no round trip, wherever the database is.
 *
 * The log changes only when rows that every lane has passed are pruned, so a part in memory stays valid.
 *
 * The readers of a stream that are behind, each with its part.
 */
export class ReadAhead {
  /** Reads a part; it never rejects. */
  readonly #read: (after: number) => Reading
  readonly #readers = new Map<string, Reader>()

  constructor(read: (after: number) => Reading) {
    this.#read = read
  }

  /**
   * Returns at most `limit` entries above `after`, and none at the `end`. It takes a round trip for each
   * megabyte, mostly before the reader asks for it.
   */
  read(reader: string, after: number, limit: number, end: number): Effect.Effect<ReadonlyArray<Entry>, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const own = this.#readers.get(reader) ?? {}
      this.#readers.set(reader, own)
      for (let at = after; at < end; ) {
        const part = own.part !== undefined && holds(own.part, at) ? own.part : yield* this.#part(own, at)
        if (part.to <= at) break
        own.part = part
        const place = placeOf(part.entries, at)
        const entries = part.entries.slice(place, place + limit)
        if (place + limit >= part.entries.length >> 1 && part.to < end) this.#prepare(own, part.to)
        if (entries.length > 0) return entries
        at = part.to
      }
      return []
    })
  }

  /** Drops a reader's part. The reader continues from memory, or stops. */
  forget(reader: string): void {
    this.#readers.delete(reader)
  }

  #part(own: Reader, after: number): Effect.Effect<Part, JournalError> {
    const ready = own.next?.after === after ? own.next.read : this.#read(after)
    delete own.next
    return Effect.flatMap(
      Effect.promise(() => ready),
      Effect.fromResult,
    )
  }

  #prepare(own: Reader, after: number): void {
    if (own.next?.after !== after) own.next = { after, read: this.#read(after) }
  }
}

/** Approximate number of bytes read at a time for a reader that continues. */
export const partBytes = 1024 * 1024
/** Rows searched at a time. */
const rowsAtOnce = 256

/**
 * SQL that reports whether a stream, `$1`, is still held under a claim, `$2`. The claim has the stream's epoch
 * and the owner's last heartbeat. An epoch is valid only on the timeline on which it began. A database that
 * lacks the heartbeat went back to an earlier state.
 */
export const isOwned =
  "id = $1 AND epoch = ($2::text[])[1]::bigint AND epoch >> 32 = timeline() AND knows(($2::text[])[2:])"

/**
 * SQL that reports whether the log has the newest row of {@link StreamState.newestRow}. If a database went back to
 * an earlier state, it may still have the last heartbeat, because no later one was stored. But its log lacks that
 * row, or has another row in its place. Then progress in the former log must not be stored.
 */
export const hasNewestRow = (parameter: number): string => `NOT EXISTS (${lostRows(parameter)})`

/**
 * The last heartbeat that a relay knows to be stored, for the function `knows`: the relay's name and instance,
 * the heartbeat's number and timeline.
 */
export type Sign = readonly [name: string, instance: string, beat: string, timeline: string]

/**
 * Counts a transaction as a heartbeat of this relay. A database that went back to before it lacks that heartbeat, so
 * nothing more is stored there until the stream was read again. It belongs into the last statement, because the next
 * heartbeat waits for the transaction.
 */
export const countAsBeat = (name: string, instance: string): string =>
  `counted AS (UPDATE member SET beat = beat + 1 WHERE name = ${name} AND instance = ${instance} RETURNING beat)`

/** The parts of its owner that a stream needs. */
export interface Owner {
  readonly db: Database
  /** Monotonic time in milliseconds. */
  readonly now: () => number
  /** Reports whether this relay's last heartbeat is recent enough that no other relay can have taken its streams. */
  readonly isAlive: () => boolean
  /** When the last answered heartbeat was sent, in milliseconds of the clock. */
  readonly askedAt: () => number
  readonly sign: () => Sign
  /** Called once a transaction is committed that counts as the heartbeat of this number. */
  readonly beatStored: (beat: number) => void
  readonly pauseOf: (sink: string) => Pause
  /** The sinks that operators have paused. */
  readonly pausedSinks: () => Iterable<string>
  readonly opened: (sink: string, options: OpenOptions) => Effect.Effect<void, JournalError>
  /** Moves the events that a lane still holds under the sink's former name. */
  readonly empty: (stream: StreamState, from: string) => Effect.Effect<void, JournalError>
  /** Runs work while nothing is added to a stream's memory. */
  readonly exclusively: <A, E>(stream: StreamState, work: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Called with the sequence of an event that can't be read as it was written. */
  readonly damaged: (sequence: number) => void
}

/** This relay's knowledge of a stream: its lanes, its newest entries, and whether it is still owned. */
export class StreamState {
  readonly id: number
  readonly epoch: number
  /** True for another relay's stream whose lanes this relay looks at. Its epoch may change at any time. */
  readonly isVisited: boolean
  /** The highest sequence that is durable. */
  end: number
  readonly backlogs = new Backlogs()
  names = LaneNames.of(nothingStored)
  /** Lanes that run, or ran before. */
  readonly open = new Set<string>()
  /** Lanes that may have stored alerts. */
  readonly alerting = new Set<string>()
  recent = new RecentEntries()
  /** The newest rows, which show whether a failover lost some. */
  readonly known = new KnownRows()
  /** Bytes of its rows in the log. */
  bytes = 0
  /** Where the deletion of old rows continues. */
  prunedTo: number
  /** Number of events in its rows. */
  kept = 0
  /** Sequences assigned to duplicates, including those in deleted rows. */
  void = 0
  isLost = false
  /** Why the lanes' progress couldn't be stored last time; empty if it was stored. */
  trouble = ""
  /**
   * Deliveries start once a heartbeat that was sent at this time or later is answered. In milliseconds of the owner's
   * clock.
   */
  notBefore = Number.NEGATIVE_INFINITY
  onLost: () => void = () => {}

  readonly owner: Owner
  /** The end at the time of loading. Up to here the backlogs are counted from routes, which have no checksum. */
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

  /** The parameter `$2` of {@link isOwned}. */
  get claim(): ReadonlyArray<string> {
    return [String(this.epoch), ...this.owner.sign()]
  }

  /** The parameters of {@link countAsBeat}. */
  get beatParams(): readonly [name: string, instance: string] {
    const [name, instance] = this.owner.sign()
    return [name, instance]
  }

  /** Call it once a transaction with {@link countAsBeat} is committed. */
  beatStored(beat: number | undefined): void {
    if (beat !== undefined && !this.isLost) this.owner.beatStored(beat)
  }

  /** The parameters of {@link hasNewestRow}. */
  get newestRow(): ReadonlyArray<unknown> {
    return lostParams(this.known.newest)
  }

  /** Events appended since the stream began. */
  get accepted(): number {
    return this.end - floorOf(this.id) - this.void
  }

  #reading(): ReadAhead {
    return new ReadAhead((after) => Effect.runPromise(Effect.result(this.#part(after, partBytes))))
  }

  /** Drops entries from memory after the log has changed. */
  forgetEntries(): void {
    this.recent = new RecentEntries()
    this.#ahead = this.#reading()
  }

  // --- ownership -------------------------------------------------------------

  mayStart(): boolean {
    return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore
  }

  /** Marks this state as lost for good, so that the stream's owner reads the stream again. */
  lost(): void {
    if (this.isLost) return
    this.isLost = true
    this.onLost()
  }

  get fencedError(): JournalError {
    return fenced(`Another relay has taken the stream ${this.id}: this relay's changes to it are not stored.`)
  }

  /** Runs work in one transaction, which fails if the stream is lost. It takes three round trips more than the work. */
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

  /** Locks the stream's row until the transaction ends. Fails if the stream is lost. */
  holdIn(queries: Queries, lock: "SHARE" | "UPDATE" = "SHARE"): Effect.Effect<void, JournalError | DatabaseError> {
    if (this.isVisited) return Effect.void
    return Effect.flatMap(
      queries.query(`SELECT id FROM stream WHERE ${isOwned} AND ${hasNewestRow(3)} FOR ${lock}`, [
        ...[this.id, this.claim],
        ...this.newestRow,
      ]),
      ({ rows }) => {
        if (rows.length > 0) return Effect.void
        this.lost()
        return Effect.fail(this.fencedError)
      },
    )
  }

  // --- the log ---------------------------------------------------------------

  /** Adds entries that were committed at the head. */
  push(entries: ReadonlyArray<Entry>, row: KnownRow, count: number, bytes: number): void {
    const end = row.first + count - 1
    const lanes = new Set<string>()
    for (const { sequence, sinks, event } of entries) {
      for (const lane of this.routed(sequence, sinks, event)) lanes.add(lane)
    }
    // An unreadable entry leaves a gap, but entries in memory must have none.
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

  /** Skips only existing rows: a server that lost rows may assign their sequences again. */
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

  /** Returns entries with the present lanes of their events. A lane may have been renamed since. */
  #named(entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> {
    if (this.names.isPlain) return entries
    return entries.map((entry) => ({ ...entry, sinks: this.names.lanesOf(entry.sinks, entry.sequence) }))
  }

  /** Reads rows that have entries above `after`, about `bytes` bytes of them. */
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

  /** Reads other relays' appends to the shared stream. Does nothing if this relay no longer owns the stream. */
  get follow() {
    const { db, damaged } = this.owner
    return Effect.map(
      db.query<StreamRow & KnownRow>(
        `SELECT ${columns}, ${knownColumns} FROM log
         WHERE first > $3 AND first < $4 AND EXISTS (SELECT FROM stream WHERE ${isOwned}) AND ${hasNewestRow(5)}
         ORDER BY first LIMIT ${rowsAtOnce}`,
        [this.id, this.claim, this.end, ceilingOf(this.id), ...this.newestRow],
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

  /** Follows the stream until memory covers all entries up to `end`, which are in the log. */
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

  /** Returns entries by their sequences. Those that aren't in memory take one round trip together. */
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

  /** Makes the next count of dead letters a new one. */
  recount(): void {
    this.letters.changed()
  }

  /**
   * Returns lanes that don't exist yet and get some of these entries. The first entry will have the sequence
   * `first`.
   */
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

  /** Adds lanes to the progress, at the end of the log. Existing lanes are kept unchanged. */
  insertLanes(queries: Queries, names: ReadonlyArray<string>) {
    const place: Place = { sequence: this.end, settled: [], pausedFor: 0 }
    const places = names.map((name) => [name, place])
    return queries.query(
      `INSERT INTO progress (stream, lanes) VALUES ($1, $2::jsonb)
       ON CONFLICT (stream) DO UPDATE
       SET lanes = excluded.lanes || progress.lanes, changed = among(progress.lanes, progress.changed)
       WHERE NOT progress.lanes ?& $3::text[]`,
      [this.id, JSON.stringify(Object.fromEntries(places)), names],
    )
  }
}
