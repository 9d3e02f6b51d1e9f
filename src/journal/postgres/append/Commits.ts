/**
 * Commits a group with one statement in one round trip. The statement stores the new keys, then the row, which
 * lists the places of the events whose keys are not new.
 *
 * **Guarantee.** Nothing is stored under an epoch that has passed, or on a server of another timeline than the
 * epoch's. The statement locks the stream's row: either a takeover waits for it, or it finds no row. If the
 * connection breaks, the same group is sent again until its fate is clear. Only one of the tries stores it,
 * with all that goes with it. If the fate stays unknown, this relay leaves the stream, so that no sequence is
 * given twice.
 *
 * **Guarantee.** An answer is about this commit, because the commit's identity is stored with its row. A later
 * try looks for the identity, so it never takes keys that an earlier try stored for duplicates. The later try
 * is a commit of its own that writes at least a lock. If it ends without PostgreSQL's warning, all commits
 * before it are as durable as `synchronous_commit` requires. A try that ends with the warning counts as lost.
 */
import { Effect, Exit, Result } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { SearchIds } from "../../stream/SearchIds.ts"
import type { Database, Params, Queries } from "../connection/Database.ts"
import { type DatabaseError, mayRepeat, refusalOf } from "../connection/DatabaseError.ts"
import type { WatchedAppend, WriteTrouble } from "../connection/WriteTrouble.ts"
import { alsoName } from "../lanes/LaneChange.ts"
import type { OwnedStream } from "../lanes/OwnedStream.ts"
import { isOwned, type Sign } from "../lanes/StreamState.ts"
import { idsOf } from "../tables/StreamRows.ts"
import type { CommitExit, Group, Stored } from "./Appends.ts"

/**
 * In milliseconds: how long a statement may take before its connection is abandoned, and the delay before it is
 * sent again.
 */
const timeout = 10_000
const repeatAfter = 100
/**
 * In milliseconds: how long an append waits for a new stream after this relay lost its own, and how often it
 * checks.
 */
const nextWithin = 3_000
const nextEvery = 10

/**
 * Keys of deliveries, sorted so that two relays never wait for each other. The timeline is the epoch's, see `isOwned`.
 *
 * **Gotcha.** The planner must not see the length of `$3`, so it is in a SELECT. PostgreSQL would make a new plan for
 * each commit of few events, which takes as long as the commit.
 */
const ownSql = `WITH owned AS MATERIALIZED (SELECT epoch >> 32 AS timeline FROM stream WHERE ${isOwned} FOR SHARE),
  key AS MATERIALIZED (
    SELECT * FROM unnest((SELECT $3::int[]), $4::int[], $5::int[], $6::int[]) AS key(lo, hi, crc, place)
  ),
  fresh AS (
    INSERT INTO seen (lo, hi, crc, at, sequence)
    SELECT lo, hi, crc, (extract(epoch FROM now()) * 1000)::bigint, $7::bigint + place FROM owned, key ORDER BY lo, hi, crc
    ON CONFLICT DO NOTHING RETURNING sequence
  ),
  void AS MATERIALIZED (
    SELECT coalesce(array_agg(place), '{}') AS places FROM key
    WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.sequence = $7::bigint + place)
  ),
  altered AS MATERIALIZED (
    SELECT coalesce(array_agg(place), '{}') AS places FROM key, LATERAL (
      SELECT FROM seen WHERE seen.lo = key.lo AND seen.hi = key.hi AND seen.crc <> key.crc LIMIT 1
    ) AS other
  ),
  stored AS (
    INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes, timeline, commit)
    SELECT $7::bigint, $8::int, $9::bigint, $10::bigint, $11::text, $12::bytea, $13::bytea, void.places, altered.places,
      $14::bytea, owned.timeline, $15::uuid
    FROM owned, void, altered WHERE $8::int > cardinality(void.places) ON CONFLICT DO NOTHING RETURNING first
  )
SELECT (SELECT count(*) FROM owned) > 0 AS owned, coalesce((SELECT first FROM stored), 0) AS first,
  (SELECT timeline FROM owned) AS timeline, (SELECT places FROM void) AS void, (SELECT places FROM altered) AS altered`

/** Waits for an earlier try of the same commit, and returns its result if it stored the group. */
const sharedSql = `SELECT owned, first, timeline, void, altered, found
  FROM append_shared($1::int[], $2::int[], $3::int[], $4::int[], $5::int, $6::bigint, $7::bigint, $8::text, $9::bytea,
    $10::bytea, $11::bytea, $12::text[], $13::jsonb, $14::uuid, $15::boolean,
    $16::text[])`

/** Finds the row that an earlier try of a commit may have stored. */
const storedSql = "SELECT true AS owned, first, timeline, void, altered FROM log WHERE first = $1 AND commit = $2"

interface Row extends Stored {
  readonly owned: boolean
}

