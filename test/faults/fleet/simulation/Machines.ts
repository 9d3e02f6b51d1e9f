/**
 * The machines of a simulated fleet: each has clocks of its own, can stand still,
 * and can be cut off from its databases, as each of these can be cut off from all.
 * Time passes when the simulation says so.
 */
import { type Clock, Duration, Effect, Result } from "effect"
import type { Answer, Database, Params, Queries, Use } from "../../../../src/journal/postgres/connection/Database.ts"
import { type DatabaseError, databaseError } from "../../../../src/journal/postgres/connection/DatabaseError.ts"
import { lease } from "../../../../src/journal/postgres/fleet/Membership.ts"
import type { Draw } from "../../simulation/Draw.ts"
import { type Refusal, refusalOf, textRefusal } from "./Refusals.ts"

interface Timer {
  readonly at: number
  readonly run: () => void
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Time, for all machines. */
export class Time {
  /** Milliseconds. */
  now = 1_000_000
  /** Questions that the database has yet to answer. */
  asked = 0
  #timers: Array<Timer> = []

  after(millis: number, run: () => void): () => void {
    const timer = { at: this.now + Math.max(0, millis), run }
    const index = this.#timers.findIndex(({ at }) => at > timer.at)
    this.#timers.splice(index === -1 ? this.#timers.length : index, 0, timer)
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer)
    }
  }

  /** Lets time pass, and waits for the database's answers to queries made meanwhile. */
  async pass(millis: number): Promise<void> {
    const end = this.now + millis
    for (let next = this.#timers[0]; next !== undefined && next.at <= end; next = this.#timers[0]) {
      this.#timers.shift()
      this.now = next.at
      next.run()
      if (this.#timers[0]?.at !== this.now) await turn()
    }
    this.now = end
    // An answer may cause another query, after a few milliseconds of the real clock.
    for (let quiet = 0; quiet < 3; quiet = this.asked === 0 ? quiet + 1 : 0) await Bun.sleep(2)
  }
}

/** A way that can be cut: nothing goes through, or no answer comes back. */
export class Link {
  #cut: { readonly until: Promise<void>; readonly heal: () => void } | undefined

  get isCut(): boolean {
    return this.#cut !== undefined
  }

  /** When it is healed; `undefined` while it is not cut. */
  get healed(): Promise<void> | undefined {
    return this.#cut?.until
  }

  cut(): void {
    if (this.#cut !== undefined) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#cut = { until: promise, heal: resolve }
  }

  heal(): void {
    this.#cut?.heal()
    this.#cut = undefined
  }
}

/** Reports as a relay of another version may send them. */
const foreignReports = {
  lacking: (report: string) => report.replaceAll(/,"bytes":-?\d+/g, ""),
  nonsense: () => '{"streams":{"1":{"bytes":1e300},"2":7},"lanes":"none"}',
}

export class Machine {
  readonly network = new Link()
  /** Set while its heartbeats carry a report that the other relays can't read. */
  foreign: keyof typeof foreignReports | undefined
  /** Set while the database, or a proxy before it, refuses some of this machine's questions. */
  refusal: Refusal | undefined
  /** It reaches the server that wrote before another one was promoted. */
  isLeftBehind = false
  /** When it stops to believe the answers of that server. */
  #believesUntil = Number.NEGATIVE_INFINITY
  wallOffset = 0
  isDead = false
  readonly clock: Clock.Clock
  readonly #time: Time
  readonly #draw: Draw
  readonly #losesAnswer: () => boolean
  /** The time of the last question, by its use. */
  readonly #askedAt = new Map<Use, number>()
  #held: Array<() => void> | undefined

