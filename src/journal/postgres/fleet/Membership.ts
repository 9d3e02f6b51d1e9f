/**
 * The heartbeats of a relay: one round trip each second, whose answer describes the other relays.
 *
 * **Guarantee.** Clocks of two machines are never compared. A relay takes a stream only after it saw no
 * heartbeat of the owner for {@link takeoverAfter} of its own time, while its own heartbeats were answered. A
 * relay stops delivering {@link lease} after it sent its last answered heartbeat. So the owner has stopped
 * before another relay begins.
 *
 * An owner that comes back at this very moment is warned. The relay that takes its stream adds {@link taking}
 * to the owner's number of heartbeats, if that is still the number it saw. The owner's next heartbeat waits for
 * that statement or comes before it. If it comes after, the owner sends another heartbeat before it continues.
 */
import { Effect, Option, Result, Schema } from "effect"
import {
  type LaneReport,
  reportedConditions,
  type SinkTypes,
  type StreamReport,
  takeoverAfter,
} from "../../FleetStatus.ts"
import type { Mute, Pause } from "../../LaneInfo.ts"
import type { Database } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"
import { type KnownRow, lostParams, lostPlaces } from "../tables/KnownRows.ts"

/**
 * A relay's report of itself, as the others read it. It may come from another version of the relay, or be damaged.
 *
 * **Guarantee.** A part that can't be read is left out and ignored: no relay refuses or deletes anything because of
 * it.
 *
 * A decoded report.
 */
interface MemberReport {
  readonly streams: Readonly<Record<string, StreamReport>>
  readonly lanes: ReadonlyArray<LaneReport>
  /** Whether every part could be read. */
  readonly isWhole: boolean
}

const Figure = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const Stream = Schema.Struct({
  lanes: Schema.Record(Schema.String, Schema.Struct({ backlog: Figure, retrying: Figure, deadLetters: Figure })),
  accepted: Figure,
  kept: Figure,
  bytes: Figure,
})

const Lane = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  condition: Schema.Literals(reportedConditions),
  message: Schema.String,
  oldestAt: Schema.Finite,
})

const streamOf = Schema.decodeUnknownOption(Stream)
const laneOf = Schema.decodeUnknownOption(Lane)
const partsOf = Schema.decodeUnknownOption(
  Schema.Struct({ streams: Schema.Record(Schema.String, Schema.Unknown), lanes: Schema.Array(Schema.Unknown) }),
)

/** A relay that has just joined has reported nothing yet. */
const isEmpty = (report: unknown): boolean => JSON.stringify(report) === "{}"

/** Decodes a report. Each stream and each lane is decoded separately. */
export const decodeReport = (report: unknown): MemberReport => {
  const parts = Option.getOrUndefined(partsOf(report))
  if (parts === undefined) return { streams: {}, lanes: [], isWhole: isEmpty(report) }
  const streams = Object.entries(parts.streams).flatMap(([id, one]) =>
    Option.toArray(streamOf(one)).map((stream) => [id, stream] as const),
  )
  const lanes = parts.lanes.flatMap((one) => Option.toArray(laneOf(one)))
  const isWhole = streams.length === Object.keys(parts.streams).length && lanes.length === parts.lanes.length
  return { streams: Object.fromEntries(streams), lanes, isWhole }
}

/** In milliseconds, like all below. */
export const beatEvery = 1_000
/** How long a relay may deliver after it sent its last answered heartbeat. */
export const lease = 4_000
/** The maximum time between two answers. Beyond it they prove nothing about the time between them. */
const longestGap = 2_500
/** The maximum time for a heartbeat's answer. */
const beatTimeout = 3_000

/** Added to the heartbeat number of a relay from which a stream is taken. The lower 32 bits count its heartbeats. */
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
  /** The sinks in its config. */
  readonly sinks: SinkTypes
}

/** A row of the table `sink`. */
export interface SinkRow {
  readonly name: string
  readonly paused: boolean
  /** When the pause ends by itself, in epoch milliseconds. */
  readonly until: number | null
  readonly mute: Mute | null
}

export const pauseOf = ({ paused, until, mute }: Omit<SinkRow, "name">): Pause => ({
  paused: paused && (until ?? true),
  ...(mute !== null && { mute }),
})

/** The answer to a heartbeat. */
export interface News {
  /** This relay's heartbeat number, or `null` if the row of its name is no longer its own. */
  readonly beat: number | null
  /** The relay that has the name then, or `null` if a failover lost the row. */
  readonly instance: string | null
  /** The timeline of the server that answered. */
  readonly timeline: number
  readonly streams: ReadonlyArray<StreamRow>
  readonly members: ReadonlyArray<MemberRow>
  readonly sinks: ReadonlyArray<SinkRow>
  readonly alarm: string | null
  /** Places of lost rows, among the rows that the heartbeat asked for. */
  readonly lost: ReadonlyArray<number>
}

