/** Losses that a person has to know of: the journal is `red` until they are acknowledged, across restarts. */
import type { DatabaseSync } from "node:sqlite"
import { meta, setMeta } from "../rows/Meta.ts"

const maxLines = 20

/** The alarm of an open journal. */
export class Alarm {
  /** One line per loss; empty when there is none. */
  message: string
  /** When the first was found, in epoch milliseconds; 0 when there is none. */
  since: number
  readonly #db: DatabaseSync

  constructor(db: DatabaseSync) {
    this.#db = db
    this.message = meta(db, "red") ?? ""
    this.since = this.message === "" ? 0 : Number(meta(db, "red_since") ?? Date.now())
  }

  /** Whether the line is new: `store` makes it durable. */
  add(line: string): boolean {
    const lines = this.message === "" ? [] : this.message.split("\n")
    if (lines.includes(line) || lines.length > maxLines) return false
    if (this.message === "") this.since = Date.now()
    lines.push(lines.length < maxLines ? line : "There is more: `relay journal check` lists all of it.")
    this.message = lines.join("\n")
    return true
  }

  /** Within a transaction of the caller's. */
  store(): void {
    setMeta(this.#db, "red", this.message)
    setMeta(this.#db, "red_since", String(this.since))
  }

  /** Within a transaction of the caller's; what it returns comes after the commit. */
  clear(): () => void {
    setMeta(this.#db, "red", "")
    return () => {
      this.message = ""
      this.since = 0
    }
  }
}
