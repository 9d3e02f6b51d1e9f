/**
 * A stream in the database, and in memory what is asked of it all the time.
 *
 * **Guarantee.** What it stores carries the epoch under which it was taken. Once
 * another relay has taken it, nothing is stored any more and nothing is begun: it
 * is lost, for good.
 */
import { Effect } from "effect"
import type { Entry } from "../../event/Entry.ts"
import { fenced, type JournalError } from "../JournalError.ts"
import type { OpenOptions } from "../StreamLog.ts"
import { Backlog } from "../stream/Backlog.ts"
import { keyWidth, notDelivered } from "../stream/CommitBatch.ts"
import { HeadWaiters } from "../stream/HeadWaiters.ts"
import { RecentEntries } from "../stream/RecentEntries.ts"
import type { Database, Queries } from "./Database.ts"
import type { DatabaseError } from "./DatabaseError.ts"
import { refusing } from "./DatabaseRefusal.ts"
import { type KnownRow, KnownRows, mark } from "./KnownRows.ts"
import * as LaneTables from "./LaneTables.ts"
import { LetterCounts } from "./LetterCounts.ts"
import { ceilingOf, floorOf, voidKey } from "./Sequences.ts"
import { columns, type StreamRow, storedOf } from "./StreamRows.ts"

/** Bytes that are read at a time, about. */
export const readBytes = 4 * 1024 * 1024
/** Rows that are looked through at a time. */
const rowsAtOnce = 256

/** What a stream needs of the relay that owns it. */
export interface Owner {
  readonly db: Database
  /** Whether this relay's last sign of life is young enough that no other can have taken its streams. */
  readonly isAlive: () => boolean
  /** Milliseconds of a steady clock. */
  readonly now: () => number
  readonly isPaused: (sink: string) => boolean
  readonly revisionOf: (sink: string) => number
  readonly opened: (stream: StreamState, sink: string, options: OpenOptions) => Effect.Effect<void, JournalError>
  /** An event can't be read as it was written. */
  readonly damaged: (sequence: number) => void
}

export class StreamState {
  readonly id: number
  readonly epoch: number
  /** The highest sequence that is durable. */
  end: number
  readonly backlogs = new Map<string, Backlog>()
  /** Lanes that run, or ran. */
  readonly open = new Set<string>()
  recent = new RecentEntries()
  /** The newest rows, by which it is seen that a failover lost some. */
  readonly known = new KnownRows()
  /** Bytes of its rows. */
  bytes = 0
  /** Where deleting old rows goes on. */
  prunedTo: number
  /** Events of its rows. */
  kept = 0
  /** Numbers that were given to duplicates, those of rows that were deleted included. */
  void = 0
  isLost = false
  /** Why the progress of its lanes could not be stored last; empty when it could. */
  trouble = ""
  /** Nothing is delivered before this, in milliseconds of the owner's clock. */
  notBefore = Number.NEGATIVE_INFINITY
  onLost: () => void = () => {}

  readonly owner: Owner
  readonly waiting = new HeadWaiters()
  /** Of the dead letters that its lanes have. */
  readonly letters: LetterCounts

  constructor(owner: Owner, id: number, epoch: number) {
    this.owner = owner
    this.id = id
    this.epoch = epoch
    this.end = floorOf(id)
    this.prunedTo = this.end
    this.letters = new LetterCounts(LaneTables.letterCounts(owner.db, id), owner.now)
  }

  /** Events that were appended since the stream began. */
  get accepted(): number {
    return this.end - floorOf(this.id) - this.void
  }

  // --- ownership -------------------------------------------------------------