/** The description of this relay that a heartbeat carries. */
export interface Self {
  readonly name: string
  readonly instance: string
  readonly version: string
  /** Its config, if the database has another. */
  readonly config?: { readonly hash: string; readonly sinks: SinkTypes }
  readonly address: string
  readonly report: Report
}

/**
 * A heartbeat needn't be durable. If a crash of the server loses it, nothing changes.
 *
 * Sinks are stored together with the hash of their config, and only read if the reader doesn't know that hash. So
 * idle sinks cost nothing.
 */
const beatSql = `WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
  me AS (
    UPDATE member SET beat = beat + 1, version = $3, address = $5, report = $6::jsonb,
      config_hash = coalesce($4, config_hash), sinks = coalesce($7::jsonb, sinks) FROM relaxed
    WHERE name = $1 AND instance = $2 RETURNING beat
  ),
  relay AS (
    SELECT name, instance, beat, version, config_hash, address, report,
      CASE WHEN config_hash = ANY($8::text[]) THEN '{}' ELSE sinks END AS sinks
    FROM member
  )
SELECT (SELECT beat FROM me) AS beat, (SELECT instance FROM member WHERE name = $1) AS instance, timeline() AS timeline,
  (SELECT coalesce(json_agg(s), '[]') FROM stream AS s) AS streams,
  ${lostPlaces(9)} AS lost,
  (SELECT coalesce(json_agg(r), '[]') FROM relay AS r) AS members,
  (SELECT coalesce(json_agg(k), '[]') FROM sink AS k WHERE paused OR mute IS NOT NULL) AS sinks,
  (SELECT value FROM meta WHERE key = 'alarm') AS alarm`

/** Replaces the characters that PostgreSQL refuses in JSON. A sink's message may quote its receiver. */
const storable = (report: Report): string =>
  JSON.stringify(report, (_, value: unknown) =>
    typeof value === "string" ? value.toWellFormed().replaceAll("\0", "\ufffd") : value,
  )

const sinksOf = Schema.decodeUnknownOption(Schema.Record(Schema.String, Schema.String))

/** Decodes the columns that other relays wrote. `known` has the sinks of configs that the heartbeat didn't read. */
const checked = (news: News, known: KnownConfigs): News => ({
  ...news,
  members: news.members.map((member) => ({
    ...member,
    report: decodeReport(member.report),
    sinks: known.get(member.config_hash) ?? Option.getOrElse(sinksOf(member.sinks), () => ({})),
  })),
})

/** The sinks of each config that a relay runs, by the config's hash. */
export type KnownConfigs = ReadonlyMap<string, SinkTypes>

/** Returns the configs that an answer shows. A relay of an earlier version stores no sinks with its hash. */
export const configsOf = ({ members }: News): KnownConfigs =>
  new Map(members.flatMap(({ config_hash, sinks }) => (Object.keys(sinks).length === 0 ? [] : [[config_hash, sinks]])))

/** Sends a heartbeat, which also checks whether rows are lost. Returns `undefined` if the answer has no row. */
export const beat = async (
  db: Database,
  { name, instance, version, config, address, report }: Self,
  rows: ReadonlyArray<KnownRow>,
  known: KnownConfigs,
): Promise<Result.Result<News | undefined, DatabaseError>> => {
  const answer = await db.queryUnsafe<News>(
    "beat",
    beatSql,
    [
      ...[name, instance, version, config?.hash ?? null, address, storable(report)],
      ...[config === undefined ? null : JSON.stringify(config.sinks), [...known.keys()]],
      ...lostParams(rows),
    ],
    { name: "beat", timeout: beatTimeout },
  )
  return Result.map(answer, ({ rows: [news] }) => news && checked(news, known))
}

/**
 * Begins a new history after the timeline `known`, unless another relay has done so. Earlier claims become
 * invalid. It takes four round trips.
 */
export const beginHistory = (db: Database, known: number) =>
  db.transact((queries) =>
    Effect.andThen(
      // Waits for another relay's update, so that the next statement sees its result.
      queries.query("SELECT FROM meta WHERE key = 'histories' FOR UPDATE"),
      queries.query(
        `UPDATE meta SET value = (value::bigint + $1 + 1 - timeline())::text
         WHERE key = 'histories' AND timeline() <= $1`,
        [known],
      ),
    ),
  )

/** Records since when each owner has sent no heartbeat. */
export class Stillness {
  readonly #seen = new Map<number, { readonly sign: string; readonly since: number }>()
  #asked = Number.NEGATIVE_INFINITY
  #answered = Number.NEGATIVE_INFINITY

  /**
   * Records an answer that arrived at `answered` to a heartbeat sent at `asked`. It describes a moment between
   * the two.
   */
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
