/**
 * A fleet by seed: three relays, their journals and lanes as they are, on a real
 * PostgreSQL, with machines that crash, stand still, lose the network and have
 * their clocks set.
 *
 * With changes, sinks get other names meanwhile, by reloads of relay after relay,
 * one sink leaves the config and comes back, operators do what they do
 * (`Operators.ts`), and the database fails over: to a server that has all, or to
 * one that was behind.
 *
 * On several databases each relay has a journal in each, and lanes over it; an
 * event goes to the database of its account. Then databases go away as well, and
 * one more is added while all runs.
 *
 * **What must hold.** All that was acknowledged comes to its sinks, but for what
 * the database lost by a failover, what a sink rejects and what an operator gave
 * up, and in the end every relay says so: nothing waits, and each event that is
 * kept ended at each sink as the relays say it did. At the sink
 * that keeps an order the events of a key come in the order in which they were
 * acknowledged. And over a stream no attempt begins under an epoch that is older
 * than that of another attempt, and no append is stored: who lost a stream has
 * stopped.
 */
import { Clock, Context, Duration, Effect, Exit, Layer, Logger, Scope, SubscriptionRef } from "effect"
import { type LaneSpec, Lanes } from "../../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../../src/delivery/RelayEvents.ts"
import type { Entry } from "../../../../src/event/Entry.ts"
import { unavailable } from "../../../../src/journal/Journal.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import * as PostgresJournal from "../../../../src/journal/postgres/PostgresJournal.ts"
import { streamOf } from "../../../../src/journal/postgres/tables/Sequences.ts"
import { servicesOf, type WholeJournal } from "../../../../src/journal/WholeJournal.ts"
import { type Failures, failed, rejected, type Sink, type SinkError } from "../../../../src/sinks/Sink.ts"
import { event } from "../../../journal/samples.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import { makePostgres } from "../../../parts/Postgres.ts"
import { Draw } from "../../simulation/Draw.ts"
import { Machine, Time } from "./Machines.ts"
import { type Desk, guest, hasGuest, Operators } from "./Operators.ts"
import { Directory, Shard } from "./Shards.ts"

const names = ["a", "b", "c"] as const
/** A step of the simulation, in milliseconds, and how many there are until all is mended. */
const step = 200
const steps = 300
/** Steps that it may take until all has come, once all is mended. */
const mending = 300
const keys = 5

export interface Verdict {
  readonly acknowledged: number
  readonly lost: number
  readonly repeated: number
  readonly takeovers: number
  /** Acknowledged in one database while another was away. */
  readonly meanwhile: number
  readonly renames: number
  readonly promotions: number
  /** What operators asked for and was done. */
  readonly operations: number
  readonly broken: ReadonlyArray<string>
}

/** What a relay has in one database. */
interface Part {
  readonly scope: Scope.Closeable
  readonly pool: Scope.Closeable
  db: Database | undefined
  /** `undefined` until it has started. */
  journal: WholeJournal | undefined
  lanes: Lanes["Service"] | undefined
}

/** How many names a sink has, one after the other: a name is used again. */
const cycle = 3
type SinkKind = "plain" | "ordered" | typeof guest
const named = (sink: SinkKind, version: number): string => (sink === guest ? sink : `${sink}${version % cycle}`)
const kindOf = (name: string): SinkKind => name.replace(/\d+$/, "") as SinkKind

interface Life {
  /** Of its config: how often its sinks were renamed. */
  version: number
  isReloading: boolean
  readonly machine: Machine
  readonly parts: Array<Part>
  readonly directory: Directory
  isOver: boolean
}

