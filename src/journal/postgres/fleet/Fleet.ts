/**
 * The relays on one database, and the streams that this one owns. It sends heartbeats, takes streams that
 * others left, and leaves streams that others took.
 *
 * **Guarantee.** A stream has one owner. If two relays both believe they own it, the epoch decides: each claim
 * increments it, and the older owner can't store anything more. An epoch belongs to a timeline. So after a
 * promotion no relay owns a stream until it has claimed it again and read it from the promoted server.
 *
 * **Guarantee.** A database that went back to an earlier state on its timeline, by a snapshot or a dump, lacks
 * a relay's last heartbeat. No statement of that relay stores anything there. Its next heartbeat detects it,
 * and it begins a new history. All relays treat it as a promotion.
 */

import { Clock, Effect, Latch, Random, Result, type Scope, SubscriptionRef } from "effect"
import * as Monotonic from "../../../event/Monotonic.ts"
import type { EpochMillis } from "../../../event/Quantities.ts"
import { repeating } from "../../../event/Rounds.ts"
import { type Introduction, type LaneCounts, type StreamReport, takeoverAfter } from "../../FleetStatus.ts"
import type { Log, Streams } from "../../Journal.ts"
import { Turn } from "../../JournalContext.ts"
import { isNotFenced, type JournalError, unavailable } from "../../JournalError.ts"
import type { Pause } from "../../LaneInfo.ts"
import { floorOf, sharedStream, timelineOf } from "../../Sequences.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseError.ts"
import { OwnedStream } from "../lanes/OwnedStream.ts"
import { passedBy, settle } from "../lanes/Settling.ts"
import { load } from "../lanes/StreamLoading.ts"
import { isOwned, type Owner, type Sign, type StreamState } from "../lanes/StreamState.ts"
import { type KnownRow, type KnownRows, type OwnStream, placed } from "../tables/KnownRows.ts"
import { claimName, claimStream, Handover, putName, type Taken, takeStream } from "./Claims.ts"
import * as Membership from "./Membership.ts"

/** The description of a relay that has not described itself yet. */
const nobody: Introduction = { version: "", configHash: "", sinks: {}, address: "", lanes: [] }

/** Returns the counts of a stream, without idle lanes. */
export const countsOf = ({ backlogs, letters, accepted, kept, bytes }: StreamState): StreamReport => {
  const lettered = [...letters.last.keys()].flatMap((lane) => backlogs.get(lane) ?? [])
  const lanes = [...new Set([...backlogs.holding(), ...lettered])].map(({ lane, size, retrying }) => [
    lane,
    { backlog: size, retrying: retrying.size, deadLetters: letters.last.get(lane)?.letters ?? 0 } satisfies LaneCounts,
  ])
  return { lanes: Object.fromEntries(lanes), accepted, kept, bytes }
}

/** Returns the report that a heartbeat carries to the others. */
const reportOf = (streams: ReadonlyArray<StreamState>, { lanes }: Introduction): Membership.Report => ({
  streams: Object.fromEntries(streams.map((stream) => [stream.id, countsOf(stream)])),
  lanes,
})

/** Maximum milliseconds for leaving, so that a database that doesn't answer can't delay the exit. */
const leaveWithin = 3_000
/** Milliseconds after the last heartbeat until a relay is no longer listed. */
const forgetAfter = 3_600_000

export interface FleetOptions {
  readonly db: Database
  readonly name: string
  readonly owner: Pick<Owner, "opened" | "empty" | "exclusively" | "damaged">
  /** This relay's appends to the shared stream. Its owner may not have read the newest of them yet. */
  readonly toShared: KnownRows
  /**
   * Called if a failover may have lost some of these rows. They belong to a stream that this relay no longer
   * owns, or to the shared stream.
   */
  readonly onLost: (known: KnownRows, own?: OwnStream) => void
  /** Called when another relay has taken this relay's name. This relay must stop. */
  readonly onReplaced: (message: string) => void
}

