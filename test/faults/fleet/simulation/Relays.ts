/** The relays of a simulated fleet: each starts, crashes, stops and is reloaded, and has a journal and lanes in every database. */
import { Clock, Context, Duration, Effect, Exit, Layer, Logger, Scope, SubscriptionRef } from "effect"
import { Lanes } from "../../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../../src/delivery/RelayEvents.ts"
import { servicesOf, type WholeJournal } from "../../../../src/journal/JournalType.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import * as PostgresJournal from "../../../../src/journal/postgres/PostgresJournal.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import type { Draw } from "../../simulation/Draw.ts"
import { Machine, type Time } from "./Machines.ts"
import { Directory, type Shard } from "./Shards.ts"
import type { Sender, Sinks } from "./Sinks.ts"

export const names = ["a", "b", "c"] as const

/** A relay's journal and lanes in one database. */
interface Part {
  readonly scope: Scope.Closeable
  readonly pool: Scope.Closeable
  db: Database | undefined
  /** `undefined` until it has started. */
  journal: WholeJournal | undefined
  lanes: Lanes["Service"] | undefined
}

/** A relay from its start to its end. */
export interface Life {
  /** Version of its config: the number of renames of its sinks. */
  version: number
  isReloading: boolean
  readonly machine: Machine
  readonly parts: Array<Part>
  readonly directory: Directory
  isOver: boolean
}

export interface RelaysOptions {
  readonly time: Time
  readonly draw: Draw
  /** Says of each answer of a database whether it is lost. */
  readonly losesAnswer: () => boolean
  readonly shards: ReadonlyArray<Shard>
  readonly sinks: Sinks
  readonly retention: Duration.Duration
  /** The version of the newest config. */
  readonly newest: () => number
}

export class Relays {
  readonly #options: RelaysOptions
  /** Running relays, by name. */
  readonly lives = new Map<string, Life>()
  /** The version of the config that each had last. */
  readonly #versions = new Map<string, number>()
  /** How many relays have ended. */
  ends = 0

  constructor(options: RelaysOptions) {
    this.#options = options
  }