class Play {
  readonly time = new Time()
  readonly draw: Draw
  readonly lives = new Map<string, Life>()
  readonly acknowledged = new Set<string>()
  readonly plain = new Map<string, number>()
  readonly ordered = new Map<string, number>()
  readonly guest = new Map<string, number>()
  readonly operators: Operators
  readonly #guests: Array<string> = []
  readonly broken = new Set<string>()
  takeovers = 0
  /** By database and stream, the newest epoch under which an attempt has begun. */
  readonly #epochs = new Map<string, number>()
  /** By key, the number of the newest event that came to the ordered sink. */
  readonly #newest = new Map<string, number>()
  /** By key, the number of the event that is being sent, or the next. */
  readonly #next = new Map<string, { number: number; isUnderWay: boolean }>()
  readonly shards: Array<Shard> = []
  meanwhile = 0
  /** Of the newest config. */
  version = 0
  promotions = 0
  /** Acknowledged while a standby was behind that was promoted then: the database may have lost it. */
  readonly mayBeLost = new Set<string>()
  /** Odd while a standby is behind that will be promoted: what is stored meanwhile is lost then. */
  #losses = 0
  readonly #versions = new Map<string, number>()
  readonly #seed: number
  readonly #url: string
  readonly #retention: Duration.Duration

  constructor(seed: number, url: string) {
    this.draw = new Draw(seed, "fleet")
    this.#seed = seed
    this.#url = url
    this.operators = new Operators(seed, {
      desk: () => this.#desk(),
      isGuestGone: () => this.#isSettled && !hasGuest(this.version),
      losses: () => this.#losses,
      after: (millis, run) => this.time.after(millis, run),
      accept: (id, isBound) => {
        this.acknowledged.add(id)
        if (!isBound) this.mayBeLost.add(id)
      },
      arrivedAt: (sink, id) => this[kindOf(sink)].get(id) ?? 0,
      broken: this.broken,
    })
    this.#retention = Duration.millis(this.operators.retention)
  }