/** The relays that this one knows, and its own streams. */
export class Fleet {
  readonly #options: FleetOptions
  readonly #clock: Clock.Clock
  readonly #random: () => number
  readonly #turn: Turn
  readonly #stillness = new Membership.Stillness()
  readonly #handover = new Handover()
  readonly owner: Owner
  readonly name: string
  /** This relay's description of itself for the others, which each heartbeat asks for. */
  introduction: () => Introduction = () => nobody
  readonly #wake = Latch.makeUnsafe(false)
  /** The stream that this relay writes, or `undefined` between two streams. */
  own: OwnedStream | undefined
  /** All streams of this relay. It writes the first. */
  readonly owned: Streams
  streams: ReadonlyArray<OwnedStream> = []
  news: Membership.News = {
    beat: 0,
    instance: null,
    timeline: 0,
    streams: [],
    members: [],
    sinks: [],
    alarm: null,
    lost: [],
  }
  /** By sink, as the news report them. */
  #pauses: ReadonlyMap<string, Pause> = new Map()
  #configs: Membership.KnownConfigs = new Map()
  readonly counters = { takeovers: 0, fenced: 0 }
  /** When the last answered heartbeat was sent, by the monotonic and the wall clock. */
  #sent = { at: Number.NEGATIVE_INFINITY, wall: 0 }
  /** The number of the last answered heartbeat, on the timeline of `news`. */
  #beat = 0
  /**
   * The number of the heartbeat before that, a second earlier, or of a later transaction that counts as one. Heartbeats
   * aren't flushed, so a crash of the server may lose the last.
   */
  #storedBeat = 0
  /** Set if the database went back and this relay hasn't started a new history since. */
  #isBehind = false
  /**
   * The last timeline on which this relay reclaimed its name. It takes the name from another process at most once
   * per timeline, because that process may be a relay that wants the same name.
   */
  #rejoined = 0
  /** Number of times that others have taken streams from this relay. */
  #takings = 0
  readonly #noted = new Map<string, { readonly pause: Pause; readonly at: number }>()
  readonly #seenAt = new Map<string, { readonly sign: string; readonly at: number }>()

  constructor(options: FleetOptions, turn: Turn, clock: Clock.Clock, random: () => number, owned: Streams) {
    this.#turn = turn
    this.#options = options
    this.#clock = clock
    this.#random = random
    this.owned = owned
    this.name = options.name
    this.owner = {
      ...options.owner,
      db: options.db,
      isAlive: () => this.isAlive,
      askedAt: () => this.#sent.at,
      sign: () => this.sign,
      beatStored: (beat) => {
        this.#storedBeat = Math.max(this.#storedBeat, beat)
      },
      now: () => this.now(),
      pauseOf: (sink) => this.pauseOf(sink),
      pausedSinks: () => this.pausedSinks,
    }
  }

