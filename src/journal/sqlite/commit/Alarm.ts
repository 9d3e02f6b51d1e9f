/** Losses that an operator must know of: the journal is `red` until they are acknowledged, across restarts. */
import type { DatabaseSync } from "node:sqlite"
import { lossRecord, type Operation } from "../../AuditLog.ts"
import { maxLines, withLosses } from "../../archive/AlarmLines.ts"
import type { JournalStatus } from "../../JournalStatus.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { meta, setMeta } from "../rows/Meta.ts"

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
