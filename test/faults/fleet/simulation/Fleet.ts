/**
 * A fleet by seed: three relays, their journals and lanes as they are, on a real
 * PostgreSQL, with machines that crash, stand still, lose the network and have
 * their clocks set.
 *
 * **What must hold.** All that was acknowledged comes to both sinks. At the sink
 * that keeps an order the events of a key come in the order in which they were
 * acknowledged. And over a stream no attempt begins under an epoch that is older
 * than that of another attempt: who lost a stream has stopped.
 */
import { Clock, Duration, Effect, Exit, Layer, Logger, Scope, SubscriptionRef } from "effect"
import { type LaneSpec, Lanes } from "../../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../../src/delivery/RelayEvents.ts"
import type { Entry } from "../../../../src/event/Entry.ts"
import { Journal, unavailable } from "../../../../src/journal/Journal.ts"
import * as DatabaseSchema from "../../../../src/journal/postgres/DatabaseSchema.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/OwnedStream.ts"
import * as PostgresJournal from "../../../../src/journal/postgres/PostgresJournal.ts"
import { streamOf } from "../../../../src/journal/postgres/Sequences.ts"
import { DeliveryFailed, type Failures, type Sink, SinkError } from "../../../../src/sinks/Sink.ts"
import { openDatabase } from "../../../journal/postgres/database.ts"
import { event } from "../../../journal/samples.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import { sharedPostgres } from "../../../parts/Postgres.ts"
import { Draw } from "../../simulation/Draw.ts"
import { Machine, Time } from "./Machines.ts"

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
  readonly broken: ReadonlyArray<string>
}

interface Life {
  readonly machine: Machine
  readonly scope: Scope.Closeable
  readonly pool: Scope.Closeable
  /** `undefined` until it has started. */
  journal: Journal["Service"] | undefined
  isOver: boolean
}

class Play {
  readonly time = new Time()
  readonly draw: Draw
  readonly lives = new Map<string, Life>()
  readonly acknowledged = new Set<string>()
  readonly plain = new Map<string, number>()
  readonly ordered = new Map<string, number>()
  readonly broken = new Set<string>()
  takeovers = 0
  /** By stream, the newest epoch under which an attempt has begun. */
  readonly #epochs = new Map<number, number>()
  /** By key, the number of the newest event that came to the ordered sink. */
  readonly #newest = new Map<string, number>()
  /** By key, the number of the event that is being sent, or the next. */
  readonly #next = new Map<string, { number: number; isUnderWay: boolean }>()
  readonly #url: string
  readonly #schema: string

  constructor(seed: number, url: string) {
    this.draw = new Draw(seed, "fleet")
    this.#url = url
    this.#schema = `seed_${process.pid}_${seed}`
  }

  // --- relays ----------------------------------------------------------------