  get sign(): Sign {
    return [this.name, this.#turn.instance, String(this.#storedBeat), String(this.news.timeline)]
  }

  now(): number {
    return Monotonic.millis(this.#clock)
  }

  pauseOf(sink: string): Pause {
    const noted = this.#noted.get(sink)
    if (noted !== undefined && noted.at >= this.#sent.at) return noted.pause
    return this.#pauses.get(sink) ?? { paused: false }
  }

  get pausedSinks(): ReadonlyArray<string> {
    const known = new Set([...this.#pauses.keys(), ...this.#noted.keys()])
    return [...known].filter((sink) => this.pauseOf(sink).paused !== false)
  }

  /** The shared stream, if this relay delivers it. */
  get shared(): OwnedStream | undefined {
    return this.streams.find(({ id }) => id === sharedStream)
  }

  /** Stores that an operator has paused or resumed a sink. Heartbeats sent from now on report the same. */
  setPause(name: string, pause: Pause): Effect.Effect<void, JournalError> {
    const { paused, mute } = pause
    return Effect.map(
      refusing(
        this.#options.db.query(
          `INSERT INTO sink (name, paused, until, mute) VALUES ($1, $2, $3, $4)
           ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, until = excluded.until, mute = excluded.mute`,
          [
            name,
            paused !== false,
            typeof paused === "number" ? paused : null,
            mute === undefined ? null : JSON.stringify(mute),
          ],
        ),
      ),
      () => {
        this.#noted.set(name, { pause, at: this.now() })
      },
    )
  }

  /** Resumes a sink whose pause ends at `until`. If an operator has changed the pause at any relay, nothing happens. */
  endPause(name: string, until: EpochMillis): Effect.Effect<void, JournalError> {
    return Effect.map(
      refusing(
        this.#options.db.query("UPDATE sink SET paused = false, until = NULL WHERE name = $1 AND until = $2", [
          name,
          until,
        ]),
      ),
      ({ count }) => {
        if (count > 0) this.#noted.set(name, { pause: { ...this.pauseOf(name), paused: false }, at: this.now() })
      },
    )
  }

  /** Returns the number of undelivered events of a sink in the shared stream, as reported by its owner. */
  waitingInShared(sink: string): number {
    if (this.shared !== undefined) return this.shared.backlogs.get(sink)?.size ?? 0
    const reports = this.others.flatMap(({ report }) => report.streams[sharedStream] ?? [])
    return reports[0]?.lanes[sink]?.backlog ?? 0
  }

  /** Other live relays whose reports can't be read. */
  get unreadable(): ReadonlyArray<Membership.MemberRow> {
    return this.others.filter(({ report }) => !report.isWhole)
  }

  /** Other relays whose config has the sink. */
  relaysWith(sink: string): ReadonlyArray<string> {
    return this.others
      .filter(({ sinks, report }) => Object.hasOwn(sinks, sink) || report.lanes.some(({ name }) => name === sink))
      .map(({ name }) => name)
  }

  /** Milliseconds since the last answered heartbeat was sent, by the clock that ran further. */
  get beatAge(): number {
    return Math.max(this.now() - this.#sent.at, this.#clock.currentTimeMillisUnsafe() - this.#sent.wall)
  }

  get isAlive(): boolean {
    return this.beatAge < Membership.lease
  }

  /** Milliseconds since this relay last saw a new heartbeat of another relay. */
  ageOf(member: string): number {
    return this.now() - (this.#seenAt.get(member)?.at ?? this.now())
  }

  get #self(): Membership.Self {
    const introduction = this.introduction()
    const { version, configHash: hash, sinks, address } = introduction
    const { name } = this
    const { instance } = this.#turn
    const stored = this.news.members.find((member) => member.name === name && member.instance === instance)
    const config = stored?.config_hash !== hash && { config: { hash, sinks } }
    return { name, instance, version, ...config, address, report: reportOf(this.streams, introduction) }
  }

  // --- joining and leaving ---------------------------------------------------

  /** Takes the name, and a stream to write. Fails if another live relay has the name. */
  get join(): Effect.Effect<void, JournalError> {
    return Effect.gen({ self: this }, function* () {
      yield* claimName(this.#options.db, this.name, this.#turn)
      yield* this.beat
      if (!this.isAlive) return yield* unavailable("PostgreSQL did not answer this relay's first heartbeat in time.")
      yield* this.#claim
    })
  }

  get #claim(): Effect.Effect<void, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const isOthers = (owner: string | null) => owner !== null && owner !== this.name
      const home = this.news.streams.find(({ home }) => home === this.name)
      if (home !== undefined && isOthers(home.owner)) this.#handover.fromLiving(home.id, this.now())
      const claimed = yield* claimStream(this.#options.db, this.name, this.sign)
      // The stream's owner lives, and learns of the claim by its next heartbeat. Until then it may deliver.
      if (isOthers(claimed.before)) this.#handover.fromLiving(claimed.id, this.now())
      const stream = yield* this.#read(claimed)
      this.own = stream
      yield* this.#hold(stream)
    })
  }

  /** Reads a claimed stream. */
  readonly #read = Effect.fnUntraced(function* (
    this: Fleet,
    taken: Taken,
  ): Effect.fn.Return<OwnedStream, JournalError> {
    const stream = new OwnedStream(this.owner, taken.id, taken.epoch)
    stream.notBefore = this.#handover.after(taken, this.now())
    yield* load(stream)
    return stream
  })