interface SharedRow extends Row {
  /** True if an earlier try stored it. */
  readonly found: boolean
}

/** The result of a try; `undefined` if the database returned no row. */
type Sent = Result.Result<Row | undefined, DatabaseError | JournalError>

const literal = (numbers: ReadonlyArray<number>): string => `{${numbers.join(",")}}`

/** The keys of a group as four arrays, in the text form of PostgreSQL: lo, hi, crc, places. */
export const keysOf = ({ keys }: Group): ReadonlyArray<string> => [
  literal(keys.lo),
  literal(keys.hi),
  literal(keys.crc),
  literal(keys.places),
]

/** The columns of a group's row: count, received_from, received_to, routes, keys, ids, bytes. */
export const rowOf = ({ batch }: Group, searchIds: SearchIds): ReadonlyArray<unknown> => [
  batch.entries.length,
  batch.receivedFrom,
  batch.receivedTo,
  batch.routes(),
  batch.keys(),
  idsOf(batch.entries, searchIds),
  batch.bytes(),
]

/** Further statements of the same transaction. `first` is the sequence of the group's first event. */
export type Also = (queries: Queries, first: number) => Effect.Effect<void, DatabaseError | JournalError>

const sleep = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

export interface CommitsOptions {
  readonly db: Database
  readonly searchIds: SearchIds
  /** The stream that this relay writes, or `undefined` between two streams. */
  readonly own: () => OwnedStream | undefined
  readonly sign: () => Sign
  /** The former name of each renamed sink, by its present name. */
  readonly formerNames: () => ReadonlyMap<string, string>
  /** Reports whether the relay is stopping. Then no statement is sent again. */
  readonly isClosed: () => boolean
  /** Observes how each append ends. */
  readonly trouble: Pick<WriteTrouble, "begun">
}

/** Stores groups in the log. */
export class Commits {
  readonly #options: CommitsOptions
  /** When an append first found no stream to write since the last commit, in monotonic milliseconds. */
  #missedAt: number | undefined

  constructor(options: CommitsOptions) {
    this.#options = options
  }

  /** Reports whether there has been no stream to write for longer than appends wait. */
  get isWithoutStream(): boolean {
    return this.#missedAt !== undefined && performance.now() - this.#missedAt > nextWithin
  }

  /**
   * Stores a group in the stream that this relay writes. If the relay loses the stream, the group waits for its next
   * stream.
   */
  async toOwn(group: Group, also?: Also): Promise<CommitExit> {
    for (;;) {
      const stream = this.#options.own()
      const exit = stream === undefined || stream.isLost ? undefined : await this.#toStream(stream, group, also)
      if (exit !== undefined) {
        this.#missedAt = undefined
        return exit
      }
      this.#missedAt ??= performance.now()
      if (this.isWithoutStream || this.#options.isClosed()) return between
      await sleep(nextEvery)
    }
  }

  /** Returns `undefined` if the stream is lost and nothing of the group was stored. */
  async #toStream(stream: OwnedStream, group: Group, also?: Also): Promise<CommitExit | undefined> {
    const first = stream.end + 1
    const append = this.#options.trouble.begun()
    const named = await this.#name(stream, stream.missingLanes(group.batch.entries, first))
    if (Result.isFailure(named)) return ended(append, named.failure)
    const newLanes = stream.missingLanes(group.batch.entries, first)
    const params = [
      stream.id,
      stream.claim,
      ...keysOf(group),
      first,
      ...rowOf(group, this.#options.searchIds),
      group.commit,
    ]
    const isPlain = newLanes.length === 0 && also === undefined
    const within = (isAgain: boolean) =>
      this.#transact((queries) =>
        Effect.gen(function* () {
          const row = (yield* queries.query<Row>(ownSql, params)).rows[0]
          if (row === undefined || !row.owned) return row
          const [earlier] =
            isAgain && row.first === 0 ? (yield* queries.query<Row>(storedSql, [first, group.commit])).rows : []
          if (earlier !== undefined) return earlier
          yield* stream.insertLanes(queries, newLanes)
          if (also !== undefined) yield* also(queries, first)
          return row
        }),
      )
    let isRepeated = false
    const send = (isAgain: boolean) => {
      isRepeated = isAgain
      return isPlain ? this.#alone(params, [first, group.commit], isAgain) : within(isAgain)
    }
    const exit = await this.#repeated(append, send, () => stream.lost())
    if (Exit.isFailure(exit)) return exit
    const { owned, first: at, void: voids } = exit.value
    // If no row was stored although some keys are new, another row has these sequences.
    if (owned && (at > 0 || voids.length === group.batch.entries.length)) return exit
    stream.lost()
    // An earlier try may have been stored.
    return owned || isRepeated ? between : undefined
  }