  mayStart(): boolean {
    return !this.isLost && this.owner.isAlive() && this.owner.now() >= this.notBefore
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

  /** Work in one transaction, which fails when the stream is lost. */
  transact<A>(work: (queries: Queries) => Effect.Effect<A, JournalError | DatabaseError>) {
    const { db } = this.owner
    return refusing(
      db.transact((queries) =>
        Effect.gen({ self: this }, function* () {
          const { rows } = yield* queries.query("SELECT id FROM stream WHERE id = $1 AND epoch = $2 FOR SHARE", [
            this.id,
            this.epoch,
          ])
          if (rows.length === 0) {
            this.lost()
            return yield* this.fencedError
          }
          return yield* work(queries)
        }),
      ),
    )
  }

  // --- the log ---------------------------------------------------------------

  /** Entries were committed, at the head. */
  push(entries: ReadonlyArray<Entry>, row: KnownRow, bytes: number): void {
    const end = row.first + row.count - 1
    let voids = 0
    for (const { sequence, sinks, duplicate } of entries) {
      if (duplicate === true) voids += 1
      this.routed(sequence, sinks)
    }
    // One that can't be read leaves a gap: what is in memory has none.
    if (entries.length < end - this.end) this.recent = new RecentEntries()
    else this.recent.push(entries)
    this.kept += row.count - voids
    this.void += voids
    this.end = end
    this.known.push(row)
    this.bytes += bytes + row.count * keyWidth
    this.waiting.reached(end)
  }

  routed(sequence: number, sinks: ReadonlyArray<string>): void {
    for (const sink of sinks) {
      const backlog = this.backlogs.get(sink) ?? new Backlog(sink, { sequence: sequence - 1, settled: [] })
      this.backlogs.set(sink, backlog)
      backlog.routed(sequence)
    }
  }

  read(after: number, limit: number, reader?: string): Effect.Effect<ReadonlyArray<Entry>, JournalError> {
    return Effect.suspend((): Effect.Effect<ReadonlyArray<Entry>, JournalError> => {
      if (this.isLost) return Effect.fail(this.fencedError)
      if (after + 1 >= this.recent.first) return Effect.succeed(this.recent.read(after, limit, reader))
      if (after >= this.end) return Effect.succeed([])
      return Effect.map(refusing(this.rows(after)), (rows) => {
        const entries = rows.flatMap((row) => storedOf(row, this.owner.damaged)).map(({ entry }) => entry)
        const asked = entries.filter(({ sequence }) => sequence > after && sequence <= this.end).slice(0, limit)
        return this.recent.taken(asked, reader)
      })
    })
  }

  /** Rows that hold something above `after`, some megabytes of them. */
  rows(after: number) {
    const { db } = this.owner
    return Effect.map(
      db.query<StreamRow>(
        `SELECT ${columns} FROM (
           SELECT ${columns}, sum(octet_length(bytes)) OVER (ORDER BY first) - octet_length(bytes) AS before FROM (
             SELECT ${columns} FROM log
             WHERE first >= coalesce((SELECT max(first) FROM log WHERE first > $1 AND first <= $2), $2) AND first < $3
             ORDER BY first LIMIT ${rowsAtOnce}
           ) AS next
         ) AS sized WHERE before < ${readBytes} ORDER BY first`,
        [floorOf(this.id), after + 1, ceilingOf(this.id)],
      ),
      ({ rows }) => rows,
    )
  }

  /** Takes what other relays have appended: to the shared stream. */
  get follow() {
    const { db, damaged } = this.owner
    return Effect.map(
      db.query<StreamRow & KnownRow>(
        `SELECT ${columns}, ${mark} AS mark FROM log WHERE first > $1 AND first < $2 ORDER BY first LIMIT ${rowsAtOnce}`,
        [this.end, ceilingOf(this.id)],
        { name: "follow" },
      ),
      ({ rows }) => {
        for (const row of rows) {
          this.push(
            storedOf(row, damaged).map(({ entry }) => entry),
            row,
            row.bytes.length,
          )
        }
      },
    )
  }

  /** Entries by their sequences, from memory or from the log. */
  find(queries: Queries, sequences: ReadonlyArray<number>) {
    return Effect.gen({ self: this }, function* () {
      const found = new Map<number, Entry>()
      for (const sequence of sequences) {
        if (found.has(sequence)) continue
        const recent = this.recent.get(sequence)
        if (recent !== undefined) found.set(sequence, recent)
        else {
          const { rows } = yield* queries.query<StreamRow>(
            `SELECT ${columns} FROM log WHERE first > $1 AND first <= $2 ORDER BY first DESC LIMIT 1`,
            [floorOf(this.id), sequence],
          )
          for (const row of rows) {
            for (const { entry } of storedOf(row, () => {})) found.set(entry.sequence, entry)
          }
        }
      }
      return found
    })
  }

  // --- the lanes -------------------------------------------------------------

  /** Dead letters were added or removed. */
  recount(): void {
    this.letters.changed()
  }

  /** Adds lanes to the progress, as they stand in memory; those that are there stay as they are. */
  insertLanes(queries: Queries, names: ReadonlyArray<string>) {
    const places = names.map((name) => {
      const { cursor, pausedFor } = this.backlogs.get(name) ?? new Backlog(name, { sequence: this.end, settled: [] })
      return [name, { ...cursor, pausedFor } satisfies LaneTables.Place]
    })
    return queries.query(
      `INSERT INTO progress (stream, lanes) VALUES ($1, $2::jsonb)
       ON CONFLICT (stream) DO UPDATE SET lanes = excluded.lanes || progress.lanes
       WHERE NOT progress.lanes ?& $3::text[]`,
      [this.id, JSON.stringify(Object.fromEntries(places)), names],
    )
  }

  // --- what is kept ----------------------------------------------------------

  /** Reads from the database where the stream stands. */
  get load(): Effect.Effect<void, JournalError> {
    return refusing(
      Effect.gen({ self: this }, function* () {
        const { db } = this.owner
        const range = [floorOf(this.id), ceilingOf(this.id)]
        const { rows: heads } = yield* db.query<{ head: number | null; kept: number; void: number; bytes: number }>(
          `SELECT max(first + count - 1) AS head, coalesce(sum(count - cardinality(void)), 0)::bigint AS kept,
             coalesce(sum(cardinality(void)), 0)::bigint
               + coalesce((SELECT value::bigint FROM meta WHERE key = $3), 0) AS void,
             coalesce(sum(octet_length(bytes) + octet_length(keys)), 0)::bigint AS bytes
           FROM log WHERE first > $1 AND first < $2`,
          [...range, voidKey(this.id)],
        )
        this.end = heads[0]?.head ?? floorOf(this.id)
        this.kept = heads[0]?.kept ?? 0
        this.void = heads[0]?.void ?? 0
        this.bytes = heads[0]?.bytes ?? 0
        const { rows: newest } = yield* db.query<KnownRow>(
          `SELECT first, count, ${mark} AS mark FROM log WHERE first > $1 AND first < $2 ORDER BY first DESC LIMIT 1`,
          range,
        )
        this.known.clear()
        for (const row of newest) this.known.push(row)
        yield* this.loadPlaces
        const { rows: retries } = yield* db.query<{ lane: string; sequence: number }>(
          "SELECT lane, sequence FROM retry WHERE sequence > $1 AND sequence < $2",
          range,
        )
        for (const { lane, sequence } of retries) this.backlogs.get(lane)?.retrying.add(sequence)
        let after = Math.min(...[...this.backlogs.values()].map(({ cursor }) => cursor.sequence), this.end)
        for (let more = after < this.end; more; ) {
          const rows = yield* this.keysAbove(after)
          for (const row of rows) {
            this.#loadRow(row)
            after = row.first + row.count - 1
          }
          more = rows.length === rowsAtOnce
        }
        for (const backlog of this.backlogs.values()) backlog.recount()
        yield* this.letters.newest
      }),
    )
  }

  /** The cursors of its lanes; of those that run, memory is ahead. */
  get loadPlaces() {
    return Effect.gen({ self: this }, function* () {
      const before = [...this.backlogs.keys()]
      const { rows } = yield* this.owner.db.query<{ lanes: Readonly<Record<string, LaneTables.Place>> }>(
        "SELECT lanes FROM progress WHERE stream = $1",
        [this.id],
      )
      const places = rows[0]?.lanes ?? {}
      for (const [lane, { pausedFor, ...cursor }] of Object.entries(places)) {
        if (this.open.has(lane)) continue
        const backlog = this.backlogs.get(lane) ?? new Backlog(lane, cursor)
        this.backlogs.set(lane, backlog)
        backlog.pausedFor = pausedFor
        if (backlog.cursor.sequence !== cursor.sequence) backlog.settle(cursor)
      }
      // Another relay has moved or dropped them.
      for (const lane of before) if (!this.open.has(lane) && places[lane] === undefined) this.backlogs.delete(lane)
    })
  }

  keysAbove(after: number) {
    return Effect.map(
      this.owner.db.query<KeysRow>(
        `SELECT first, count, received_to, routes, keys, void FROM log
         WHERE first >= coalesce((SELECT max(first) FROM log WHERE first > $1 AND first <= $2), $2) AND first < $3
         ORDER BY first LIMIT ${rowsAtOnce}`,
        [floorOf(this.id), after + 1, ceilingOf(this.id)],
      ),
      ({ rows }) => rows,
    )
  }

  #loadRow({ first, count, routes, keys, void: voids }: KeysRow): void {
    const lists = JSON.parse(routes) as ReadonlyArray<ReadonlyArray<string>>
    const view = Buffer.from(keys.buffer, keys.byteOffset, keys.byteLength)
    for (let place = 0; place < count; place++) {
      if (voids.includes(place)) continue
      const route = view.readUInt32LE(place * keyWidth + 12)
      for (const sink of lists[route & ~notDelivered] ?? []) this.backlogs.get(sink)?.routed(first + place)
    }
  }

  /** Whether any lane waits for something from `from` to `to`. */
  isPending(from: number, to: number): boolean {
    for (const backlog of this.backlogs.values()) if (backlog.pendingWithin(from, to).length > 0) return true
    return false
  }
}

interface KeysRow {
  readonly first: number
  readonly count: number
  readonly received_to: number
  readonly routes: string
  readonly keys: Uint8Array
  readonly void: ReadonlyArray<number>
}