  /** Releases everything, so that others can take it immediately. */
  get leave(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      const { db, name } = this.#options
      for (const stream of this.streams) {
        yield* Effect.ignore(settle(stream, passedBy(stream)))
        yield* db.query(`UPDATE stream SET owner = NULL WHERE ${isOwned}`, [stream.id, stream.claim])
        stream.onLost = () => {}
        stream.lost()
      }
      yield* db.query("DELETE FROM member WHERE name = $1 AND instance = $2", [name, this.#turn.instance])
    }).pipe(Effect.timeoutOption(leaveWithin), Effect.ignore)
  }

  // --- beating ---------------------------------------------------------------

  /** Sends a heartbeat, and takes in the news. */
  readonly beat: Effect.Effect<void> = Effect.suspend(() => {
    const sent = { at: this.now(), wall: this.#clock.currentTimeMillisUnsafe() }
    const { toShared, onLost } = this.#options
    const asked = new Map(this.streams.map((stream) => [stream, stream.known.unconfirmed]))
    const appended = toShared.unconfirmed
    const rows = [...asked.values(), appended].flat()
    const stored = this.#storedBeat
    return Effect.flatMap(
      Effect.promise(() => Membership.beat(this.#options.db, this.#self, rows, this.#configs)),
      (result) => {
        const news = Result.isSuccess(result) ? result.success : undefined
        if (news === undefined) return Effect.void
        this.#isBehind ||= this.#showsEarlierState(news, stored)
        if (this.#isBehind) return this.#beginHistory(news)
        if (news.beat === null) return this.#nameless(news)
        this.#hear(news, news.beat, sent)
        const lost = placed(rows, news.lost)
        for (const [stream, rows] of asked) this.#check(stream, rows, lost)
        if (!toShared.confirm(appended, lost)) onLost(toShared)
        this.#wake.openUnsafe()
        return Effect.void
      },
    )
  })

  #hear(news: Membership.News, beat: number, sent: { readonly at: number; readonly wall: number }): void {
    const takings = Math.floor(beat / Membership.taking)
    // Another relay is taking a stream from this one at this moment. The next answer names the stream.
    const isTaken = takings > this.#takings
    this.#takings = takings
    if (!isTaken) {
      this.#sent = sent
      this.#handover.heard({ timeline: news.timeline, at: sent.at, streams: this.#heldBy(news) })
    }
    const isPromoted = news.timeline !== this.news.timeline
    // A statement may have found the promotion first. Then this relay has claimed streams on the new timeline.
    for (const stream of this.streams) if (timelineOf(stream.epoch) !== news.timeline) stream.lost()
    this.news = news
    this.#pauses = new Map(news.sinks.map((row) => [row.name, Membership.pauseOf(row)]))
    this.#configs = Membership.configsOf(news)
    this.#storedBeat = isPromoted ? 0 : Math.max(this.#storedBeat, this.#beat)
    this.#beat = beat
    const now = this.now()
    this.#stillness.saw(news, sent.at, now)
    for (const { name, instance, beat } of news.members) {
      const sign = `${instance} ${beat}`
      if (this.#seenAt.get(name)?.sign !== sign) this.#seenAt.set(name, { sign, at: now })
    }
  }

  /** The numbers of the streams that this relay owns according to the answer. */
  #heldBy({ streams, timeline }: Membership.News): ReadonlySet<number> {
    const epochs = new Map(streams.map(({ id, epoch }) => [id, epoch]))
    const own = this.streams.filter(
      ({ id, epoch, isLost }) => !isLost && epochs.get(id) === epoch && timelineOf(epoch) === timeline,
    )
    return new Set(own.map(({ id }) => id))
  }

  /**
   * Handles a heartbeat that finds no row of this relay. Another relay has the name, or a failover lost the row
   * or gave it back to an earlier process.
   */
  #nameless({ instance, timeline }: Membership.News): Effect.Effect<void> {
    const isPromoted = timeline !== this.news.timeline && timeline !== this.#rejoined
    if (instance === null || isPromoted) {
      this.#rejoined = timeline
      return this.#rejoin(instance)
    }
    return Effect.sync(() =>
      this.#options.onReplaced(
        `Another relay has taken the name ${this.name}: give each a name of its own with "journal": { "name": … }.`,
      ),
    )
  }

  /** Takes the name back, and numbers its heartbeats from the start. */
  #rejoin(before: string | null): Effect.Effect<void> {
    this.#beat = 0
    this.#storedBeat = 0
    return Effect.ignore(putName(this.#options.db, this.name, this.#turn.instance, before))
  }

  /**
   * Heartbeat numbers and epochs only rise, so a lower one shows that the database went back. `stored` is the highest
   * number that was known to be stored when the heartbeat was sent.
   */
  #showsEarlierState({ beat, timeline, streams }: Membership.News, stored: number): boolean {
    if (timeline !== this.news.timeline) return timeline < this.news.timeline
    if (beat !== null && beat <= stored) return true
    const epochs = new Map(streams.map(({ id, epoch }) => [id, epoch]))
    return this.news.streams.some(({ id, epoch }) => (epochs.get(id) ?? 0) < epoch)
  }

  /** Leaves all streams, and sends the next heartbeat once all relays can see that the database went back. */
  #beginHistory({ beat, instance }: Membership.News): Effect.Effect<void> {
    for (const stream of this.streams) stream.lost()
    return Membership.beginHistory(this.#options.db, this.news.timeline).pipe(
      Effect.andThen(Effect.suspend(() => (beat === null ? this.#rejoin(instance) : Effect.void))),
      Effect.andThen(
        Effect.suspend(() => {
          this.#isBehind = false
          return this.beat
        }),
      ),
      Effect.andThen(
        Effect.logWarning("the database went back to an earlier state: this relay reads its streams again"),
      ),
      Effect.ignore,
    )
  }

  /** Checks whether this relay still owns a stream, and whether the rows it should have are there. */
  #check(stream: OwnedStream, rows: ReadonlyArray<KnownRow>, lost: ReadonlySet<KnownRow>): void {
    const row = this.news.streams.find(({ id }) => id === stream.id)
    const isHeld = row?.epoch === stream.epoch && timelineOf(stream.epoch) === this.news.timeline
    // A stream that lost rows is read again: rows that others appended since may have the same numbers.
    if (!isHeld || !stream.known.confirm(rows, lost)) stream.lost()
  }

  readonly #keepBeating = Effect.suspend(() => {
    const began = this.now()
    const known = this.#takings
    return Effect.andThen(
      this.beat,
      Effect.suspend(() =>
        this.#takings > known ? Effect.void : Effect.sleep(Math.max(0, Membership.beatEvery - (this.now() - began))),
      ),
    )
  })

