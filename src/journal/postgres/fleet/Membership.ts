/**
 * A relay among others: its sign of life, each second in one round trip, and
 * what that tells of the others.
 *
 * **Guarantee.** No clock of two machines is compared. A stream is taken only
 * when this relay saw its owner stand still for {@link takeoverAfter} of its own time
 * while its own questions were answered; and a relay stops to deliver when its
 * last answered question was asked {@link lease} ago. So the owner has stopped
 * before another one begins.
 *
 * An owner that goes on at this very moment is told: who takes from it adds
 * {@link taking} to its beat, if that is still the one that it saw. The owner's
 * next sign of life waits for that or comes before it; after it, it asks again
 * before it goes on.
 */
import { Effect, Result } from "effect"
import { type LaneReport, type StreamReport, takeoverAfter } from "../../FleetStatus.ts"
import type { Database } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"
import { type KnownRow, lostParams, lostPlaces } from "../tables/KnownRows.ts"
import { decodeReport, type MemberReport } from "./MemberReport.ts"

/** Milliseconds, as all below. */
export const beatEvery = 1_000
/** How long a relay may deliver after its last answered question. */
export const lease = 4_000
/** Two answers that are further apart say nothing of what was between. */
const longestGap = 2_500
/** How long a question may take. */
export const beatTimeout = 3_000

/** Added to the beat of a relay from which a stream is taken; below it is the count of its signs of life. */
export const taking = 2 ** 32

/** A relay's report of itself to the others. */
export interface Report {
  readonly streams: Readonly<Record<string, StreamReport>>
  readonly lanes: ReadonlyArray<LaneReport>
}

/** A row of the table `stream`. */
export interface StreamRow {
  readonly id: number
  readonly home: string | null
  readonly owner: string | null
  readonly epoch: number
  readonly spare: boolean
}

/** A row of the table `member`. */
export interface MemberRow {
  readonly name: string
  readonly instance: string
  readonly beat: number
  readonly version: string
  readonly config_hash: string
  readonly address: string
  readonly report: MemberReport
}

/** A row of the table `sink`. */
export interface SinkRow {
  readonly name: string
  readonly paused: boolean
}

/** All that a beat is told. */
export interface News {
  /** This relay's own beat; `null` when the row of its name is not its own any more. */
  readonly beat: number | null
  /** The relay that has the name then; `null` when a failover lost the row. */
  readonly instance: string | null
  /** The timeline of the server that answered. */
  readonly timeline: number
  readonly streams: ReadonlyArray<StreamRow>
  readonly members: ReadonlyArray<MemberRow>
  readonly sinks: ReadonlyArray<SinkRow>
  readonly alarm: string | null
  /** The places of rows that are lost, among those that were asked for. */
  readonly lost: ReadonlyArray<number>
}

/** The description of this relay that a heartbeat carries. */
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
    WHERE name = $1 AND instance = $2 RETURNING beat
  )
SELECT (SELECT beat FROM me) AS beat, (SELECT instance FROM member WHERE name = $1) AS instance, timeline() AS timeline,
  (SELECT coalesce(json_agg(s), '[]') FROM stream AS s) AS streams,
  ${lostPlaces(7)} AS lost,
  (SELECT coalesce(json_agg(m), '[]') FROM member AS m) AS members,
  (SELECT coalesce(json_agg(k), '[]') FROM sink AS k) AS sinks,
  (SELECT value FROM meta WHERE key = 'alarm') AS alarm`

/** The characters that PostgreSQL refuses in JSON are replaced: a sink's message may quote its receiver. */
const storable = (report: Report): string =>
  JSON.stringify(report, (_, value: unknown) =>
    typeof value === "string" ? value.toWellFormed().replaceAll("\0", "\ufffd") : value,
  )

const checked = (news: News): News => ({
  ...news,
  members: news.members.map((member) => ({ ...member, report: decodeReport(member.report) })),
})

/** Asks whether rows are lost as well. Returns `undefined` if the answer has no row. */
export const beat = async (
  db: Database,
  self: Self,
  rows: ReadonlyArray<KnownRow>,
): Promise<Result.Result<News | undefined, DatabaseError>> => {
  const answer = await db.queryUnsafe<News>(
    "beat",
    beatSql,
    [self.name, self.instance, self.version, self.configHash, self.address, storable(self.report), ...lostParams(rows)],
    { name: "beat", timeout: beatTimeout },
  )
  return Result.map(answer, ({ rows: [news] }) => news && checked(news))
}

/**
 * Begins a new history after the timeline `known`, unless another relay has done so: earlier claims hold no more. Four
 * round trips.
 */
export const beginHistory = (db: Database, known: number) =>
  db.transact((queries) =>
    Effect.andThen(
      // The update waits for another relay's, and sees its result.
      queries.query("SELECT FROM meta WHERE key = 'histories' FOR UPDATE"),
      queries.query(
        `UPDATE meta SET value = (value::bigint + $1 + 1 - timeline())::text
         WHERE key = 'histories' AND timeline() <= $1`,
        [known],
      ),
    ),
  )

/** How long owners have been seen to stand still. */
export class Stillness {
  readonly #seen = new Map<number, { readonly sign: string; readonly since: number }>()
  #asked = Number.NEGATIVE_INFINITY
  #answered = Number.NEGATIVE_INFINITY

  /** The question of `asked` was answered at `answered`: the answer tells of a moment between. */
  saw({ streams, members }: News, asked: number, answered: number): void {
    const isGap = answered - this.#answered > longestGap
    this.#asked = asked
    this.#answered = answered
    const beats = new Map(members.map(({ name, instance, beat }) => [name, `${instance} ${beat % taking}`]))
    for (const { id, owner, epoch } of streams) {
      const sign = `${epoch} ${owner} ${beats.get(owner ?? "") ?? "gone"}`
      if (isGap || this.#seen.get(id)?.sign !== sign) this.#seen.set(id, { sign, since: answered })
    }
  }

  isStill(stream: number): boolean {
    const since = this.#seen.get(stream)?.since
    return since !== undefined && this.#asked - since >= takeoverAfter
  }
}
