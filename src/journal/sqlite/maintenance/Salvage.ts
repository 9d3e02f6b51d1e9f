/**
 * Reads everything that is left in a damaged journal: first through SQLite, skipping the parts that it can't
 * read, then page by page. The file is never changed.
 *
 * Each line names the lanes that had not settled the event, so that `journal import` can append it for them.
 */
import { randomBytes } from "node:crypto"
import type { DatabaseSync } from "node:sqlite"
import type { Entry, Event } from "../../../event/Event.ts"
import { orUndefined } from "../../../event/Tolerance.ts"
import { sendable } from "../../archive/Erasure.ts"
import type { Attempt } from "../../DeliveryStatus.ts"
import type { Cursor } from "../../Settlement.ts"
import { isPassed } from "../../stream/Cursors.ts"
import { decode, decodeAll, decodeRow } from "../../stream/Record.ts"
import { CursorRows } from "../rows/CursorRows.ts"
import { refusal } from "../rows/Migrations.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"
import { bytes, int, list, meta, type Row } from "../rows/Rows.ts"
import * as Pages from "./Pages.ts"
import { isNewer, openReadable, type Readable } from "./Repair.ts"

/** Tables with one record per row, of events that a lane still needs. */
const keptTables = ["dead", "retry_record", "owed"] as const

/** A line of a salvaged file. */
export interface SalvagedLine extends Omit<Event, "body"> {
  /** The random id of the journal, so that the same event is imported only once. */
  readonly journal: string
  readonly in: "log" | "dead" | "retrying" | "owed"
  /** The lanes that had not settled the event. For `retrying` and `dead` it is the lane itself. */
  readonly pending: ReadonlyArray<string>
  readonly sequence: number
  readonly sinks: ReadonlyArray<string>
  readonly replayed: boolean
  readonly bodyBase64: string
  /** For a dead letter: since when, in epoch milliseconds, and its attempts. */
  readonly at?: number
  readonly attempts?: ReadonlyArray<Attempt>
}

/** The extent of the losses. */
export interface SalvageResult {
  /** Sequences with only a damaged record. */
  readonly damaged: ReadonlyArray<number>
  /** Number of parts of the file that couldn't be read. */
  readonly unreadable: number
  /** Number of events found only in the pages, without SQLite. */
  readonly fromPages: number
  /** True if SQLite refused the file, and a repaired copy was read. */
  readonly repaired: boolean
}

/** Returns the tables of {@link keptTables} that the file has. */
export const tablesOf = (db: DatabaseSync): ReadonlyArray<(typeof keptTables)[number]> =>
  keptTables.filter((table) => orUndefined(() => db.prepare(`SELECT record FROM ${table}`)) !== undefined)

/** Reads a table's rows by rowid. Returns `undefined` once for each part that can't be read. */
const rowsOf = function* (db: DatabaseSync, table: string): Generator<Row | undefined> {
  const after = orUndefined(() =>
    db.prepare(`SELECT rowid AS place, * FROM ${table} WHERE rowid >= ? ORDER BY rowid LIMIT 1`),
  )
  if (after === undefined) return yield undefined
  const last = orUndefined(() => int(db.prepare(`SELECT max(rowid) AS last FROM ${table}`).get()?.last ?? 0)) ?? 2 ** 40
  let next = 0
  let step = 1
  while (next <= last) {
    const found = orUndefined(() => ({ row: after.get(next) }))
    if (found === undefined) {
      if (step === 1) yield undefined
      next += step
      step *= 2
      continue
    }
    if (found.row === undefined) return
    yield found.row
    // SQLite may return an earlier row of a damaged page.
    next = Math.max(next, int(found.row.place)) + 1
    step = 1
  }
}

interface FoundLanes {
  readonly cursors: ReadonlyMap<string, Cursor>
  /**
   * Up to this sequence the list of lanes is complete: a sink without a lane was renamed or removed. It is 0 if
   * that isn't known.
   */
  readonly wholeTo: number
}

/** Returns the highest assigned sequence in the state of the file from which SQLite reads the lanes. */
const headOf = (db: DatabaseSync): number =>
  orUndefined(() => {
    const last = int(db.prepare("SELECT max(first + count - 1) AS last FROM log").get()?.last ?? 0)
    return Math.max(last, int(meta(db, "base") ?? 0))
  }) ?? 0

const lanesOf = ({ db, isOriginal }: Readable): FoundLanes => {
  if (db === undefined) return { cursors: new Map(), wholeTo: 0 }
  const found = orUndefined(() => new CursorRows(db).find())
  if (found !== undefined) {
    const cursors = new Map(found.rows.map(({ name, cursor }) => [name, cursor]))
    // Pages of a repaired copy may be from different times.
    return { cursors, wholeTo: isOriginal && found.isListed && !found.damaged ? headOf(db) : 0 }
  }
  // The list of names may be damaged although the cursors can be read.
  const rows = orUndefined(() => db.prepare("SELECT name, cursor, settled FROM lane").all().map(unchecked)) ?? []
  return { cursors: new Map(rows), wholeTo: 0 }
}

/** The row's checksum is not verified. Ranges that can't be read are empty, so their events are salvaged again. */
const unchecked = ({ name, cursor, settled }: Row) =>
  [
    String(name),
    { sequence: int(cursor), settled: list<Cursor["settled"][number]>(settled).filter(Array.isArray) },
  ] as const

class Salvage {
  readonly damaged = new Set<number>()
  unreadable = 0
  fromPages = 0
  readonly #seen = new Set<string>()
  readonly #identity: string
  readonly #lanes: FoundLanes
  /** Without them a lane has its id as name, which is its first name. */
  readonly #names: NamedLanes | undefined
  readonly #path: string
  readonly #onProgress: (share: number) => void
  readonly #db: DatabaseSync | undefined

