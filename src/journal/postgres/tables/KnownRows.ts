/**
 * The newest rows that a relay knows to be stored, used to find the losses of a failover.
 *
 * **Guarantee.** A failover loses the newest rows of a timeline. For each timeline, the table `pruned` holds
 * the sequence up to which rows were deleted since. So a known row that is missing is lost if it is above that
 * sequence, and pruned otherwise. If a server doesn't report its timeline, all rows have timeline 0, and a lost
 * row may pass for a pruned one.
 */
import { Effect } from "effect"
import { floorOf } from "../../Sequences.ts"
import { type Queries, unnested } from "../connection/Database.ts"

/** Minimum number of rows that are remembered. */
const remembered = 1_024

/** The columns of a {@link KnownRow}. */
export const knownColumns = `first, timeline, count - cardinality(void) AS events, commit`

/** A row that was stored as far as this relay knows. */
export interface KnownRow {
  readonly first: number
  /** The timeline of the server that stored it. */
  readonly timeline: number
  /** Number of the row's events that were acknowledged as new. */
  readonly events: number
  /**
   * The identity of its commit, which distinguishes it from another row with the same sequences. It is `null`
   * if the row was copied.
   */
  readonly commit: string | null
}

/** SQL that finds the lost rows among the rows of {@link lostParams}, with their places. */
export const lostRows = (parameter: number): string =>
  `SELECT first, timeline, place
    FROM unnest($${parameter}::bigint[], $${parameter + 1}::bigint[], $${parameter + 2}::uuid[])
      WITH ORDINALITY AS known(first, timeline, commit, place)
    WHERE NOT EXISTS (
      SELECT FROM log WHERE first = known.first AND timeline = known.timeline AND commit IS NOT DISTINCT FROM known.commit
    ) AND NOT EXISTS (
      SELECT FROM pruned
      WHERE stream = known.first / ${floorOf(1)} AND timeline = known.timeline AND last >= known.first
    )`
/** The places of the lost rows, as a JSON array. */
export const lostPlaces = (parameter: number): string =>
  `(SELECT coalesce(json_agg(place), '[]') FROM (${lostRows(parameter)}) AS lost)`
export const lostParams = (rows: ReadonlyArray<KnownRow>) =>
  unnested(3, rows, ({ first, timeline, commit }) => [first, timeline, commit])
/** Returns the rows at these places. */
export const placed = (rows: ReadonlyArray<KnownRow>, places: ReadonlyArray<number>): ReadonlySet<KnownRow> =>
  new Set(places.flatMap((place) => rows[place - 1] ?? []))

/**
 * SQL that excludes rows that were appended after the loss, in place of the lost ones. A dump of another
 * cluster has timelines above the server's.
 */
const isBefore = (table: string): string => `(${table}.timeline <= oldest.timeline OR ${table}.timeline > timeline())`

/**
 * Finds the lost rows of a stream with the floor `$4`. Also finds the rest of the stream below them: its
 * last sequence, and the number of events acknowledged by then.
 */
const lossSql = `WITH lost AS MATERIALIZED (${lostRows(1)}),
  oldest AS (SELECT first, timeline FROM lost ORDER BY place LIMIT 1),
  kept AS (
    SELECT max(log.first + count - 1) AS last, sum(cardinality(void)) AS void FROM log, oldest
    WHERE log.first > $4::bigint AND log.first < oldest.first AND ${isBefore("log")}
  ),
  gone AS (
    SELECT max(last) AS last, sum(void) AS void FROM pruned, oldest
    WHERE stream = $4::bigint / ${floorOf(1)} AND last < oldest.first AND ${isBefore("pruned")}
  ),
  below AS (SELECT greatest($4::bigint, kept.last, gone.last) AS last FROM kept, gone)
  SELECT (SELECT coalesce(json_agg(place), '[]') FROM lost) AS places, below.last,
    (below.last - $4::bigint - coalesce(kept.void, 0) - coalesce(gone.void, 0))::bigint AS accepted
  FROM below, kept, gone`

interface Loss {
  readonly places: ReadonlyArray<number>
  readonly last: number
  readonly accepted: number
}

/** A stream that only one relay writes, as that relay knows it. */
export interface OwnStream {
  readonly floor: number
  /** Events appended since the stream began. */
  readonly accepted: number
}

/** The events that a failover lost. */
export interface Lost {
  readonly events: number
  /** The first lost sequence. */
  readonly from: number
  /** True if more may be lost, because this relay has forgotten earlier rows. */
  readonly isPart: boolean
}

const eventsOf = (rows: ReadonlyArray<KnownRow>): number => rows.reduce((sum, { events }) => sum + events, 0)

const nothing: Lost = { events: 0, from: 0, isPart: false }

/** Known rows of a stream, oldest first. */
export class KnownRows {
  #rows: Array<KnownRow> = []
  /** The newest row that the database has confirmed. */
  #confirmed: KnownRow | undefined
  #hasForgotten = false

  push({ first, timeline, events, commit }: KnownRow): void {
    this.#rows.push({ first, timeline, events, commit })
    if (this.#rows.length <= 2 * remembered) return
    this.#rows.splice(0, remembered)
    this.#hasForgotten = true
  }

  /**
   * Rows that the database has not confirmed yet, and the row before them. A failover loses the newest rows,
   * and rows appended after it must not hide the loss.
   */
  get unconfirmed(): ReadonlyArray<KnownRow> {
    const from = this.#confirmed === undefined ? 0 : this.#rows.lastIndexOf(this.#confirmed)
    return this.#rows.slice(Math.max(0, from))
  }

  /** The newest row, if there is one. */
  get newest(): ReadonlyArray<KnownRow> {
    return this.#rows.slice(-1)
  }

  /** Records the database's answer about rows. Returns false if it has lost some. */
  confirm(rows: ReadonlyArray<KnownRow>, lost: ReadonlySet<KnownRow>): boolean {
    if (rows.some((row) => lost.has(row))) return false
    this.#confirmed = rows.at(-1) ?? this.#confirmed
    return true
  }

  /**
   * Finds lost rows, and forgets them. It takes one round trip. In a stream that only this relay writes, all lost
   * events count, even without a known row.
   */
  takeLost(db: Queries, own?: OwnStream) {
    const rows = [...this.#rows]
    if (rows.length === 0) return Effect.succeed(nothing)
    return Effect.map(db.query<Loss>(lossSql, [...lostParams(rows), own?.floor ?? 0]), ({ rows: [answer] }): Lost => {
      const all = placed(rows, answer?.places ?? [])
      const lost = this.#rows.filter((row) => all.has(row))
      const [first] = lost
      if (answer === undefined || first === undefined) return nothing
      // If a server doesn't report its timeline, this relay may have appended more before it heard of the loss.
      const later = rows.slice(rows.indexOf(first)).filter((row) => !all.has(row))
      this.#rows = this.#rows.filter((row) => !all.has(row))
      return own === undefined
        ? { events: eventsOf(lost), from: first.first, isPart: this.#hasForgotten && lost.length === rows.length }
        : { events: own.accepted - answer.accepted - eventsOf(later), from: answer.last + 1, isPart: false }
    })
  }
}
