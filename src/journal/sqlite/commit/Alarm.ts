/** Losses that a person has to know of: the journal is `red` until they are acknowledged, across restarts. */
import type { DatabaseSync } from "node:sqlite"
import { lossRecord, type Operation } from "../../AuditLog.ts"
import * as AlarmLines from "../../stream/AlarmLines.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { meta, setMeta } from "../rows/Meta.ts"

/** The alarm of an open journal. */
export class Alarm {
  /** One line per loss; empty when there is none. */
  message: string
  /** When the first was found, in epoch milliseconds; 0 when there is none. */
  since: number
  readonly #db: DatabaseSync
  readonly #audit: AuditRows
  /** Lines that are not shown, because there are too many. */
  readonly #beyond = new Set<string>()
  /** Records that the audit log lacks. */
  #unrecorded: Array<Operation> = []

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#audit = new AuditRows(db)
    this.message = meta(db, "red") ?? ""
    this.since = this.message === "" ? 0 : Number(meta(db, "red_since") ?? Date.now())
  }

  /** Whether the line is new: `store` makes it durable. */
  add(line: string): boolean {
    const lines = this.message === "" ? [] : this.message.split("\n")
    if (lines.includes(line) || this.#beyond.has(line)) return false
    if (this.message === "") this.since = Date.now()
    if (lines.length >= AlarmLines.maxLines) this.#beyond.add(line)
    this.message = AlarmLines.shown([...lines, line]).join("\n")
    this.#unrecorded.push(lossRecord(Date.now(), line))
    return true
  }

  /** Within a transaction of the caller's: the audit log keeps every new line. */
  store(): void {
    setMeta(this.#db, "red", this.message)
    setMeta(this.#db, "red_since", String(this.since))
    for (const record of this.#unrecorded) this.#audit.add(record)
    this.#unrecorded = []
  }

  /** Within a transaction of the caller's; what it returns comes after the commit. */
  clear(): () => void {
    setMeta(this.#db, "red", "")
    return () => {
      this.message = ""
      this.since = 0
      this.#beyond.clear()
    }
  }
}
