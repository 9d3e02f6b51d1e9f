/**
 * The relays on one database, and the streams that this one owns: it beats, takes
 * what others left, and gives up what others took.
 *
 * **Guarantee.** A stream has one owner. Two that believe to own it are told apart
 * by its epoch, which rises with each taking: the older one stores nothing more.
 */
import { Clock, Effect, Latch, Random, Result, type Scope, SubscriptionRef } from "effect"
import type { Introduction } from "../FleetStatus.ts"
import { type JournalError, unavailable } from "../JournalError.ts"
import type { Log, Streams } from "../StreamLog.ts"
import type { Database } from "./Database.ts"
import { refusing } from "./DatabaseRefusal.ts"
import * as Membership from "./Membership.ts"
import { OwnedStream } from "./OwnedStream.ts"
import { reportOf } from "./SelfReport.ts"
import { floorOf, maxStreams, sharedStream } from "./Sequences.ts"
import type { Owner } from "./StreamState.ts"

/** How long a relay of the same name is watched before it is believed to be gone, and how often it is looked at. */
const watch = { times: 5, every: 500 } as const

/** Milliseconds after which a relay that gives no sign of life is not listed any more. */
const forgetAfter = 3_600_000

export interface FleetOptions {
  readonly db: Database
  readonly name: string
  /** Who this relay is, for the others. */
  readonly introduction: () => Introduction
  readonly owner: Omit<Owner, "db" | "isAlive" | "now" | "isPaused" | "revisionOf">
  /** A failover lost what was answered: a line for the alarm. */
  readonly onLoss: (line: string) => void
  /** Nothing goes on: another relay has this one's name. */
  readonly onReplaced: (message: string) => void
}

const range = (from: number, to: number): string => (from === to ? `event ${from}` : `events ${from} to ${to}`)

export class Fleet {
  readonly #options: FleetOptions
  readonly #clock: Clock.Clock
  readonly #random: () => number
  readonly #instance = crypto.randomUUID()
  readonly #stillness = new Membership.Stillness()
  readonly owner: Owner
  readonly name: string
  readonly #wake = Latch.makeUnsafe(false)
  /** The stream that this relay writes; `undefined` between two. */
  own: OwnedStream | undefined
  /** Its own is the first. */
  readonly owned: Streams
  streams: ReadonlyArray<OwnedStream> = []
  news: Membership.News = { alive: true, streams: [], members: [], sinks: [], alarm: null }
  readonly counters = { takeovers: 0, fenced: 0 }
  /** When the last beat that was answered was sent: steady and wall clock. */
  #sent = { at: Number.NEGATIVE_INFINITY, wall: 0 }
  readonly #noted = new Map<string, { readonly paused: boolean; readonly at: number }>()
  readonly #seenAt = new Map<string, { readonly sign: string; readonly at: number }>()