  /** Adds a renamed sink's events to the lane of its former name until that lane is renamed. */
  #name(
    stream: OwnedStream,
    missing: ReadonlyArray<string>,
  ): Promise<Result.Result<void, DatabaseError | JournalError>> {
    const formerNames = this.#options.formerNames()
    const renamed = missing.flatMap((sink) => {
      const former = formerNames.get(sink)
      const lane = former === undefined ? "" : stream.names.laneOf(former, stream.end + 1)
      return stream.backlogs.has(lane) ? [alsoName(stream, sink, lane)] : []
    })
    return renamed.length === 0
      ? Promise.resolve(Result.void)
      : Effect.runPromise(Effect.result(Effect.all(renamed, { discard: true })))
  }

  /** Stores a group in the shared stream, after the rows of other relays. */
  async toShared(group: Group, also?: Also): Promise<CommitExit> {
    const formerNames = this.#options.formerNames()
    const lanes = [...new Set(group.batch.entries.flatMap(({ sinks }) => sinks))]
    const renamed = lanes.flatMap((lane) => (formerNames.has(lane) ? [[lane, formerNames.get(lane)]] : []))
    const formerLanes = JSON.stringify(Object.fromEntries(renamed))
    const params = [...keysOf(group), ...rowOf(group, this.#options.searchIds), lanes, formerLanes, group.commit]
    const within = (isAgain: boolean, also: Also) =>
      this.#transact((queries) =>
        Effect.gen({ self: this }, function* () {
          const [row] = (yield* queries.query<SharedRow>(sharedSql, [...params, isAgain, this.#options.sign()])).rows
          if (row?.owned === true && !row.found) yield* also(queries, row.first)
          return row
        }),
      )
    const exit = await this.#repeated(this.#options.trouble.begun(), (isAgain) =>
      also === undefined
        ? this.#ask(sharedSql, [...params, isAgain, this.#options.sign()], "append_shared")
        : within(isAgain, also),
    )
    return Exit.isFailure(exit) || exit.value.owned ? exit : wentBack
  }

  /**
   * Commits in one round trip, on the connection that is reserved for appends. If an earlier try may have
   * stored the group, a second round trip looks for it.
   */
  async #alone(params: Params, stored: Params, isAgain: boolean): Promise<Sent> {
    const sent = await this.#ask(ownSql, params, "append")
    if (!isAgain || Result.isFailure(sent) || !sent.success?.owned || sent.success.first > 0) return sent
    return Result.map(await this.#ask(storedSql, stored), (earlier) => earlier ?? sent.success)
  }

  async #ask(sql: string, params: Params, name?: string): Promise<Result.Result<Row | undefined, DatabaseError>> {
    const options = { timeout, ...(name !== undefined && { name }) }
    return Result.map(await this.#options.db.queryUnsafe<Row>("append", sql, params, options), ({ rows }) => rows[0])
  }

  #transact(work: (queries: Queries) => Effect.Effect<Row | undefined, DatabaseError | JournalError>): Promise<Sent> {
    return Effect.runPromise(Effect.result(this.#options.db.transact(work)))
  }

  /** Repeats a try until the group's fate is clear. Calls `unknown` if it can't be found out. */
  async #repeated(
    append: WatchedAppend,
    send: (isAgain: boolean) => Promise<Sent>,
    unknown: () => void = () => {},
  ): Promise<Exit.Exit<Row, JournalError>> {
    let mayBeStored = false
    for (let isAgain = false; ; isAgain = true) {
      const result = await send(isAgain)
      if (Result.isSuccess(result)) {
        append.ended(true)
        const row = result.success
        return row === undefined
          ? Exit.fail(unavailable("PostgreSQL gave an empty answer to an append."))
          : Exit.succeed(row)
      }
      const { failure } = result
      const isOfDatabase = failure._tag === "DatabaseError"
      mayBeStored ||= isOfDatabase && failure.isLost
      if (!isOfDatabase || this.#options.isClosed() || !mayRepeat(failure)) {
        if (mayBeStored) unknown()
        return ended(append, failure)
      }
      append.failed(failure)
      await sleep(repeatAfter)
    }
  }
}

/** Ends an append that was not stored. */
const ended = (append: WatchedAppend, failure: DatabaseError | JournalError): Exit.Exit<never, JournalError> => {
  const isOfDatabase = failure._tag === "DatabaseError"
  if (isOfDatabase) append.failed(failure)
  append.ended(false)
  return Exit.fail(isOfDatabase ? refusalOf(failure) : failure)
}

const wentBack: CommitExit = Exit.fail(
  unavailable(
    "The database is in an earlier state than this relay has seen, so the relay reads its streams again. Try again.",
  ),
)
/** Another relay took the stream. The sender delivers the event again, to this relay or another. */
const between: CommitExit = Exit.fail(
  unavailable("Another relay has taken over this relay's stream, so this relay starts a new one. Try again."),
)
