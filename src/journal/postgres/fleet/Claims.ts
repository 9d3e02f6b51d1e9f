/** A relay's claims: its name, a stream to write, and streams of relays that have ended. */

import { Effect } from "effect"
import type { Turn } from "../../JournalContext.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { maxStreams, sharedStream, timelineOf } from "../../Sequences.ts"
import type { Database, Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import type { Sign } from "../lanes/StreamState.ts"
import { lease, type MemberRow, type StreamRow, taking } from "./Membership.ts"

interface Held {
  readonly timeline: number
  /** When the heartbeat was sent whose answer named these streams, in monotonic milliseconds. */
  readonly at: number
  readonly streams: ReadonlySet<number>
}

/** The stream's number, and its epochs before and after it was taken. `former` is 0 if it has never had an owner. */
export interface Taken {
  readonly id: number
  readonly epoch: number
  readonly former: number
}

/**
 * The time from which a relay may deliver a stream that it has taken. The former owner may continue for its lease
 * before it hears of that.
 *
 * A promoted server that was behind names an earlier owner. So a relay that takes a stream there doesn't know the
 * last owner, unless it was the last owner itself.
 *
 * **Guarantee.** A relay waits for a lease before it delivers, in two cases: after it took a stream from a living
 * relay, and after it was the first to take a stream since a promotion. It doesn't wait if it owned the stream at its
 * last answered heartbeat before the promotion, less than a lease ago, because no other relay had started by then.
 * Waiting for a lease isn't enough: a heartbeat that was sent after the lease must also have been answered. So a
 * relay that took a stream just before a promotion hears of the promotion first.
 */
export class Handover {
  /** This relay's streams on the timelines that it heard of, the newest last. Two timelines are enough. */
  #held: ReadonlyArray<Held> = []
  readonly #from = new Map<number, number>()

  /** Records the answer to a heartbeat. */
  heard(held: Held): void {
    this.#held = [...this.#held.filter(({ timeline }) => timeline !== held.timeline).slice(-1), held]
  }

  /**
   * Records that a stream is about to be taken from a living relay. It is called before the request, because
   * the answer may be lost.
   */
  fromLiving(stream: number, now: number): void {
    this.#from.set(stream, now + lease)
  }

  /** Returns when a stream that was taken now may be delivered, in monotonic milliseconds. */
  after({ id, epoch, former }: Taken, now: number): number {
    const timeline = timelineOf(epoch)
    const isPromoted =
      former === 0 ? this.#held.some((held) => held.timeline < timeline) : timelineOf(former) !== timeline
    const last = this.#held.findLast((held) => held.timeline < timeline)
    const wasHeld = last?.streams.has(id) === true && now - last.at < lease
    if (isPromoted && !wasHeld) this.fromLiving(id, now)
    return this.#from.get(id) ?? Number.NEGATIVE_INFINITY
  }
}

/** Milliseconds between two checks of a relay with the same name, before this one believes that it has ended. */
const lookEvery = 500

const nameIsTaken = (name: string): JournalError =>
  unavailable(
    `Another relay on this database is called ${name} and is running: give each a name of its own with "journal": { "name": … }.`,
  )

/** Gives this relay a name that is free, or that only the relay `before` has. */
export const putName = (db: Database, name: string, instance: string, before: string | null) =>
  db.query(
    `INSERT INTO member AS m (name, instance) VALUES ($1, $2)
     ON CONFLICT (name) DO UPDATE SET instance = $2, beat = m.beat % ${taking} + 1, report = '{}', config_hash = '', sinks = '{}'
     WHERE m.instance = $3`,
    [name, instance, before],
  )

/**
 * Claims a name. If another relay has it, this one watches that relay for longer than it may deliver without an
 * answer. If it sends no heartbeat, it has ended. An instance that has surely ended isn't watched.
 */
export const claimName = Effect.fnUntraced(function* (
  db: Database,
  name: string,
  { instance, ended }: Turn,
): Effect.fn.Return<void, JournalError> {
  const look = Effect.map(
    refusing(db.query<{ instance: string; beat: number }>("SELECT instance, beat FROM member WHERE name = $1", [name])),
    ({ rows }) => rows[0],
  )
  const before = yield* look
  const isWatched = before !== undefined && !ended.includes(before.instance)
  for (let watched = 0; isWatched && watched <= lease; watched += lookEvery) {
    yield* Effect.sleep(lookEvery)
    const now = yield* look
    if (now === undefined) break
    const isGone = now.instance === before.instance && now.beat % taking === before.beat % taking
    if (!isGone) return yield* nameIsTaken(name)
  }
  const { count } = yield* refusing(putName(db, name, instance, before?.instance ?? null))
  if (count === 0) return yield* nameIsTaken(name)
})

/** Fails if the database went back to an earlier state and no heartbeat has shown it yet. */
const requireSign = (queries: Queries, sign: Sign) =>
  Effect.filterOrFail(
    queries.query("SELECT WHERE knows($1)", [sign]),
    ({ rows }) => rows.length > 0,
    () => unavailable("The database is in an earlier state than this relay has seen."),
  )

/** A claimed stream. */
interface Claimed extends Taken {
  /** The living relay that still delivers the stream's backlog, as far as this relay knows. */
  readonly before: string | null
}

/** Claims the stream that had this relay's name, a stream that no relay needs, or a new one. */
export const claimStream = Effect.fnUntraced(function* (
  db: Database,
  name: string,
  sign: Sign,
): Effect.fn.Return<Claimed, JournalError> {
  const claim = db.transact((queries) =>
    Effect.gen(function* () {
      yield* requireSign(queries, sign)
      const take = (where: string) =>
        queries.query<Claimed>(
          `WITH found AS MATERIALIZED (
             SELECT id, epoch AS former, CASE WHEN spare THEN NULL ELSE owner END AS owner FROM stream
             WHERE id <> ${sharedStream} AND ${where} ORDER BY id LIMIT 1 FOR UPDATE
           )
           UPDATE stream SET home = $1, owner = $1, epoch = next_epoch(epoch), spare = false FROM found
           WHERE stream.id = found.id
           RETURNING stream.id, stream.epoch, found.former, found.owner AS before`,
          [name],
        )
      const home = (yield* take("home = $1")).rows[0] ?? (yield* take("spare")).rows[0]
      if (home !== undefined) return home
      const { rows } = yield* queries.query<Claimed>(
        `INSERT INTO stream (id, home, owner, epoch)
         SELECT min(id), $1, $1, next_epoch(0) FROM generate_series(0, ${maxStreams - 1}) AS free(id)
         WHERE NOT EXISTS (SELECT FROM stream WHERE stream.id = free.id) RETURNING id, epoch, 0 AS former, NULL AS before`,
        [name],
      )
      return rows[0]
    }),
  )
  const claimed = yield* refusing(Effect.retry(claim, { times: 5 }))
  return claimed ?? (yield* unavailable("The database has no stream left for another relay."))
})

/**
 * Takes a stream that has no owner, or whose owner sends no heartbeat. `before` is the owner with the last
 * heartbeat that this relay knows. Returns the new epoch, or `undefined` if another relay was first or the
 * owner continues.
 */
export const takeStream = Effect.fnUntraced(function* (
  db: Database,
  name: string,
  { id, epoch }: StreamRow,
  before: MemberRow | undefined,
  sign: Sign,
): Effect.fn.Return<number | undefined, JournalError> {
  const take = db.transact((queries) =>
    Effect.gen(function* () {
      yield* requireSign(queries, sign)
      if (before !== undefined) {
        const { count } = yield* queries.query(
          `UPDATE member SET beat = beat + ${taking} WHERE name = $1 AND instance = $2 AND beat % ${taking} = $3`,
          [before.name, before.instance, before.beat % taking],
        )
        if (count === 0) return undefined
      }
      const { rows } = yield* queries.query<{ epoch: number }>(
        "UPDATE stream SET owner = $1, epoch = next_epoch(epoch), spare = false WHERE id = $2 AND epoch = $3 RETURNING epoch",
        [name, id, epoch],
      )
      return rows[0]?.epoch
    }),
  )
  return yield* refusing(take)
})