  // --- taking and losing -----------------------------------------------------

  #hold(stream: OwnedStream) {
    stream.onLost = () => {
      this.counters.fenced += 1
      if (this.own === stream) this.own = undefined
      const { id, known, accepted } = stream
      if (id !== sharedStream) this.#options.onLost(known, { floor: floorOf(id), accepted })
      this.#wake.openUnsafe()
    }
    return this.#set(this.own === stream ? [stream, ...this.streams] : [...this.streams, stream])
  }

  #set(streams: ReadonlyArray<OwnedStream>) {
    this.streams = streams
    return SubscriptionRef.set(this.owned, streams)
  }

  get #live(): ReadonlyArray<Membership.MemberRow> {
    return this.news.members.filter(({ name }) => this.ageOf(name) < takeoverAfter)
  }

  /** Other relays with recent heartbeats. */
  get others(): ReadonlyArray<Membership.MemberRow> {
    return this.#live.filter(({ name }) => name !== this.#options.name)
  }

  /** Leaves the streams that were lost, and takes streams without an owner. */
  readonly #react: Effect.Effect<void, JournalError> = Effect.gen({ self: this }, function* () {
    if (this.streams.some(({ isLost }) => isLost)) {
      yield* this.#set(this.streams.filter(({ isLost }) => !isLost))
    }
    if (!this.isAlive) return
    // An operator's command at another relay may begin an epoch while the stream is being read. Then the stream
    // is lost again.
    if (this.own === undefined) yield* Effect.retry(this.#claim, { times: 9, while: (error) => !isNotFenced(error) })
    const { name } = this.#options
    const held = new Set(this.streams.map(({ id }) => id))
    const free = this.news.streams.filter(
      ({ id, owner }) => !held.has(id) && (owner === null || owner === name || this.#stillness.isStill(id)),
    )
    // Several relays see the same free streams at the same time. Each starts at a random one, and takes its
    // share.
    const share = Math.ceil(free.length / Math.max(1, this.#live.length))
    const from = Math.floor(this.#random() * free.length)
    let taken = 0
    for (const row of [...free.slice(from), ...free.slice(0, from)]) {
      if (taken < share && (yield* this.#take(row))) taken += 1
    }
    for (const stream of this.streams) yield* this.#offer(stream)
    for (const { name, instance } of this.news.members) {
      if (this.ageOf(name) < forgetAfter) continue
      yield* refusing(this.#options.db.query("DELETE FROM member WHERE name = $1 AND instance = $2", [name, instance]))
    }
  })

  /** Returns false if another relay was first. */
  readonly #take = Effect.fnUntraced(function* (this: Fleet, row: Membership.StreamRow) {
    const { id, epoch, owner } = row
    const { db, name } = this.#options
    const before = owner === name ? undefined : this.news.members.find((member) => member.name === owner)
    const taken = yield* takeStream(db, name, row, before, this.sign)
    if (taken === undefined) return false
    const stream = yield* this.#read({ id, epoch: taken, former: epoch })
    if (owner !== null && owner !== name) this.counters.takeovers += 1
    yield* this.#hold(stream)
    yield* Effect.logInfo(
      id === sharedStream
        ? "this relay delivers the shared stream now"
        : `this relay has taken over the stream ${id}${owner === null ? "" : ` of ${owner}`}`,
    )
    return true
  })

  /** Offers an empty stream that was taken over to the next relay that joins. */
  readonly #offer = Effect.fnUntraced(function* (this: Fleet, stream: OwnedStream) {
    const row = this.news.streams.find(({ id }) => id === stream.id)
    if (stream === this.own || stream.id === sharedStream || row === undefined || row.spare) return
    for (const { size } of stream.backlogs.holding()) if (size > 0) return
    yield* refusing(
      this.#options.db.query(`UPDATE stream SET spare = true WHERE ${isOwned}`, [stream.id, stream.claim]),
    )
  })

  /** Sends heartbeats, and reacts to their answers, until the scope closes. */
  get run(): Effect.Effect<void, never, Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      yield* Effect.forkScoped(repeating("the heartbeat", this.#keepBeating))
      const react = this.#wake.await.pipe(Effect.andThen(this.#wake.close), Effect.andThen(Effect.ignore(this.#react)))
      yield* Effect.forkScoped(repeating("taking over streams", react))
    })
  }
}

/** Makes a fleet that has not joined yet. */
export const make = Effect.fnUntraced(function* (options: FleetOptions) {
  const random = yield* Random.Random
  const owned = yield* SubscriptionRef.make<ReadonlyArray<Log>>([])
  return new Fleet(options, (yield* Turn)(), yield* Clock.Clock, () => random.nextDoubleUnsafe(), owned)
})