  /** The next relay that is drawn, if it runs. */
  get any(): Life | undefined {
    return this.lives.get(this.#options.draw.pick(names))
  }

  /** Every relay runs, by the newest config. */
  get isSettled(): boolean {
    const lives = [...this.lives.values()]
    const isSettled = ({ version, isReloading, parts: [part] }: Life) =>
      version === this.#options.newest() && !isReloading && part?.journal !== undefined
    return lives.length === names.length && lives.every(isSettled)
  }

  /** The streams that a relay has in a database. */
  streamsOf({ parts }: Life, place = 0): ReadonlyArray<OwnedStream> {
    const streams = parts[place]?.journal?.streams
    return streams === undefined ? [] : (SubscriptionRef.getUnsafe(streams) as ReadonlyArray<OwnedStream>)
  }

  /** The lines of all alarms. */
  get alarms(): ReadonlyArray<string> {
    const journals = [...this.lives.values()].flatMap(({ parts }) => parts.flatMap(({ journal }) => journal ?? []))
    return journals.flatMap(({ status }) => Effect.runSync(status).alarm.lines)
  }

  /** Asks the journal of each relay in each database. */
  ask<A>(question: (journal: WholeJournal) => Effect.Effect<A, unknown>): Promise<ReadonlyArray<A>> {
    const journals = [...this.lives.values()].flatMap(({ parts }) => parts.flatMap(({ journal }) => journal ?? []))
    return Effect.runPromise(Effect.orDie(Effect.forEach(journals, question)))
  }

  start(name: string): void {
    const { time, draw, losesAnswer, shards, newest } = this.#options
    const machine = new Machine(time, draw, losesAnswer)
    machine.wallOffset = draw.int(-5_000, 5_000)
    const parts: Array<Part> = []
    const directory = new Directory(
      () => parts[0]?.db,
      () => parts.length,
    )
    // A relay that starts may have its previous config.
    const version = draw.chance(0.7) ? newest() : (this.#versions.get(name) ?? newest())
    this.#versions.set(name, version)
    const life: Life = { version, isReloading: false, machine, parts, directory, isOver: false }
    this.lives.set(name, life)
    for (const index of shards.keys()) this.open(name, life, index)
  }

  #sender(relay: string, life: Life, place: number): Sender {
    return { relay, machine: life.machine, place, streams: () => this.streamsOf(life, place) }
  }

  /** Has a relay join in one more database. */
  open(name: string, life: Life, index: number): void {
    const { shards, sinks, retention } = this.#options
    const shard = shards[index]
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
      const former = yield* Scope.provide(shard.openFormer, part.pool)
      const db = machine.reach(yield* Scope.provide(shard.open, part.pool), shard.link, former)
      part.db = db
      const journal = yield* PostgresJournal.make(db, {
        name,
        retention,
        maxSize: 1024 ** 3,
        duplicates: { age: Duration.hours(24), count: 100_000 },
      })
      const specs = sinks.specs(this.#sender(name, life, index), life.version)
      const lanes = Lanes.layer({ specs, grace: () => Duration.seconds(1) }).pipe(
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

  /** Called if a relay's journal or lanes in a database could not start or continue. */
  #broke(name: string, life: Life, index: number): void {
    const { time, draw, shards } = this.#options
    // A supervisor restarts the relay. A relay with several databases must not fail because of one.
    if (shards.length === 1) {
      this.crash(name, life)
      return
    }
    const part = life.parts[index]
    if (life.isOver || part === undefined) return
    part.journal = undefined
    void Effect.runPromise(this.#closed(life, part))
    time.after(draw.int(1_000, 5_000), () => this.open(name, life, index))
  }

  #closed({ machine }: Life, { scope, pool }: Part): Effect.Effect<void> {
    const closing = Effect.andThen(Scope.close(scope, Exit.void), Scope.close(pool, Exit.void))
    return Effect.provideService(closing, Clock.Clock, machine.clock)
  }

  crash(name: string, life = this.lives.get(name)): void {
    const { time, draw } = this.#options
    if (life === undefined || life.isOver) return
    life.isOver = true
    this.ends += 1
    life.machine.die()
    if (this.lives.get(name) === life) this.lives.delete(name)
    for (const { pool } of life.parts) void Effect.runPromise(Scope.close(pool, Exit.void))
    time.after(draw.int(0, 12_000), () => {
      if (!this.lives.has(name)) this.start(name)
    })
  }

  /** Stops the relay as SIGTERM does. */
  stop(name: string): void {
    const life = this.lives.get(name)
    if (life === undefined || life.isOver || life.parts.every(({ journal }) => journal === undefined)) return
    for (const part of life.parts) part.journal = undefined
    const closing = Effect.forEach(life.parts, (part) => this.#closed(life, part), { concurrency: "unbounded" })
    void Effect.runPromise(closing).then(() => this.crash(name, life))
  }

  /** Gives a relay the newest config. */
  reload(name: string): void {
    const life = this.lives.get(name)
    const version = this.#options.newest()
    const [lanes] = life?.parts.map(({ lanes }) => lanes) ?? []
    if (life === undefined || lanes === undefined || life.isReloading || life.version === version) return
    life.isReloading = true
    const swap = Effect.sync(() => {
      life.version = version
      this.#versions.set(name, version)
    })
    const specs = this.#options.sinks.specs(this.#sender(name, life, 0), version)
    const change = Effect.provideService(lanes.change(specs, swap), Clock.Clock, life.machine.clock)
    void Effect.runPromise(Effect.exit(change)).then(() => {
      life.isReloading = false
    })
  }

  /** The end of the simulation. */
  async end(): Promise<void> {
    for (const { machine } of this.lives.values()) machine.die()
    for (const { pool } of [...this.lives.values()].flatMap(({ parts }) => parts)) {
      await Effect.runPromise(Scope.close(pool, Exit.void))
    }
  }
}