  start(name: string): void {
    const machine = new Machine(this.time, this.draw)
    machine.wallOffset = this.draw.int(-5_000, 5_000)
    const life: Life = {
      machine,
      scope: Scope.makeUnsafe(),
      pool: Scope.makeUnsafe(),
      journal: undefined,
      isOver: false,
    }
    this.lives.set(name, life)
    const made = Effect.gen({ self: this }, function* () {
      const opened = yield* Scope.provide(openDatabase(this.#url, { schema: this.#schema }), life.pool)
      yield* Effect.mapError(DatabaseSchema.migrate(opened, this.#schema), ({ message }) => unavailable(message))
      const journal = yield* PostgresJournal.make(machine.reach(opened), {
        name,
        retention: Duration.days(7),
        maxSize: 1024 ** 3,
        duplicates: { age: Duration.hours(24), count: 100_000 },
      })
      const lanes = Lanes.layer({ specs: this.#specs(name, life), grace: Duration.seconds(1) }).pipe(
        Layer.provide(Layer.provide(RelayEvents.layer, activeConfig({ routes: [] }))),
        Layer.provide(Layer.succeed(Journal, journal)),
      )
      yield* Layer.build(lanes)
      life.journal = journal
      yield* Effect.forkScoped(
        Effect.flatMap(Effect.flip(journal.broken), () => Effect.sync(() => this.crash(name, life))),
      )
    }).pipe(
      Scope.provide(life.scope),
      Effect.provideService(Clock.Clock, machine.clock),
      Effect.provide(Logger.layer([])),
    )
    void Effect.runPromise(Effect.result(made)).then((result) => {
      // One that could not start is started again, as a supervisor would.
      if (result._tag === "Failure") this.crash(name, life)
    })
  }

  crash(name: string, life = this.lives.get(name)): void {
    if (life === undefined || life.isOver) return
    life.isOver = true
    life.machine.die()
    if (this.lives.get(name) === life) this.lives.delete(name)
    void Effect.runPromise(Scope.close(life.pool, Exit.void))
    this.time.after(this.draw.int(0, 12_000), () => {
      if (!this.lives.has(name)) this.start(name)
    })
  }

  /** As by SIGTERM. */
  stop(name: string): void {
    const life = this.lives.get(name)
    if (life?.journal === undefined || life.isOver) return
    life.journal = undefined
    const closing = Effect.andThen(Scope.close(life.scope, Exit.void), Scope.close(life.pool, Exit.void))
    void Effect.runPromise(closing.pipe(Effect.provideService(Clock.Clock, life.machine.clock))).then(() =>
      this.crash(name, life),
    )
  }

  // --- sinks -----------------------------------------------------------------

  #specs(name: string, life: Life): ReadonlyArray<LaneSpec> {
    const spec = (sink: "plain" | "ordered"): LaneSpec => ({
      config: {
        name: sink,
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
      open: Effect.succeed(this.#sink(sink, name, life)),
      key: ({ event }) => event.accountId,
    })
    return [spec("plain"), spec("ordered")]
  }

  #sink(sink: "plain" | "ordered", name: string, life: Life): Sink {
    const send = (entries: ReadonlyArray<Entry>) =>
      Effect.gen({ self: this }, function* () {
        if (life.machine.isDead) return yield* Effect.never
        this.#began(name, life, entries)
        const fails = this.draw.chance(0.05)
        yield* Effect.sleep(this.draw.int(0, 400))
        if (life.machine.isDead) return yield* Effect.never
        const failures = new Map<number, SinkError>()
        for (const [index, { event }] of entries.entries()) {
          if (fails) failures.set(index, new SinkError({ reason: new DeliveryFailed({ message: "simulated" }) }))
          else this.#came(sink, event.id, event.accountId)
        }
        return failures as Failures
      })
    return { batch: { maxEvents: 4, maxBytes: 1_000_000 }, send, check: Effect.void }
  }

  #began(name: string, { journal }: Life, entries: ReadonlyArray<Entry>): void {
    const streams = journal?.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)
    for (const { sequence } of entries) {
      const id = streamOf(sequence)
      const epoch = (streams as ReadonlyArray<OwnedStream>).find((stream) => stream.id === id)?.epoch
      if (epoch === undefined) continue
      const newest = this.#epochs.get(id) ?? 0
      if (epoch < newest) {
        this.broken.add(`${name} began an attempt over stream ${id} under epoch ${epoch}, after one under ${newest}`)
      }
      this.#epochs.set(id, Math.max(epoch, newest))
    }
  }

  #came(sink: "plain" | "ordered", id: string, key: string): void {
    const times = this[sink]
    const count = (times.get(id) ?? 0) + 1
    times.set(id, count)
    if (sink === "plain" || count > 1) return
    const number = Number(id.split("-")[1])
    const newest = this.#newest.get(key) ?? -1
    if (number < newest) this.broken.add(`event ${id} came to the ordered sink after ${newest} of its key`)
    this.#newest.set(key, Math.max(number, newest))
  }

  // --- senders ---------------------------------------------------------------

  /** Sends the next event of a key to some relay, if the one before it was acknowledged; one that was not is sent again. */
  send(): void {
    const key = `key_${this.draw.int(1, keys)}`
    const next = this.#next.get(key) ?? { number: 0, isUnderWay: false }
    this.#next.set(key, next)
    const life = this.lives.get(this.draw.pick(names))
    if (next.isUnderWay || life?.journal === undefined || life.machine.isFrozen) return
    next.isUnderWay = true
    const id = `${key}-${next.number}`
    const sent = life.journal.append(
      event(id, { accountId: key, receivedAt: life.machine.clock.currentTimeMillisUnsafe() }),
      ["plain", "ordered"],
    )
    const over = (isTaken: boolean) => {
      if (!next.isUnderWay) return
      next.isUnderWay = false
      if (!isTaken) return
      this.acknowledged.add(id)
      next.number += 1
    }
    // What a machine that stands still, or is dead, has not answered in time is sent again elsewhere.
    const cancel = this.time.after(3_000, () => over(false))
    let isLate = false
    this.time.after(3_000, () => {
      isLate = true
    })
    void Effect.runPromise(Effect.result(sent)).then(({ _tag }) => {
      if (isLate || life.machine.isDead || life.machine.isFrozen) return
      cancel()
      over(_tag === "Success")
    })
  }

  /** The same without an order: to the plain sink alone. */
  sendPlain(number: number): void {
    const life = this.lives.get(this.draw.pick(names))
    if (life?.journal === undefined || life.machine.isFrozen) return
    const id = `plain-${number}`
    const receivedAt = life.machine.clock.currentTimeMillisUnsafe()
    void Effect.runPromise(Effect.result(life.journal.append(event(id, { receivedAt }), ["plain"]))).then(
      ({ _tag }) => {
        if (_tag === "Success" && !life.machine.isDead && !life.machine.isFrozen) this.acknowledged.add(id)
      },
    )
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
      machine.cut()
      this.time.after(this.draw.int(500, 15_000), () => machine.heal())
    } else machine.wallOffset += this.draw.int(-3_600_000, 3_600_000)
  }

  mend(): void {
    for (const { machine } of this.lives.values()) {
      machine.thaw()
      machine.heal()
    }
  }

  get missing(): ReadonlyArray<string> {
    return [...this.acknowledged].filter(
      (id) => !this.plain.has(id) || (!id.startsWith("plain-") && !this.ordered.has(id)),
    )
  }
}

const repeatedIn = (times: ReadonlyMap<string, number>): number =>
  [...times.values()].reduce((sum, count) => sum + count - 1, 0)

export const simulate = async (seed: number): Promise<Verdict> => {
  const postgres = await sharedPostgres()
  const play = new Play(seed, postgres.url)
  for (const name of names) play.start(name)
  for (let passed = 0; passed < steps; passed++) {
    for (let sent = play.draw.int(0, 3); sent > 0; sent--) play.send()
    play.sendPlain(passed)
    if (play.draw.chance(0.04)) play.harm()
    await play.time.pass(step)
  }
  for (let passed = 0; passed < mending; passed++) {
    play.mend()
    await play.time.pass(step)
    if (passed > 20 && play.missing.length === 0) break
  }
  for (const life of play.lives.values()) {
    const status = life.journal?.fleet === undefined ? undefined : await Effect.runPromise(life.journal.fleet.status)
    play.takeovers += status?.counters.takeovers ?? 0
    const health = life.journal === undefined ? undefined : await Effect.runPromise(life.journal.status)
    if (health?.health === "red") play.broken.add(`the journal is red: ${health.message}`)
  }
  for (const name of names) play.lives.get(name)?.machine.die()
  for (const { pool } of play.lives.values()) await Effect.runPromise(Scope.close(pool, Exit.void))
  return {
    acknowledged: play.acknowledged.size,
    lost: play.missing.length,
    repeated: repeatedIn(play.plain) + repeatedIn(play.ordered),
    takeovers: play.takeovers,
    broken: [...play.broken],
  }
}

if (import.meta.main) {
  for (let seed = Number(process.argv[2] ?? 1), last = Number(process.argv[3] ?? seed); seed <= last; seed++) {
    const began = performance.now()
    console.log(seed, await simulate(seed), Math.round(performance.now() - began))
  }
  await (await sharedPostgres()).stop()
  process.exit(0)
}
