/**
 * The newest rows that a relay knows to be in the database, by which it is seen
 * that a failover lost some. Rows are pruned as well, the oldest first: what is
 * older than any that is there is not lost.
 */
import { Effect } from "effect"
import { keyWidth } from "../stream/CommitBatch.ts"
import type { Queries } from "./Database.ts"

/** Rows that are remembered at least. */
const remembered = 1_024

/** What tells a row from another with the same sequences, in SQL: the first of its keys. */
export const mark = "encode(substr(keys, 1, 16), 'hex')"
/** The same of a row that is being appended. */
export const markOf = (keys: Uint8Array): string => Buffer.from(keys.buffer, keys.byteOffset, keyWidth).toString("hex")

/** A row that is in the database, as far as this relay knows. */
export interface KnownRow {
  readonly first: number
  readonly count: number
  readonly mark: string
}

/** What a failover lost. */
export interface Missing {
  readonly events: number
  /** The first sequence of them. */
  readonly from: number
  /** Nothing that is known is there: more may be missing. */
  readonly isAll: boolean
}

export class KnownRows {
  #rows: Array<KnownRow & { readonly at: number }> = []
  /** The first sequence of the row up to which the database was asked for them. */
  confirmed = 0

  /** `at` is when it became known, in milliseconds of any clock. */
  push({ first, count, mark }: KnownRow, at = 0): void {
    this.#rows.push({ first, count, mark, at })
    if (this.#rows.length > 2 * remembered) this.#rows.splice(0, remembered)
  }

  /** Nothing is known any more. */
  clear(): void {
    this.#rows = []
  }

  /** Forgets what became known before `at`: it may be pruned. */
  forget(at: number): void {
    this.#rows = this.#rows.filter((row) => row.at >= at)
  }

  /**
   * The rows that the database is yet to be asked for, and the one before. A failover loses the newest; what is
   * appended after it must not hide that.
   */
  get unconfirmed(): ReadonlyArray<KnownRow> {
    const from = this.#rows.findLastIndex(({ first }) => first <= this.confirmed)
    return this.#rows.slice(Math.max(0, from))
  }

  /** Of the rows that are known now, those that the database does not have: they are known no more. */
  takeMissing(db: Queries) {
    const rows = [...this.#rows]
    return Effect.map(
      db.query<KnownRow>(`SELECT first, ${mark} AS mark FROM log WHERE first = ANY($1::bigint[])`, [
        rows.map(({ first }) => first),
      ]),
      ({ rows: found }): Missing => {
        const there = new Map(found.map(({ first, mark }) => [first, mark]))
        const isThere = ({ first, mark }: KnownRow) => there.get(first) === mark
        const oldest = rows.findIndex(isThere)
        const gone = rows.slice(oldest + 1).filter((row) => !isThere(row))
        this.#rows = this.#rows.filter((row) => !gone.includes(row))
        return {
          events: gone.reduce((sum, { count }) => sum + count, 0),
          from: gone[0]?.first ?? 0,
          isAll: oldest === -1,
        }
      },
    )
  }
}