  constructor(options: FleetOptions, clock: Clock.Clock, random: () => number, owned: Streams) {
    this.#options = options
    this.#clock = clock
    this.#random = random
    this.owned = owned
    this.name = options.name
    this.owner = {
      ...options.owner,
      db: options.db,
      isAlive: () => this.isAlive,
      now: () => this.now(),
      isPaused: (sink) => this.isPaused(sink),
      revisionOf: (sink) => this.#sink(sink)?.revision ?? 0,
    }
  }

  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  #sink(name: string): Membership.SinkRow | undefined {
    return this.news.sinks.find((sink) => sink.name === name)
  }

  isPaused(sink: string): boolean {
    const noted = this.#noted.get(sink)
    return noted !== undefined && noted.at >= this.#sent.at ? noted.paused : (this.#sink(sink)?.paused ?? false)
  }

  /** A person has paused or resumed a sink here: a beat that is sent from now on says the same. */
  notePaused(name: string, paused: boolean): void {
    this.#noted.set(name, { paused, at: this.now() })
  }

  /** How many events wait for a sink in the shared stream, as its owner says. */
  waitingInShared(sink: string): number {
    const own = this.streams.find(({ id }) => id === sharedStream)
    if (own !== undefined) return own.backlogs.get(sink)?.size ?? 0
    const reports = this.others.flatMap(({ report }) => report.streams?.[sharedStream] ?? [])
    return reports[0]?.lanes[sink]?.backlog ?? 0
  }

  /** Other relays whose config has the sink. */
  relaysWith(sink: string): ReadonlyArray<string> {
    return this.others.filter(({ report }) => report.lanes?.some(({ name }) => name === sink)).map(({ name }) => name)
  }

  /** Milliseconds since the last sign of life that was answered; of two clocks the one that ran more. */
  get beatAge(): number {
    return Math.max(this.now() - this.#sent.at, this.#clock.currentTimeMillisUnsafe() - this.#sent.wall)
  }

  get isAlive(): boolean {
    return this.beatAge < Membership.lease
  }

  /** Milliseconds since another relay's last sign of life was seen. */
  ageOf(member: string): number {
    return this.now() - (this.#seenAt.get(member)?.at ?? this.now())
  }

  get #self(): Membership.Self {
    const introduction = this.#options.introduction()
    const { version, configHash, address } = introduction
    const report = reportOf(this.streams, introduction)
    return { name: this.name, instance: this.#instance, version, configHash, address, report }
  }

  // --- joining and leaving ---------------------------------------------------

  /** Takes the name, and a stream to write; fails where another live relay has the name. */
  get join(): Effect.Effect<void, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const { db, name } = this.#options
      const before = yield* this.#departed
      const { count } = yield* refusing(
        db.query(
          `INSERT INTO member AS m (name, instance) VALUES ($1, $2)
           ON CONFLICT (name) DO UPDATE SET instance = $2, beat = m.beat + 1, report = '{}' WHERE m.instance = $3`,
          [name, this.#instance, before ?? ""],
        ),
      )
      if (count === 0) return yield* this.#nameIsTaken
      yield* this.beat
      if (!this.isAlive) return yield* unavailable("PostgreSQL did not answer this relay's first sign of life in time.")
      yield* this.#claim
    })
  }

  get #nameIsTaken(): JournalError {
    const { name } = this.#options
    return unavailable(
      `Another relay on this database is called ${name}, and lives: give each a name of its own by "journal": { "name": … }.`,
    )
  }

  /** Watches a relay of the same name for a while; its instance, once it has shown no sign of life. */
  get #departed(): Effect.Effect<string | undefined, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const { db, name } = this.#options
      const look = Effect.map(
        refusing(
          db.query<{ instance: string; beat: number }>("SELECT instance, beat FROM member WHERE name = $1", [name]),
        ),
        ({ rows }) => rows[0],
      )
      const first = yield* look
      if (first === undefined) return undefined
      for (let times = 0; times < watch.times; times++) {
        yield* Effect.sleep(watch.every)
        const now = yield* look
        if (now === undefined) return undefined
        if (now.instance !== first.instance || now.beat !== first.beat) return yield* this.#nameIsTaken
      }
      return first.instance
    })
  }

  /** The stream to write: that which had this relay's name, one that nobody needs, or a new one. */
  get #claim(): Effect.Effect<void, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const { db, name } = this.#options
      const claimed = yield* refusing(
        db.transact((queries) =>
          Effect.gen(function* () {
            const take = (where: string) =>
              queries.query<{ id: number; epoch: number }>(
                `UPDATE stream SET home = $1, owner = $1, epoch = epoch + 1, spare = false
                 WHERE id = (SELECT id FROM stream WHERE id <> ${sharedStream} AND ${where} ORDER BY id LIMIT 1 FOR UPDATE)
                 RETURNING id, epoch`,
                [name],
              )
            const home = (yield* take("home = $1")).rows[0] ?? (yield* take("spare")).rows[0]
            if (home !== undefined) return home
            const { rows } = yield* queries.query<{ id: number; epoch: number }>(
              `INSERT INTO stream (id, home, owner, epoch)
               SELECT min(id), $1, $1, 1 FROM generate_series(0, ${maxStreams - 1}) AS free(id)
               WHERE NOT EXISTS (SELECT FROM stream WHERE stream.id = free.id) RETURNING id, epoch`,
              [name],
            )
            return rows[0]
          }),
        ),
      ).pipe(Effect.retry({ times: 5 }))
      if (claimed === undefined) return yield* unavailable("The database has no stream left for another relay.")
      const stream = new OwnedStream(this.owner, claimed.id, claimed.epoch)
      yield* stream.load
      this.own = stream
      yield* this.#hold(stream)
    })
  }

  /** Gives everything back, for others to take at once. */
  get leave(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      const { db, name } = this.#options
      for (const stream of this.streams) {
        yield* db.query("UPDATE stream SET owner = NULL WHERE id = $1 AND epoch = $2", [stream.id, stream.epoch])
        stream.onLost = () => {}
        stream.lost()
      }
      yield* db.query("DELETE FROM member WHERE name = $1 AND instance = $2", [name, this.#instance])
    }).pipe(Effect.ignore)
  }

  // --- beating ---------------------------------------------------------------

  /** A sign of life, and what is new. */
  readonly beat: Effect.Effect<void> = Effect.suspend(() => {
    const sent = { at: this.now(), wall: this.#clock.currentTimeMillisUnsafe() }
    const heads = new Map(this.streams.map((stream) => [stream, stream.end]))
    return Effect.map(
      Effect.promise(() => Membership.beat(this.#options.db, this.#self)),
      (result) => {
        const news = Result.isSuccess(result) ? result.success.rows[0] : undefined
        if (news === undefined) return
        if (!news.alive) {
          this.#options.onReplaced(
            `Another relay has taken the name ${this.#options.name}: give each a name of its own by "journal": { "name": … }.`,
          )
          return
        }
        this.#sent = sent
        this.news = news
        const now = this.now()
        this.#stillness.saw(news, now)
        for (const { name, instance, beat } of news.members) {
          const sign = `${instance} ${beat}`
          if (this.#seenAt.get(name)?.sign !== sign) this.#seenAt.set(name, { sign, at: now })
        }
        for (const [stream, head] of heads) this.#check(stream, head)
        this.#wake.openUnsafe()
      },
    )
  })

  /** Whether a stream is still this relay's, and what was answered still there. */
  #check(stream: OwnedStream, head: number): void {
    const row = this.news.streams.find(({ id }) => id === stream.id)
    if (row === undefined || row.epoch !== stream.epoch) {
      stream.lost()
      return
    }
    const there = row.head ?? floorOf(stream.id)
    if (there >= head) return
    this.#options.onLoss(
      `The database lost ${head - there} that were answered, by a failover to a server that did not have them: ${range(there + 1, head)}. They are not delivered, as far as they were not; the sender may send them again.`,
    )
    stream.lost()
  }

  readonly #keepBeating = Effect.suspend(() => {
    const began = this.now()
    return Effect.andThen(
      this.beat,
      Effect.suspend(() => Effect.sleep(Math.max(0, Membership.beatEvery - (this.now() - began)))),
    )
  })

  // --- taking and losing -----------------------------------------------------

  #hold(stream: OwnedStream) {
    stream.onLost = () => {
      this.counters.fenced += 1
      if (this.own === stream) this.own = undefined
      this.#wake.openUnsafe()
    }
    return this.#set(this.own === stream ? [stream, ...this.streams] : [...this.streams, stream])
  }

  #set(streams: ReadonlyArray<OwnedStream>) {
    this.streams = streams
    return SubscriptionRef.set(this.owned, streams)
  }

  get #live(): ReadonlyArray<Membership.MemberRow> {
    return this.news.members.filter(({ name }) => this.ageOf(name) < Membership.patience)
  }

  /** Other relays whose signs of life are fresh. */
  get others(): ReadonlyArray<Membership.MemberRow> {
    return this.#live.filter(({ name }) => name !== this.#options.name)
  }

  /** Gives up what was lost, and takes what nobody has. */
  readonly #react: Effect.Effect<void, JournalError> = Effect.gen({ self: this }, function* () {
    if (this.streams.some(({ isLost }) => isLost)) {
      yield* this.#set(this.streams.filter(({ isLost }) => !isLost))
    }
    if (!this.isAlive) return
    if (this.own === undefined) yield* this.#claim
    const { name } = this.#options
    const now = this.now()
    const held = new Set(this.streams.map(({ id }) => id))
    const free = this.news.streams.filter(
      ({ id, owner }) => !held.has(id) && (owner === null || owner === name || this.#stillness.isStill(id, now)),
    )
    // Several relays see the same at the same time: each begins elsewhere, and takes its share.
    const share = Math.ceil(free.length / Math.max(1, this.#live.length))
    const from = Math.floor(this.#random() * free.length)
    for (const row of [...free.slice(from), ...free.slice(0, from)].slice(0, share)) yield* this.#take(row)
    for (const stream of this.streams) yield* this.#offer(stream)
    for (const { name, instance } of this.news.members) {
      if (this.ageOf(name) < forgetAfter) continue
      yield* refusing(this.#options.db.query("DELETE FROM member WHERE name = $1 AND instance = $2", [name, instance]))
    }
  })

  readonly #take = Effect.fnUntraced(function* (this: Fleet, { id, epoch, owner }: Membership.StreamRow) {
    const { db, name } = this.#options
    const { rows } = yield* refusing(
      db.query<{ epoch: number }>(
        "UPDATE stream SET owner = $1, epoch = epoch + 1, spare = false WHERE id = $2 AND epoch = $3 RETURNING epoch",
        [name, id, epoch],
      ),
    )
    const [taken] = rows
    if (taken === undefined) return
    const stream = new OwnedStream(this.owner, id, taken.epoch)
    yield* stream.load
    if (owner !== null && owner !== name) this.counters.takeovers += 1
    yield* this.#hold(stream)
    yield* Effect.logInfo(
      id === sharedStream
        ? "this relay delivers the shared stream now"
        : `this relay has taken over the stream ${id}${owner === null ? "" : ` of ${owner}`}`,
    )
  })

  /** A stream that was taken over and is empty serves the next relay that joins. */
  readonly #offer = Effect.fnUntraced(function* (this: Fleet, stream: OwnedStream) {
    const row = this.news.streams.find(({ id }) => id === stream.id)
    if (stream === this.own || stream.id === sharedStream || row === undefined || row.spare) return
    for (const { size } of stream.backlogs.values()) if (size > 0) return
    yield* refusing(
      this.#options.db.query("UPDATE stream SET spare = true WHERE id = $1 AND epoch = $2", [stream.id, stream.epoch]),
    )
  })

  /** Beats, and reacts to what it is told, until the scope closes. */
  get run(): Effect.Effect<void, never, Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      yield* Effect.forkScoped(Effect.forever(this.#keepBeating))
      yield* Effect.forkScoped(
        Effect.forever(
          this.#wake.await.pipe(Effect.andThen(this.#wake.close), Effect.andThen(Effect.ignore(this.#react))),
        ),
      )
    })
  }
}

export const make = Effect.fnUntraced(function* (options: FleetOptions) {
  const random = yield* Random.Random
  const owned = yield* SubscriptionRef.make<ReadonlyArray<Log>>([])
  return new Fleet(options, yield* Clock.Clock, () => random.nextDoubleUnsafe(), owned)
})