  /** `losesAnswer` is called with each answer of a database, and says whether it is lost. */
  constructor(time: Time, draw: Draw, losesAnswer: () => boolean) {
    this.#time = time
    this.#draw = draw
    this.#losesAnswer = losesAnswer
    const nanos = (millis: number) => BigInt(Math.round(millis * 1e6))
    const wall = () => 1_700_000_000_000 + time.now + this.wallOffset
    this.clock = {
      currentTimeMillisUnsafe: () => Math.floor(wall()),
      currentTimeMillis: Effect.sync(() => Math.floor(wall())),
      currentTimeNanosUnsafe: () => nanos(wall()),
      currentTimeNanos: Effect.sync(() => nanos(wall())),
      monotonicTimeNanosUnsafe: () => nanos(time.now),
      monotonicTimeNanos: Effect.sync(() => nanos(time.now)),
      sleep: (duration) =>
        Effect.callback<void>((resume) => {
          const cancel = time.after(Duration.toMillis(duration), () => this.#go(() => resume(Effect.void)))
          return Effect.sync(cancel)
        }),
    }
  }

  /** From now on it reaches the promoted server. It may deliver for a lease before it hears of that. */
  rejoin(): void {
    this.isLeftBehind = false
    this.#believesUntil = this.#time.now + lease
  }

  /** It may not know of epochs that began on the promoted server. */
  get mayBeBehind(): boolean {
    return this.isLeftBehind || this.#time.now < this.#believesUntil
  }

  get isFrozen(): boolean {
    return this.#held !== undefined
  }

  #go(work: () => void): void {
    if (this.isDead) return
    if (this.#held === undefined) work()
    else this.#held.push(work)
  }

  /** Freezes the machine as SIGSTOP does. */
  freeze(): void {
    this.#held ??= []
  }

  thaw(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const work of held) this.#go(work)
  }

  /** The process ends without a word. */
  die(): void {
    this.isDead = true
    this.network.heal()
  }

  #refused(use: Use, sql: string, params: Params | undefined): DatabaseError | undefined {
    const { now } = this.#time
    const idle = now - (this.#askedAt.get(use) ?? now)
    this.#askedAt.set(use, now)
    return refusalOf(this.refusal, use, sql, idle) ?? textRefusal(params)
  }

  /** The parameters of a heartbeat: the report is the sixth. */
  #reporting(params: Params | undefined): Params | undefined {
    const { foreign } = this
    if (foreign === undefined) return params
    return params?.map((param, at) => (at === 5 ? foreignReports[foreign](String(param)) : param))
  }

  /** A database, as this machine reaches it: over `line`, and on the server that wrote before a split if it is left with that. */
  reach(db: Database, line: Link, former: Database = db): Database {
    const current = () => (this.isLeftBehind ? former : db)
    const lost = databaseError("unavailable", "simulated: the connection was lost", { isLost: true })
    /** A query in progress when the network fails may have been executed. */
    const over = async <A>(
      ask: (db: Database) => Promise<Result.Result<A, typeof lost>>,
    ): Promise<Result.Result<A, typeof lost>> => {
      const healed = this.network.healed ?? line.healed
      if (this.isDead) return new Promise(() => {})
      if (healed !== undefined && this.#draw.chance(0.5)) {
        await healed
        return Result.fail(lost)
      }
      const asked = current()
      this.#time.asked += 1
      const answer = await ask(asked).finally(() => {
        this.#time.asked -= 1
      })
      if (healed !== undefined) {
        await healed
        return Result.fail(lost)
      }
      const isLost = asked !== current() || (Result.isSuccess(answer) && this.#losesAnswer())
      return new Promise((resolve) => this.#go(() => resolve(isLost ? Result.fail(lost) : answer)))
    }
    const overEffect = <A, E>(ask: (db: Database) => Effect.Effect<A, E>) =>
      Effect.flatMap(
        Effect.promise(() => over(async (db) => Result.succeed(await Effect.runPromise(Effect.result(ask(db)))))),
        (result): Effect.Effect<A, E | typeof lost> =>
          Result.isFailure(result) ? Effect.fail(result.failure) : Effect.fromResult(result.success),
      )
    const working = (queries: Queries): Queries => ({
      query: <Row>(...all: Parameters<Queries["query"]>) =>
        Effect.suspend(() => {
          const [sql, params] = all
          const refusal = this.#refused("work", sql, params)
          return refusal === undefined ? queries.query<Row>(...all) : Effect.fail(refusal)
        }),
    })
    return {
      ...db,
      query: <Row>(...all: Parameters<Database["query"]>) => overEffect((db) => working(db).query<Row>(...all)),
      transact: (work) => overEffect((db) => db.transact((queries) => work(working(queries)))),
      queryUnsafe: <Row>(...[use, sql, params, options]: Parameters<Database["queryUnsafe"]>) =>
        over<Answer<Row>>(async (db) => {
          const refusal = this.#refused(use, sql, params)
          if (refusal !== undefined) return Result.fail(refusal)
          return db.queryUnsafe<Row>(use, sql, use === "beat" ? this.#reporting(params) : params, options)
        }),
    }
  }
}
