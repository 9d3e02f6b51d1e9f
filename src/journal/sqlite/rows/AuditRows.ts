/** The audit log on disk, with a row per operation. Every change is made inside the caller's transaction. */
import type { DatabaseSync } from "node:sqlite"
import { type AuditQuery, type AuditRecord, kept, type Operation } from "../../AuditLog.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import { int, type Row, text } from "./Rows.ts"

export const auditOf = ({ id, at, who, by, what, on, result, note, relay }: Row): AuditRecord => ({
  id: int(id),
  at: int(at),
  who: text(who),
  by: text(by),
  what: text(what),
  on: text(on),
  result: text(result) as AuditRecord["result"],
  note: text(note),
  relay: text(relay),
})

/** The table `audit`. */
export class AuditRows {
  readonly #wallClock: WallClock | undefined
  readonly #sql

  /** Without a wall clock, as in a copy, nothing is deleted by age. */
  constructor(db: DatabaseSync, wallClock?: WallClock) {
    this.#wallClock = wallClock
    this.#sql = {
      add: db.prepare(
        `INSERT INTO audit (at, who, "by", what, "on", result, note, relay) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      prune: db.prepare(
        `DELETE FROM audit WHERE at < ?1 OR (result = 'refused') = ?2 AND id <= (
           SELECT id FROM audit WHERE (result = 'refused') = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)`,
      ),
      list: db.prepare("SELECT * FROM audit WHERE at >= ? AND id < ? ORDER BY id DESC LIMIT ?"),
    }
  }

  add({ at, who, by, what, on, result, note }: Operation, relay = ""): void {
    this.#sql.add.run(at, who, by, what, on, result, note, relay)
    const before = this.#wallClock === undefined ? 0 : expiredBefore(this.#wallClock, at, kept.age)
    this.#sql.prune.run(before, result === "refused" ? 1 : 0, kept.records)
  }

  list({ since = 0, before = Number.MAX_SAFE_INTEGER, limit }: AuditQuery): ReadonlyArray<AuditRecord> {
    return this.#sql.list.all(since, before, limit).map(auditOf)
  }
}
