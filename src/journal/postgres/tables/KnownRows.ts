/**
 * The newest rows that a relay knows to be in the database, by which it is seen
 * that a failover lost some. Rows are pruned as well, the oldest first: what is
 * older than any that is there is not lost.
 */
import { Effect } from "effect"
import { keyWidth } from "../../stream/RowKeys.ts"
import type { Queries } from "../connection/Database.ts"

/** Rows that are remembered at least. */
const remembered = 1_024

/** The mark that tells a row from another with the same sequences, in SQL: the first of its keys. */
export const mark = `encode(substr(keys, 1, ${keyWidth}), 'hex')`
/** The mark of a row that is being appended. */
export const markOf = (keys: Uint8Array): string => Buffer.from(keys.buffer, keys.byteOffset, keyWidth).toString("hex")

/** SQL that finds which rows of the log exist, of those whose first sequences a parameter names, as JSON. */
export const thereOf = (parameter: string): string =>
  `(SELECT coalesce(json_agg(json_build_object('first', first, 'mark', ${mark})), '[]')
    FROM log WHERE first = ANY(${parameter}::bigint[]))`

/** How many events of a row were answered as new, in SQL. */
export const answered = "count - cardinality(void)"

/** A row that is in the database, as far as this relay knows. */
export interface KnownRow {
  readonly first: number
  /** Events of the row that were answered as new. */
  readonly events: number
  readonly mark: string
}

/** The losses of a failover. */
export interface Missing {
  readonly events: number
  /** The first sequence of them. */
  readonly from: number
  /** Nothing that is known is there: more may be missing. */
  readonly isAll: boolean
}

const nothing: Missing = { events: 0, from: 0, isAll: false }

/** Rows of a stream, the oldest first. */
export class KnownRows {
  #rows: Array<KnownRow & { readonly at: number }> = []
  /** The first sequence of the row up to which the database was asked for them. */
  confirmed = 0

  /** `at` is when it became known, in milliseconds of any clock. */
  push({ first, events, mark }: KnownRow, at = 0): void {
    this.#rows.push({ first, events, mark, at })
    if (this.#rows.length > 2 * remembered) this.#rows.splice(0, remembered)
  }

  /** Nothing is known any more. */
  clear(): void {
    this.#rows = []
  }

  /** Forgets rows that were pruned. */
  pruned(firsts: ReadonlyArray<number>): void {
    const gone = new Set(firsts)
    this.#rows = this.#rows.filter(({ first }) => !gone.has(first))
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

  /**
   * Finds the rows that are known and that the database does not have, and forgets them. One round trip.
   * With the `floor` of a stream that this relay alone writes, events before the oldest known row count too.
   */
  takeMissing(db: Queries, floor?: number) {
    const rows = [...this.#rows]
    const [first] = rows
    if (first === undefined) return Effect.succeed(nothing)
    return Effect.map(
      db.query<{ head: number; there: ReadonlyArray<Pick<KnownRow, "first" | "mark">> }>(
        `SELECT (SELECT coalesce(max(first + count - 1), $2) FROM log WHERE first > $2 AND first < $3) AS head,
           ${thereOf("$1")} AS there`,
        [rows.map(({ first }) => first), floor ?? 0, first.first],
      ),
      ({ rows: [answer] }): Missing => {
        const { head, there } = answer ?? { head: 0, there: [] }
        const marks = new Map(there.map(({ first, mark }) => [first, mark]))
        const isThere = ({ first, mark }: KnownRow) => marks.get(first) === mark
        const oldest = rows.findIndex(isThere)
        const gone = rows.slice(oldest + 1).filter((row) => !isThere(row))
        this.#rows = this.#rows.filter((row) => !gone.includes(row))
        const before = oldest === -1 && floor !== undefined ? first.first - 1 - head : 0
        return {
          events: gone.reduce((sum, { events }) => sum + events, before),
          from: before > 0 ? head + 1 : (gone[0]?.first ?? 0),
          isAll: oldest === -1 && floor === undefined,
        }
      },
    )
  }
}
