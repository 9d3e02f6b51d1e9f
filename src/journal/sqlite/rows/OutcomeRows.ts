/**
 * Records on disk how events ended at their lanes: see `OutcomeRecord.ts`.
 *
 * Every change is made inside the caller's transaction. Rows are deleted with the log. Rows of events that are
 * kept beyond the log (pending events, retries, dead letters) are kept as long as those events, at most until
 * the next start.
 */
import type { DatabaseSync } from "node:sqlite"
import { orUndefined } from "../../../event/Tolerance.ts"
import type { DeliveredRange } from "../../Settlement.ts"
import { bucketOf, type Ended, encodeRanges, span } from "../../stream/OutcomeRecord.ts"
import { int, type Row, text } from "./Rows.ts"

/** Tables that hold events outside the log. */
const keptIn = ["dead", "owed", "retry_record"]

/** SQL that reports whether an event between two sequences is kept outside the log. */
const isAnyKept = (from: string, to: string): string =>
  keptIn.map((table) => `EXISTS (SELECT 1 FROM ${table} WHERE sequence BETWEEN ${from} AND ${to})`).join(" OR ")

/** Decodes a row of `ended`. */
export const endedOf = ({ sequence, lane, at, outcome, last, copy, note }: Row): Ended => ({
  sequence: int(sequence),
  lane: text(lane),
  at: int(at),
  outcome: text(outcome) as Ended["outcome"],
  ...(last !== null && { last: int(last) }),
  ...(copy !== null && { copy: int(copy) }),
  note: orUndefined((): Ended["note"] => JSON.parse(text(note))) ?? {},
})

/** The tables `outcome` and `ended`. */
export class OutcomeRows {
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      delivered: db.prepare(
        `INSERT INTO outcome (bucket, lane, bytes) VALUES (?, ?, ?)
         ON CONFLICT (bucket, lane) DO UPDATE SET bytes = CAST(bytes || excluded.bytes AS BLOB)`,
      ),
      ended: db.prepare(
        "INSERT INTO ended (sequence, lane, at, outcome, last, copy, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      prune: db.prepare(
        `DELETE FROM outcome WHERE bucket >= ?1 AND bucket < ?2
           AND NOT (${isAnyKept(`bucket * ${span}`, `bucket * ${span} + ${span - 1}`)})`,
      ),
      pruneEnded: db.prepare(
        `DELETE FROM ended WHERE sequence >= ?1 AND sequence < ?2 AND ifnull(last, 0) < ?2 AND ifnull(copy, 0) < ?2
           AND NOT (${isAnyKept("ended.sequence", "ended.sequence")})`,
      ),
    }
  }

  delivered(lane: string, ranges: ReadonlyArray<DeliveredRange>): void {
    if (ranges.length === 0) return
    for (const [bucket, bytes] of encodeRanges(ranges)) this.#sql.delivered.run(bucket, lane, bytes)
  }

  ended({ sequence, lane, at, outcome, last, copy, note }: Ended): void {
    this.#sql.ended.run(sequence, lane, Math.round(at), outcome, last ?? null, copy ?? null, JSON.stringify(note))
  }

  /** Deletes outcomes after the log was pruned from one sequence up to another, which is excluded. */
  pruned(from: number, to: number): void {
    this.#sql.prune.run(bucketOf(from), bucketOf(to))
    this.#sql.pruneEnded.run(from, to)
  }
}
