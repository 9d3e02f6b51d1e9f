/**
 * A relay among others: its sign of life, each second in one round trip, and
 * what that tells of the others.
 *
 * **Guarantee.** No clock of two machines is compared. A stream is taken only
 * when this relay saw its owner stand still for {@link patience} of its own time
 * while its own questions were answered; and a relay stops to deliver when its
 * last answered question was asked {@link lease} ago. So the owner has stopped
 * before another one begins.
 */
import type { Result } from "effect"
import type { LaneReport, StreamReport } from "../FleetStatus.ts"
import type { Answer, Database } from "./Database.ts"
import type { DatabaseError } from "./DatabaseError.ts"

/** Milliseconds, as all below. */
export const beatEvery = 1_000
/** How long a relay may deliver after its last answered question. */
export const lease = 4_000
/** How long an owner must have been seen to stand still. */
export const patience = 6_000
/** Two answers that are further apart say nothing of what was between. */
const longestGap = 2_500
/** How long a question may take. */
export const beatTimeout = 3_000

/** What a relay tells the others of itself. */
export interface Report {
  readonly streams: Readonly<Record<string, StreamReport>>
  readonly lanes: ReadonlyArray<LaneReport>
  /** Bytes of the rows that it owns. */
  readonly bytes: number
}

export interface StreamRow {
  readonly id: number
  readonly home: string | null
  readonly owner: string | null
  readonly epoch: number
  readonly spare: boolean
  /** Its newest event; `null` in an empty stream. */
  readonly head: number | null
}

export interface MemberRow {
  readonly name: string
  readonly instance: string
  readonly beat: number
  readonly version: string
  readonly config_hash: string
  readonly address: string
  readonly report: Partial<Report>
}

export interface SinkRow {
  readonly name: string
  readonly paused: boolean
  readonly revision: number
}

/** All that a beat is told. */
export interface News {
  /** False when another relay has taken this one's name. */
  readonly alive: boolean
  readonly streams: ReadonlyArray<StreamRow>
  readonly members: ReadonlyArray<MemberRow>
  readonly sinks: ReadonlyArray<SinkRow>
  readonly alarm: string | null
}

export interface Self {
  readonly name: string
  readonly instance: string
  readonly version: string
  readonly configHash: string
  readonly address: string
  readonly report: Report
}

/** A beat need not be durable: a crash of the server that loses it changes nothing. */
const beatSql = `WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
  me AS (
    UPDATE member SET beat = beat + 1, version = $3, config_hash = $4, address = $5, report = $6::jsonb FROM relaxed
    WHERE name = $1 AND instance = $2 RETURNING name
  )
SELECT (SELECT count(*) FROM me) > 0 AS alive,
  (SELECT coalesce(json_agg(s), '[]') FROM (
    SELECT id, home, owner, epoch, spare, (
      SELECT first + count - 1 FROM log
      WHERE first > id * 4398046511104 AND first < (id + 1) * 4398046511104 ORDER BY first DESC LIMIT 1
    ) AS head FROM stream) AS s) AS streams,
  (SELECT coalesce(json_agg(m), '[]') FROM member AS m) AS members,
  (SELECT coalesce(json_agg(k), '[]') FROM sink AS k) AS sinks,
  (SELECT value FROM meta WHERE key = 'alarm') AS alarm`

export const beat = (db: Database, self: Self): Promise<Result.Result<Answer<News>, DatabaseError>> =>
  db.queryUnsafe<News>(
    "beat",
    beatSql,
    [self.name, self.instance, self.version, self.configHash, self.address, JSON.stringify(self.report)],
    { name: "beat", timeout: beatTimeout },
  )

/** How long owners have been seen to stand still. */
export class Stillness {
  readonly #seen = new Map<number, { readonly sign: string; readonly since: number }>()
  #last = Number.NEGATIVE_INFINITY

  /** An answer came at `now`. */
  saw({ streams, members }: News, now: number): void {
    const isGap = now - this.#last > longestGap
    this.#last = now
    const beats = new Map(members.map(({ name, instance, beat }) => [name, `${instance} ${beat}`]))
    for (const { id, owner, epoch } of streams) {
      const sign = `${epoch} ${owner} ${beats.get(owner ?? "") ?? "gone"}`
      if (isGap || this.#seen.get(id)?.sign !== sign) this.#seen.set(id, { sign, since: now })
    }
  }

  isStill(stream: number, now: number): boolean {
    const since = this.#seen.get(stream)?.since
    return since !== undefined && now - since >= patience
  }
}