  /** A relay that runs, as an operator finds it. */
  #desk(): Desk | undefined {
    const life = this.lives.get(this.draw.pick(names))
    const { journal, lanes } = life?.parts[0] ?? {}
    if (life === undefined || life.machine.isFrozen || journal === undefined || lanes === undefined) return undefined
    const run = <A>(question: Effect.Effect<A, unknown>) =>
      question.pipe(
        Effect.provideService(Clock.Clock, life.machine.clock),
        Effect.provide(Logger.layer([])),
        Effect.runPromiseExit,
      )
    return { archive: journal, lanes, plain: named("plain", life.version), run }
  }

  /** Every relay runs, by the newest config. */
  get #isSettled(): boolean {
    const lives = [...this.lives.values()]
    return (
      lives.length === names.length &&
      lives.every(({ version, isReloading, parts: [part] }) => {
        return version === this.version && !isReloading && part?.journal !== undefined
      })
    )
  }

  // --- databases -------------------------------------------------------------

  async addShard(): Promise<void> {
    const shard = new Shard(this.#url, `seed_${process.pid}_${this.#seed}_${this.shards.length}`)
    await Effect.runPromise(shard.prepare)
    this.shards.push(shard)
    // Relays are told one by one, as by a reload.
    for (const [name, life] of this.lives) {
      this.time.after(this.draw.int(0, 10_000), () => this.#open(name, life, life.parts.length))
    }
  }

  /** All that is said by what a relay has in its databases. */
  ask<A>(question: (journal: WholeJournal) => Effect.Effect<A, unknown>): Promise<ReadonlyArray<A>> {
    const journals = [...this.lives.values()].flatMap(({ parts }) => parts.flatMap(({ journal }) => journal ?? []))
    return Effect.runPromise(Effect.orDie(Effect.forEach(journals, question)))
  }

  // --- relays ----------------------------------------------------------------

  start(name: string): void {
    const machine = new Machine(this.time, this.draw)
    machine.wallOffset = this.draw.int(-5_000, 5_000)
    const parts: Array<Part> = []
    const directory = new Directory(
      () => parts[0]?.db,
      () => parts.length,
    )
    // One that starts may have the config of before.
    const version = this.draw.chance(0.7) ? this.version : (this.#versions.get(name) ?? this.version)
    const life: Life = { version, isReloading: false, machine, parts, directory, isOver: false }
    this.lives.set(name, life)
    for (const index of this.shards.keys()) this.#open(name, life, index)
  }

  #open(name: string, life: Life, index: number): void {
    const shard = this.shards[index]
    if (life.isOver || shard === undefined) return
    const { machine } = life
    const part: Part = {
      scope: Scope.makeUnsafe(),
      pool: Scope.makeUnsafe(),
      db: undefined,
      journal: undefined,
      lanes: undefined,
    }
    life.parts[index] = part
    const made = Effect.gen({ self: this }, function* () {
      const db = machine.reach(yield* Scope.provide(shard.open, part.pool), shard.link)
      part.db = db
      const journal = yield* PostgresJournal.make(db, {
        name,
        retention: this.#retention,
        maxSize: 1024 ** 3,
        duplicates: { age: Duration.hours(24), count: 100_000 },
      })
      const lanes = Lanes.layer({ specs: this.#specs(name, life, index), grace: Duration.seconds(1) }).pipe(
        Layer.provide(Layer.provide(RelayEvents.layer, activeConfig({ routes: [] }))),
        Layer.provide(Layer.succeedContext(servicesOf(journal))),
      )
      part.lanes = Context.get(yield* Layer.build(lanes), Lanes)
      part.journal = journal
      yield* Effect.forkScoped(
        Effect.flatMap(Effect.flip(journal.broken), () => Effect.sync(() => this.#broke(name, life, index))),
      )
    }).pipe(
      Scope.provide(part.scope),
      Effect.provideService(Clock.Clock, machine.clock),
      Effect.provide(Logger.layer([])),
    )
    void Effect.runPromise(Effect.result(made)).then((result) => {
      if (result._tag === "Failure") this.#broke(name, life, index)
    })
  }

  /** What a relay has in a database could not start, or go on. */
  #broke(name: string, life: Life, index: number): void {
    // A supervisor starts the relay again; one that has other databases must not fail for the sake of this one.
    if (this.shards.length === 1) {
      this.crash(name, life)
      return
    }
    const part = life.parts[index]
    if (life.isOver || part === undefined) return
    part.journal = undefined
    void Effect.runPromise(this.#closed(life, part))
    this.time.after(this.draw.int(1_000, 5_000), () => this.#open(name, life, index))
  }

  #closed({ machine }: Life, { scope, pool }: Part): Effect.Effect<void> {
    const closing = Effect.andThen(Scope.close(scope, Exit.void), Scope.close(pool, Exit.void))
    return Effect.provideService(closing, Clock.Clock, machine.clock)
  }

  crash(name: string, life = this.lives.get(name)): void {
    if (life === undefined || life.isOver) return
    life.isOver = true
    life.machine.die()
    if (this.lives.get(name) === life) this.lives.delete(name)
    for (const { pool } of life.parts) void Effect.runPromise(Scope.close(pool, Exit.void))
    this.time.after(this.draw.int(0, 12_000), () => {
      if (!this.lives.has(name)) this.start(name)
    })
  }

  /** As by SIGTERM. */
  stop(name: string): void {
    const life = this.lives.get(name)
    if (life === undefined || life.isOver || life.parts.every(({ journal }) => journal === undefined)) return
    for (const part of life.parts) part.journal = undefined
    const closing = Effect.forEach(life.parts, (part) => this.#closed(life, part), { concurrency: "unbounded" })
    void Effect.runPromise(closing).then(() => this.crash(name, life))
  }

  // --- sinks -----------------------------------------------------------------

  #specs(name: string, life: Life, index: number, version = life.version): ReadonlyArray<LaneSpec> {
    const spec = (sink: SinkKind): LaneSpec => ({
      config: {
        name: named(sink, version),
        ...(version > 0 && sink !== guest && { renamedFrom: named(sink, version - 1) }),
        type: "simulated",
        delivery: {
          timeout: Duration.seconds(5),
          retry: { maxAge: Duration.hours(72), initial: Duration.millis(300), max: Duration.seconds(2) },
          pauseAfter: 1_000,
          maxRetrying: 10_000,
          maxDeadLetters: 1_000_000_000,
        },
        concurrency: 4,
        order: sink === "ordered" ? "key" : "none",
        key: "{{account_id}}",
        config: undefined,
      },
      open: Effect.succeed(this.#sink(sink, name, life, index)),
      key: ({ event }) => event.accountId,
    })
    return [spec("plain"), spec("ordered"), ...(hasGuest(version) ? [spec(guest)] : [])]
  }

  #sink(sink: SinkKind, name: string, life: Life, index: number): Sink {
    const send = (entries: ReadonlyArray<Entry>) =>
      Effect.gen({ self: this }, function* () {
        if (life.machine.isDead) return yield* Effect.never
        this.#began(name, life, index, entries)
        const fails = this.draw.chance(0.05)
        yield* Effect.sleep(this.draw.int(0, 400))
        if (life.machine.isDead) return yield* Effect.never
        const failures = new Map<number, SinkError>()
        for (const [index, { event }] of entries.entries()) {
          if (fails) failures.set(index, failed("simulated"))
          else if (sink === "plain" && this.#rejects(event.id)) failures.set(index, rejected("simulated"))
          else this.#came(sink, event.id, event.accountId)
        }
        return failures as Failures
      })
    return { batch: { maxEvents: 4, maxBytes: 1_000_000 }, send, check: Effect.void }
  }

  /** Operators look after the dead letters of one database. */
  #rejects(id: string): boolean {
    return this.shards.length === 1 && this.operators.rejects(id)
  }

  #began(name: string, { parts }: Life, index: number, entries: ReadonlyArray<Entry>): void {
    const journal = parts[index]?.journal
    const streams = journal?.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)
    for (const { sequence } of entries) {
      const id = streamOf(sequence)
      const epoch = (streams as ReadonlyArray<OwnedStream>).find((stream) => stream.id === id)?.epoch
      if (epoch === undefined) continue
      const place = `${index}:${id}`
      const newest = this.#epochs.get(place) ?? 0
      if (epoch < newest) {
        this.broken.add(`${name} began an attempt over stream ${place} under epoch ${epoch}, after one under ${newest}`)
      }
      this.#epochs.set(place, Math.max(epoch, newest))
    }
  }

  #came(sink: SinkKind, id: string, key: string): void {
    const times = this[sink]
    const count = (times.get(id) ?? 0) + 1
    times.set(id, count)
    // What the database lost may still be in a relay's memory, and come late.
    if (sink !== "ordered" || count > 1 || this.mayBeLost.has(id)) return
    const number = Number(id.split("-")[1])
    const newest = this.#newest.get(key) ?? -1
    if (number < newest) this.broken.add(`event ${id} came to the ordered sink after ${newest} of its key`)
    this.#newest.set(key, Math.max(number, newest))
  }

  // --- senders ---------------------------------------------------------------

  /** To the database of its account, by the next relay that is drawn; `over` hears whether it was acknowledged. */
  #append(
    id: string,
    accountId: string,
    kinds: ReadonlyArray<SinkKind>,
    over: (isTaken: boolean) => void,
    suits: (life: Life) => boolean = () => true,
  ): boolean {
    const life = this.lives.get(this.draw.pick(names))
    if (life === undefined || life.machine.isFrozen || !suits(life)) return false
    const { machine, parts, directory } = life
    if (parts.every(({ journal }) => journal === undefined)) return false
    const receivedAt = machine.clock.currentTimeMillisUnsafe()
    const losses = this.#losses
    let isLate = false
    const appended = Effect.gen({ self: this }, function* () {
      const shard = this.shards.length === 1 ? 0 : yield* directory.shardOf(accountId)
      const journal = parts[shard]?.journal
      if (journal === undefined) return yield* unavailable("simulated: the database is not there")
      const sinks = kinds.map((kind) => named(kind, life.version))
      yield* journal.append(event(id, { accountId, receivedAt }), sinks)
      return shard
    })
    // What a machine that stands still, or is dead, has not answered in time is sent again elsewhere.
    const cancel = this.time.after(3_000, () => {
      isLate = true
      over(false)
    })
    void Effect.runPromise(Effect.result(appended)).then((result) => {
      if (isLate || machine.isDead || machine.isFrozen) return
      cancel()
      if (result._tag === "Success") {
        this.acknowledged.add(id)
        if (losses % 2 === 1 || losses !== this.#losses) this.mayBeLost.add(id)
        const { link } = this.shards[result.success] ?? {}
        if (link?.isCut === false && this.shards.some(({ link }) => link.isCut)) this.meanwhile += 1
      }
      over(result._tag === "Success")
    })
    return true
  }

  /** Sends the next event of a key to some relay, if the one before it was acknowledged; one that was not is sent again. */
  send(count: number): void {
    const key = `key_${this.draw.int(1, count)}`
    const next = this.#next.get(key) ?? { number: 0, isUnderWay: false }
    this.#next.set(key, next)
    if (next.isUnderWay) return
    next.isUnderWay = this.#append(`${key}-${next.number}`, key, ["plain", "ordered"], (isTaken) => {
      next.isUnderWay = false
      if (isTaken) next.number += 1
    })
  }

  /** The same without an order: to the plain sink alone. */
  sendPlain(number: number): void {
    this.#append(`plain-${number}`, `acct_${Math.floor(number / 15)}`, ["plain"], () => {})
  }

  /** To the guest alone, by a relay that has it. */
  sendGuest(number: number): void {
    const id = `guest-${number}`
    this.#guests.push(id)
    this.#append(
      id,
      `acct_${number}`,
      [guest],
      () => {},
      ({ version }) => hasGuest(version),
    )
  }

  get guests(): ReadonlyArray<string> {
    return this.#guests
  }

  // --- faults ----------------------------------------------------------------

  harm(): void {
    const name = this.draw.pick(names)
    const life = this.lives.get(name)
    if (life === undefined || life.isOver) return
    const { machine } = life
    const what = this.draw.next()
    if (what < 0.25) this.crash(name)
    else if (what < 0.4) this.stop(name)
    else if (what < 0.65) {
      machine.freeze()
      this.time.after(this.draw.int(500, 20_000), () => machine.thaw())
    } else if (what < 0.9) {
      machine.network.cut()
      this.time.after(this.draw.int(500, 15_000), () => machine.network.heal())
    } else machine.wallOffset += this.draw.int(-3_600_000, 3_600_000)
  }

  /** A database goes away, for all. */
  harmShard(): void {
    const shard = this.shards[this.draw.int(0, this.shards.length - 1)]
    shard?.link.cut()
    this.time.after(this.draw.int(2_000, 15_000), () => shard?.link.heal())
  }

  mend(): void {
    for (const { link } of this.shards) link.heal()
    for (const [name, { machine }] of this.lives) {
      machine.thaw()
      machine.network.heal()
      this.reload(name)
    }
    this.operators.resume()
    // What waits for the guest needs a config that has it.
    if (this.#isSettled && !hasGuest(this.version)) this.rename()
  }

  // --- changes ---------------------------------------------------------------

  /**
   * The sinks have other names from now on; each relay is reloaded some time later. A config names one former name, so
   * all relays run and have the config of before, and no stream waits for an owner.
   */
  rename(): void {
    const owned = [...this.lives.values()].flatMap(({ parts: [part], version, isReloading }) =>
      part?.journal?.streams === undefined || version !== this.version || isReloading
        ? []
        : [SubscriptionRef.getUnsafe(part.journal.streams).length],
    )
    const streams = Math.max(...[...this.lives.values()].map(({ parts: [part] }) => streamsOf(part?.journal)))
    if (owned.length < names.length || owned.reduce((sum, count) => sum + count, 0) < streams) return
    this.version += 1
    for (const name of names) this.time.after(this.draw.int(0, 8_000), () => this.reload(name))
  }

  reload(name: string): void {
    const life = this.lives.get(name)
    const { version } = this
    const [lanes] = life?.parts.map(({ lanes }) => lanes) ?? []
    if (life === undefined || lanes === undefined || life.isReloading || life.version === version) return
    life.isReloading = true
    const swap = Effect.sync(() => {
      life.version = version
      this.#versions.set(name, version)
    })
    const change = Effect.provideService(
      lanes.change(this.#specs(name, life, 0, version), swap),
      Clock.Clock,
      life.machine.clock,
    )
    void Effect.runPromise(Effect.exit(change)).then(() => {
      life.isReloading = false
    })
  }

  /** Another server takes writes: it has all, or what there was some time ago. */
  async promote(isBehind: boolean): Promise<void> {
    const [shard] = this.shards
    if (shard === undefined || this.#losses % 2 === 1) return
    this.promotions += 1
    const cut = async () => {
      shard.link.cut()
      await shard.promote(isBehind)
      if (isBehind) this.#losses += 1
      this.time.after(this.draw.int(0, 3_000), () => shard.link.heal())
    }
    if (!isBehind) return cut()
    this.#losses += 1
    await shard.remember()
    this.time.after(this.draw.int(100, 3_000), () => {
      this.time.asked += 1
      void cut()
        .catch((error: unknown) => this.broken.add(`the simulation could not fail over: ${error}`))
        .finally(() => {
          this.time.asked -= 1
        })
    })
  }

  get missing(): ReadonlyArray<string> {
    const arrived = (id: string) => {
      if (id.startsWith("guest-")) return this.guest.has(id) || this.plain.has(id)
      return this.plain.has(id) && (!id.startsWith("key_") || this.ordered.has(id))
    }
    return [...this.acknowledged].filter(
      (id) => !this.mayBeLost.has(id) && !this.operators.isExcused(id) && !arrived(id),
    )
  }

  /** What relays say that is not so, once all has come. */
  async untrue(): Promise<ReadonlyArray<string>> {
    const letters = (await this.ask((journal) => journal.deadLetters({ limit: 10_000 })))[0] ?? []
    const said = await this.ask((journal) =>
      Effect.gen({ self: this }, function* () {
        const lanes = yield* journal.lanes
        const waiting = lanes.filter(({ backlog }) => backlog > 0)
        const { events } = yield* journal.events({ limit: 10_000 })
        const miscounted = lanes.flatMap(({ name, deadLetters }) => {
          const kept = letters.filter(({ lane }) => lane === name).length
          return kept === deadLetters ? [] : [`${name} has ${deadLetters} dead letters, and there are ${kept}`]
        })
        return [
          ...waiting.map(({ name, backlog }) => `${backlog} events wait for ${name}`),
          ...miscounted,
          ...this.operators.untrue(events, letters).slice(0, 5),
        ]
      }),
    )
    const certain = [...this.acknowledged].filter((id) => !this.mayBeLost.has(id))
    return [...said.flat(), ...this.operators.unaccounted(certain, letters).slice(0, 5)]
  }

  /** The journal is red for nothing but a failover, and for nobody any more once it was acknowledged at one relay. */
  async alarms(): Promise<ReadonlyArray<string>> {
    const said = await this.ask(({ status }) => status)
    const unexpected = said.flatMap(({ alarm }) =>
      alarm.lines.filter((line) => this.#losses === 0 || !line.startsWith("The database lost")),
    )
    const [journal] = await this.ask((journal) => Effect.succeed(journal))
    const machine = [...this.lives.values()][0]?.machine
    if (journal === undefined || machine === undefined) return ["no relay runs"]
    await Promise.all([
      Effect.runPromise(Effect.ignore(Effect.provideService(journal.acknowledge, Clock.Clock, machine.clock))),
      this.time.pass(3_000),
    ])
    const left = (await this.ask(({ status }) => status)).flatMap(({ alarm }) => alarm.lines)
    return [...unexpected, ...left.map((line) => `after it was acknowledged: ${line}`)].map((line) => `red: ${line}`)
  }
}

/** How many streams a relay knows of. */
const streamsOf = (journal: WholeJournal | undefined): number =>
  journal?.fleet === undefined ? Number.POSITIVE_INFINITY : Effect.runSync(journal.fleet.status).streams.length

const repeatedIn = (times: ReadonlyMap<string, number>): number =>
  [...times.values()].reduce((sum, count) => sum + count - 1, 0)

/** On so many databases, of the server at `url`; on one, with changes. */
export const simulate = async (url: string, seed: number, databases: number): Promise<Verdict> => {
  const play = new Play(seed, url)
  for (let made = 0; made < databases; made++) await play.addShard()
  for (const name of names) play.start(name)
  for (let passed = 0; passed < steps; passed++) {
    const isGrown = play.shards.length > databases
    for (let sent = play.draw.int(0, 3); sent > 0; sent--) play.send(isGrown ? 2 * keys : keys)
    play.sendPlain(passed)
    if (databases === 1) {
      if (play.draw.chance(0.3)) play.sendGuest(passed)
      play.operators.act(() => play.guests)
    }
    if (play.draw.chance(0.04)) play.harm()
    if (databases > 1 && play.draw.chance(0.015)) play.harmShard()
    if (databases > 1 && passed === steps / 2) await play.addShard()
    if (databases === 1 && play.draw.chance(0.05)) play.rename()
    if (databases === 1 && play.draw.chance(0.01)) await play.promote(play.draw.chance(0.5))
    await play.time.pass(step)
  }
  for (let passed = 0; passed < mending; passed++) {
    play.mend()
    await play.time.pass(step)
    if (passed > 20 && play.missing.length === 0 && (await play.untrue()).length === 0) break
  }
  for (const text of await play.untrue()) play.broken.add(`in the end a relay says that ${text}`)
  for (const id of play.missing.slice(0, 3)) play.broken.add(`${id} did not arrive`)
  for (const { fleet } of await play.ask((journal) => Effect.succeed(journal))) {
    play.takeovers += fleet === undefined ? 0 : (await Effect.runPromise(fleet.status)).counters.takeovers
  }
  if (databases === 1) for (const text of await play.alarms()) play.broken.add(text)
  for (const { trespasses } of play.shards) for (const text of trespasses) play.broken.add(text)
  for (const { machine } of play.lives.values()) machine.die()
  for (const { pool } of [...play.lives.values()].flatMap(({ parts }) => parts)) {
    await Effect.runPromise(Scope.close(pool, Exit.void))
  }
  return {
    acknowledged: play.acknowledged.size,
    lost: play.missing.length,
    repeated: repeatedIn(play.plain) + repeatedIn(play.ordered),
    takeovers: play.takeovers,
    meanwhile: play.meanwhile,
    renames: play.version,
    promotions: play.promotions,
    operations: play.operators.done,
    broken: [...play.broken],
  }
}

if (import.meta.main) {
  const [first = 1, last = first, databases = 1] = process.argv.slice(2).map(Number)
  const postgres = await makePostgres()
  for (let seed = first; seed <= last; seed++) {
    const began = performance.now()
    console.log(seed, await simulate(postgres.url, seed, databases), Math.round(performance.now() - began))
  }
  await postgres.stop()
  process.exit(0)
}
