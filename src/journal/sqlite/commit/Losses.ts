/**
 * Events that were lost before they were delivered. As soon as a loss is found, they no longer count as
 * duplicates, across restarts. So a sender repairs the loss by sending them again.
 *
 * An event that every sink had received still counts as a duplicate.
 */
import type { DatabaseSync } from "node:sqlite"
import type { JournalStatus } from "../../Archive.ts"
import { lossRecord, type Operation } from "../../AuditLog.ts"
import { damagedLine, lostLine, maxLines, withLosses } from "../../archive/AlarmLines.ts"
import { type DuplicateKey, keyAt, ranges } from "../../stream/DuplicateKey.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import type { LogRows } from "../rows/LogRows.ts"
import { meta, setMeta } from "../rows/Rows.ts"
import type { Duplicates } from "./Duplicates.ts"
import type { LaneStore } from "./LaneStore.ts"

/** The alarm of an open journal. */
export class Alarm {
  /** The lines to display, and the time of the first loss in epoch milliseconds: 0 if there is none. */
  raised: JournalStatus["alarm"]
  readonly #db: DatabaseSync
  readonly #audit: AuditRows
  /** Lines beyond the number that is displayed. */
  readonly #beyond = new Set<string>()
  /** Records that aren't in the audit log yet. */
  #unrecorded: Array<Operation> = []

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#audit = new AuditRows(db)
    const lines = (meta(db, "red") ?? "").split("\n").filter((line) => line !== "")
    this.raised = { lines, since: lines.length === 0 ? 0 : Number(meta(db, "red_since") ?? Date.now()) }
  }

  /** Adds a line. Returns true if it is new; then `store` makes it durable. */
  add(line: string): boolean {
    const at = Date.now()
    const { lines, since, added } = withLosses(this.raised, [[line, at]])
    if (added.length === 0 || this.#beyond.has(line)) return false
    if (this.raised.lines.length >= maxLines) this.#beyond.add(line)
    this.raised = { lines, since }
    this.#unrecorded.push(lossRecord(at, line))
    return true
  }

  /** Stores the lines within the caller's transaction. The audit log gets every new line. */
  store(): void {
    setMeta(this.#db, "red", this.raised.lines.join("\n"))
    setMeta(this.#db, "red_since", String(this.raised.since))
    for (const record of this.#unrecorded) this.#audit.add(record)
    this.#unrecorded = []
  }

  /** Clears the alarm within the caller's transaction. Call the returned function after the commit. */
  clear(): () => void {
    setMeta(this.#db, "red", "")
    return () => {
      this.raised = { lines: [], since: 0 }
      this.#beyond.clear()
    }
  }
}

/** The parts of the engine that a loss affects. */
interface Concerned {
  readonly log: LogRows
  readonly duplicates: Duplicates
  readonly lanes: LaneStore
  readonly store: { readonly path: string; readonly db: DatabaseSync }
  raiseAlarm(message: string): void
}

/** Reports losses and stores them. `storeSoon` runs work with the next commit. */
export class Losses {
  readonly #engine: Concerned
  readonly #known: Array<readonly [from: number, to: number]>
  readonly #insert
  readonly #storeSoon: (work: () => void) => void

  constructor(engine: Concerned, storeSoon: (work: () => void) => void) {
    const { db } = engine.store
    this.#engine = engine
    this.#storeSoon = storeSoon
    this.#insert = db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)")
    this.#known = db
      .prepare("SELECT first, last FROM hole")
      .all()
      .map(({ first, last }) => [Number(first), Number(last)] as const)
  }

  /** Reports whether an event is among the known losses. */
  has(sequence: number): boolean {
    return this.#known.some(([from, to]) => from <= sequence && sequence <= to)
  }

  /** Reports lost events of a row of the log. Those that a lane still waits for no longer count as duplicates. */
  ofLog(from: number, to: number, why: string): void {
    const { log, duplicates, store } = this.#engine
    this.#engine.raiseAlarm(lostLine([from, to], store.path, why))
    const row = log.keysOf(log.rowStart(from) - 1, 1)[0]
    if (row === undefined || row.first > from) return
    const forgotten: Array<number> = []
    for (let sequence = from; sequence <= Math.min(to, row.first + row.count - 1); sequence++) {
      const key = keyAt(row.keys, sequence - row.first)
      if (key === undefined || !key.isDelivery || this.has(sequence)) continue
      if (!this.#isPending(sequence, row.routes[key.route])) continue
      duplicates.forget(key)
      forgotten.push(sequence)
    }
    if (forgotten.length > 0) this.#remember(ranges(forgotten))
  }

  /** Reports that a lane's copy of an event is lost. */
  ofLane(lane: string, sequence: number, key: DuplicateKey | undefined): void {
    this.#engine.raiseAlarm(damagedLine([sequence, sequence], ` of lane ${this.#engine.lanes.ids.nameOf(lane)}`))
    this.#ofCopy(sequence, key)
  }

  /** Reports the loss of a pending event that is no longer in the log. `sinks` is absent if they are damaged too. */
  ofPending(sequence: number, sinks: ReadonlyArray<string> | undefined, key: DuplicateKey | undefined): void {
    this.#engine.log.damaged(sequence)
    if (this.#isPending(sequence, sinks)) this.#ofCopy(sequence, key)
  }

  /** A replay has no key, because it isn't a delivery. */
  #ofCopy(sequence: number, key: DuplicateKey | undefined): void {
    if (key === undefined || this.has(sequence)) return
    this.#engine.duplicates.forget(key)
    this.#remember([[sequence, sequence]])
  }

  #remember(lost: ReadonlyArray<readonly [from: number, to: number]>): void {
    this.#known.push(...lost)
    this.#storeSoon(() => {
      for (const [first, last] of lost) this.#insert.run(first, last)
    })
  }

  /**
   * Reports whether a lane waits for an event. If the route is damaged, every lane that has not passed the
   * event may wait for it.
   */
  #isPending(sequence: number, sinks: ReadonlyArray<string> | undefined): boolean {
    for (const [name, backlog] of this.#engine.lanes.backlogs) {
      if ((sinks === undefined || sinks.includes(name)) && backlog.isPending(sequence)) return true
    }
    return false
  }
}