  constructor(path: string, readable: Readable, onProgress: (share: number) => void) {
    const { db } = readable
    this.#path = path
    this.#onProgress = onProgress
    this.#db = db
    // If it can't be read, the events count as events of a journal that was never imported.
    this.#identity = orUndefined(() => db && meta(db, "identity")) ?? randomBytes(16).toString("hex")
    this.#lanes = lanesOf(readable)
    this.#names = orUndefined(() => db && new NamedLanes(db))
  }

  /** Returns the lanes that have not settled the event, including lanes whose cursors can't be read. */
  #pending(entry: Entry): ReadonlyArray<string> {
    const { sequence, sinks } = sendable(entry)
    const { cursors, wholeTo } = this.#lanes
    return sinks.filter((sink) => {
      const cursor = cursors.get(sink)
      return cursor === undefined ? sequence > wholeTo : !isPassed(cursor, sequence)
    })
  }

  #line(place: SalvagedLine["in"], pending: ReadonlyArray<string>, entry: Entry, row?: Row): SalvagedLine {
    for (const lane of pending) this.#seen.add(`${entry.sequence} ${lane}`)
    this.#seen.add(String(entry.sequence))
    const { body, ...facts } = entry.event
    return {
      journal: this.#identity,
      in: place,
      pending: this.#names?.namesOf(pending) ?? pending,
      sequence: entry.sequence,
      ...facts,
      sinks: this.#names?.namesOf(entry.sinks) ?? entry.sinks,
      replayed: entry.replayed,
      bodyBase64: Buffer.from(body).toString("base64"),
      ...(place === "dead" && { at: int(row?.at ?? 0), attempts: list<Attempt>(row?.attempts) }),
    }
  }

  /** Pending events, retries and dead letters come first, because they are older than those in the log. */
  *lines(): Generator<SalvagedLine> {
    if (this.#db !== undefined) {
      for (const table of tablesOf(this.#db)) yield* this.#kept(this.#db, table)
      yield* this.#log(this.#db)
    }
    yield* this.#pages()
  }

  *#kept(db: DatabaseSync, table: (typeof keptTables)[number]): Generator<SalvagedLine> {
    for (const row of rowsOf(db, table)) {
      if (row === undefined) {
        this.unreadable++
        continue
      }
      const entry = decode(bytes(row.record), int(row.sequence))
      if (entry === undefined) this.damaged.add(int(row.sequence))
      else
        yield this.#line(
          table === "retry_record" ? "retrying" : table,
          "lane" in row ? [String(row.lane)] : this.#pending(entry),
          entry,
          row,
        )
    }
  }

  *#log(db: DatabaseSync): Generator<SalvagedLine> {
    const ends = orUndefined(() => db.prepare("SELECT min(first) AS first, max(first) AS last FROM log").get())
    for (const row of rowsOf(db, "log")) {
      this.#onProgress(
        (int(row?.first ?? 0) - int(ends?.first ?? 0)) / Math.max(1, int(ends?.last ?? 0) - int(ends?.first ?? 0)),
      )
      if (row === undefined) {
        this.unreadable++
        continue
      }
      const decoded = decodeRow(bytes(row.bytes), int(row.first), int(row.count))
      for (const sequence of decoded.damaged) this.damaged.add(sequence)
      for (const { entry } of decoded.stored) yield this.#line("log", this.#pending(entry), entry)
    }
  }

  /**
   * Reads the pages themselves. They still hold pruned rows of the log, so only rows that a lane waits for
   * count. Deleted rows of the other tables look like lost ones, so those count only if the tables couldn't be
   * read to their end.
   */
  *#pages(): Generator<SalvagedLine> {
    const isWhole = this.#db !== undefined && this.unreadable === 0
    for (const { columns } of Pages.rows(this.#path)) {
      const [lane, , at] = columns
      const entries = columns.flatMap((column) => (column instanceof Uint8Array ? decodeAll(column) : []))
      for (const entry of entries) {
        const isOutsideLog = typeof lane === "string"
        if (isOutsideLog ? isWhole : this.#seen.has(String(entry.sequence))) continue
        const pending = (isOutsideLog ? [lane] : this.#pending(entry)).filter(
          (lane) => !this.#seen.has(`${entry.sequence} ${lane}`),
        )
        if (pending.length === 0) continue
        this.fromPages++
        this.damaged.delete(entry.sequence)
        const isDead = isOutsideLog && typeof at === "number"
        yield this.#line(isDead ? "dead" : isOutsideLog ? "retrying" : "log", pending, entry, {
          at: typeof at === "number" ? at : null,
          attempts: isDead ? String(columns[5]) : null,
        })
      }
    }
  }
}

/**
 * Returns every event that can be read from the journal at `path`. Repaired copies are created in `directory`.
 * `onProgress` is called with the share of the log that was read, from 0 to 1.
 */
export const lines = function* (
  path: string,
  directory: string,
  onProgress: (share: number) => void = () => {},
): Generator<SalvagedLine, SalvageResult> {
  const readable = openReadable(path, directory)
  try {
    if (readable.db !== undefined && isNewer(readable.db)) throw new Error(refusal(readable.db, path))
    const salvage = new Salvage(path, readable, onProgress)
    yield* salvage.lines()
    const { damaged, unreadable, fromPages } = salvage
    return { damaged: [...damaged].sort((a, b) => a - b), unreadable, fromPages, repaired: !readable.isOriginal }
  } finally {
    readable.close()
  }
}
