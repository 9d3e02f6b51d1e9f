/**
 * A seed from its first life to the end: storm, crashes and restarts, then
 * quiet, and the oracle's last word.
 */
import { Cause, Duration, Effect, Exit, type Layer, Semaphore } from "effect"
import type { Lanes } from "../../../src/delivery/Lanes.ts"
import type { Event } from "../../../src/event/Event.ts"
import { Journal, type JournalError } from "../../../src/journal/Journal.ts"
import * as MemoryJournal from "../../../src/journal/MemoryJournal.ts"
import * as SqliteJournal from "../../../src/journal/SqliteJournal.ts"
import type { Route } from "../../../src/routing/Router.ts"
import { Disk } from "./Disk.ts"
import { Draw } from "./Draw.ts"
import * as Life from "./Life.ts"
import { Oracle, type Verdict } from "./Oracle.ts"
import * as Person from "./Person.ts"
import { drawPlan, drawSink, type End, type Plan, type Reload, type RoutePlan, sinkName } from "./Plan.ts"
import { Senders } from "./Senders.ts"
import { heartbeat, SimulatedSink, simulatedBug } from "./Sinks.ts"
import { World } from "./World.ts"

/** The first moment of a seed on the wall clock. */
const epoch = Date.UTC(2026, 0, 1)
/** How long after the storm all must be quiet, in milliseconds. */
const enough = 120_000
/** How long a relay may take to stop: its lanes' grace, and some. */
const stopWithin = 10_000

class Simulation {
  readonly #plan: Plan
  readonly #planted: Life.Planted | undefined
  readonly #oracle = new Oracle()
  readonly #disk: Disk
  readonly #memory: Layer.Layer<Journal> | undefined
  readonly #senders: Senders
  readonly #draw: Draw
  /** By place: routes name places, so that a sink may change its name. `undefined`: removed. */
  #places: ReadonlyArray<Life.Placed | undefined>
  /** Removed, and still what they were. */
  #removed: ReadonlyArray<{ readonly place: number; readonly sink: SimulatedSink }> = []
  #sinksEver = 0
  #beats = 0
  #world: World
  #life = 0

  constructor(plan: Plan, planted: Life.Planted | undefined) {
    this.#plan = plan
    this.#planted = planted
    this.#draw = new Draw(plan.seed, "simulation")
    this.#disk = new Disk(new Draw(plan.seed, "disk"))
    this.#memory = plan.memory ? Life.kept(MemoryJournal.layer) : undefined
    this.#senders = new Senders(plan)
    this.#places = plan.sinks.map(() => ({ sink: this.#newSink(), renamedFrom: undefined, tuned: 0 }))
    this.#world = this.#newWorld({ now: 0, wallOffset: epoch })
  }

  run(): Verdict {
    try {
      for (const end of this.#plan.ends) {
        this.#liveUntil(end)
        if (this.#oracle.broken !== undefined) return this.#oracle.verdict()
        this.#change(end.change)
        this.#pause(end.away)
      }
      this.#liveUntil(undefined)
      return this.#oracle.verdict()
    } finally {
      this.#disk.remove()
    }
  }

  // --- a life ----------------------------------------------------------------

  /** A relay that ends by itself, because its disk failed, is started again. */
  #liveUntil(end: End | undefined): void {
    while (!this.#live(end)) this.#pause(200)
  }

  /** Nobody runs for so long. */
  #pause(millis: number): void {
    const { now, wallOffset } = this.#world
    this.#world = this.#newWorld({ now: now + millis, wallOffset })
  }

  /** Lives until `end`; without one, until all is quiet. False when it ended before. */
  #live(end: End | undefined): boolean {
    const world = this.#world
    const oracle = this.#oracle
    this.#life += 1
    oracle.begins(this.#life)
    oracle.now = () => world.now
    oracle.note(`life ${this.#life} begins`)
    this.#armDisk(world, end)
    const inside = <A>(work: () => A): A => this.#disk.watch(() => world.within(work))
    const life = inside(() => Life.begin(this.#options(world, end)))
    const exit = () => life.fiber.pollUnsafe()
    const runUntil = (done: () => boolean): void =>
      inside(() => world.run(() => done() || exit() !== undefined || oracle.broken !== undefined))

    if (end === undefined) runUntil(() => false)
    else {
      runUntil(() => world.now >= end.at)
      const from = world.steps
      // A fault of the disk comes with the next commit or checkpoint; if there is none, a kill comes.
      const latest = world.now + (end.how === "kill" ? 0 : end.how === "stop" ? stopWithin : 2_000)
      if (end.how === "stop") inside(life.stop)
      runUntil(() => world.now >= latest && world.steps >= from + end.steps)
      if (!world.dead && exit() === undefined) {
        if (end.how === "stop") oracle.fail("the relay does not stop")
        else this.#kill(world)
      }
    }
    const ended = exit()
    oracle.steps += world.steps
    const failed = ended !== undefined && Exit.isFailure(ended)
    if (failed && (Cause.hasDies(ended.cause) || !this.#diskFails(world)))
      oracle.fail(`the relay ended by itself: ${ended.cause}`)
    oracle.note(
      `life ${this.#life} ends: ${failed ? ended.cause : world.dead ? (end?.how ?? "all is quiet") : "stopped"}`,
    )
    if (!world.dead && !failed) oracle.stopped()
    this.#disk.bury()
    return oracle.broken !== undefined || !failed || end?.how === "fsync fails"
  }

  #kill(world: World): void {
    if (this.#memory === undefined) this.#disk.crash()
    world.die()
  }

  /** Only in the storm may a life end because of its journal. */
  #diskFails(world: World): boolean {
    return this.#memory === undefined && world.now < this.#plan.storm + 5_000
  }

  #armDisk(world: World, end: End | undefined): void {
    const disk = this.#disk
    disk.onCrash = () => world.die()
    let armed = end !== undefined && end.how !== "kill" && end.how !== "stop"
    const due = () => {
      const now = armed && end !== undefined && world.now >= end.at && !world.dead
      if (now) armed = false
      return now
    }
    disk.crashInCheckpoint = () => end?.how === "torn checkpoint" && due()
    disk.commitFault = () => {
      if (world.dead) return undefined
      const bad = this.#plan.badDisk.find(({ from, until }) => from <= world.now && world.now < until)
      if (bad !== undefined && this.#draw.chance(bad.share)) return bad.fault
      if (end === undefined || end.how === "kill" || end.how === "stop" || end.how === "torn checkpoint")
        return undefined
      return due() ? end.how : undefined
    }
  }

  #options(world: World, end: End | undefined): Life.LifeOptions {
    const { journal: settings } = this.#plan
    return {
      world,
      oracle: this.#oracle,
      journal: this.#journal(),
      planted: this.#planted,
      sinks: this.#placed(),
      routes: this.#routes(),
      remembers: ({ at, life }) =>
        !this.#oracle.clockJumped &&
        !this.#plan.burst &&
        Math.floor(world.wall) - at < settings.duplicatesAge - 2_000 &&
        (life === this.#life ||
          this.#memory !== undefined ||
          (settings.retention > settings.duplicatesAge && settings.maxSize > 10_000_000)),
      busy: (inside) => this.#busy(world, end === undefined, inside),
    }
  }

  #journal(): Layer.Layer<Journal, JournalError> {
    if (this.#memory !== undefined) return this.#memory
    const { retention, maxSize, duplicatesAge } = this.#plan.journal
    return SqliteJournal.layer({
      type: "sqlite",
      path: this.#disk.path,
      retention: Duration.millis(retention),
      maxSize,
      minFree: 0,
      duplicates: { age: Duration.millis(duplicatesAge), count: 1_024 },
    })
  }

  /** What goes on beside the relay; comes to its end when all is quiet. */
  #busy(world: World, last: boolean, { router, reload }: Life.Inside): Effect.Effect<void, never, Journal | Lanes> {
    const oracle = this.#oracle
    const sinks = () => this.#placed().map(({ sink }) => sink)
    const oneAtATime = Semaphore.makeUnsafe(1)
    const person = { draw: this.#draw, oracle, sinks, oneAtATime, isDead: () => world.dead }
    // A person has two hands, and does one thing after the other.
    const hands = Semaphore.makeUnsafe(1)
    const storming = () => world.now < this.#plan.storm
    const meddling = Effect.forever(
      Effect.suspend(() => Effect.sleep(this.#draw.real(50, 1_500))).pipe(
        Effect.andThen(
          Effect.suspend(() => (storming() ? hands.withPermit(Effect.ignore(Person.meddle(person))) : Effect.never)),
        ),
      ),
    )
    const jumping = Effect.forEach(
      this.#plan.jumps.filter(({ at }) => at >= world.now),
      ({ at, by }) =>
        Effect.delay(
          Effect.sync(() => {
            world.wallOffset += by
            oracle.clockJumped = true
            oracle.note(`the wall clock jumps by ${by / 3_600_000} h`)
          }),
          Duration.millis(at - world.now),
        ),
      { concurrency: "unbounded", discard: true },
    )
    const reloading = Effect.forEach(
      this.#plan.reloads.filter(({ at }) => at >= world.now),
      ({ at, change }) =>
        Effect.gen({ self: this }, function* () {
          const [places, removed] = [this.#places, this.#removed]
          // From here on the file says so: it is what the next life finds.
          this.#change(change)
          // A rename that is cut short, by a crash or by a disk that takes nothing, may cost the lane its pause.
          const began = world.now
          const paused = this.#placed().flatMap(({ sink }) =>
            sink.paused && !places.some((place) => place?.sink === sink) ? [sink] : [],
          )
          for (const sink of paused) sink.paused = false
          yield* Effect.catch(reload(this.#placed(), this.#routes()), ({ message }) =>
            Effect.sync(() => {
              oracle.note(`the config is not in force: ${message}`)
              this.#places = places
              this.#removed = removed
            }),
          )
          if (world.dead || this.#plan.badDisk.some(({ from, until }) => from <= world.now && began < until)) return
          for (const sink of paused) sink.paused = true
        }).pipe(oneAtATime.withPermit, Effect.delay(Duration.millis(Math.max(0, at - world.now)))),
      { discard: true },
    )
    const looking = Effect.forever(Effect.delay(Effect.ignore(Person.look(oracle)), 700)).pipe(
      // Once at the start, as soon as the sinks are open: a crash may come before anybody looks.
      (often) => Effect.andThen(Effect.delay(Effect.ignore(Person.look(oracle)), 1), often),
    )
    const senders = this.#senders
    const quieting = Effect.gen({ self: this }, function* () {
      yield* Effect.sleep(Duration.millis(Math.max(0, this.#plan.storm - world.now)))
      for (let turn = 0; ; turn++) {
        yield* hands.withPermit(Effect.ignore(Person.mend(person, turn % 9 === 0)))
        yield* Effect.ignore(this.#beat(sinks()))
        yield* Effect.sleep(500)
        const statuses = yield* Person.look(oracle)
        if (senders.idle && Person.isQuiet(statuses)) break
        if (world.now > this.#plan.storm + enough) {
          const busy = statuses.filter((status) => !Person.isQuiet([status]))
          const said = busy.map(
            ({ name, backlog, parked, condition }) =>
              `${name} is ${condition} with ${backlog} events, ${parked} of them parked`,
          )
          return oracle.fail(`all is well, and it does not come to an end: ${said.join("; ") || "senders wait"}`)
        }
      }
      const journal = yield* Journal
      const { health, message } = yield* journal.status
      if (health !== "ok" && health !== "full") oracle.fail(`the journal is ${health}: ${message}`)
      oracle.finish(yield* journal.deadLetters({ limit: 100_000 }))
    }).pipe(
      Effect.catch((error: JournalError) =>
        Effect.sync(() => oracle.fail(`the journal failed after the storm: ${error.message}`)),
      ),
    )
    return Effect.gen({ self: this }, function* () {
      yield* Effect.forkChild(senders.run(router, () => world.now))
      yield* Effect.forkChild(meddling)
      yield* Effect.forkChild(jumping)
      yield* Effect.forkChild(reloading)
      yield* Effect.forkChild(looking)
      if (!last) return yield* Effect.never
      yield* quieting
      this.#world.die()
    })
  }

  /** An event that passes: only then is it plain that one which fails is at fault itself. */
  #beat(sinks: ReadonlyArray<SimulatedSink>): Effect.Effect<unknown, JournalError, Journal> {
    const dropping = sinks.filter(({ plan }) => plan.unbearable.drops > 0).map(({ name }) => name)
    const beat = this.#beats++
    if (dropping.length === 0 || beat % 4 > 0) return Effect.void
    const receivedAt = Math.floor(this.#world.wall)
    return Effect.flatMap(Journal, (journal) => journal.append(beatOf(beat, receivedAt), dropping))
  }

  // --- the config ------------------------------------------------------------

  #newWorld(before: { readonly now: number; readonly wallOffset: number }): World {
    return new World(before, new Draw(this.#plan.seed, `life ${this.#life + 1}`), (text) =>
      text.includes(simulatedBug) && !text.includes("has ended")
        ? this.#oracle.note(`a bug was logged: ${text.slice(0, 80)}`)
        : this.#oracle.fail(`an error was logged: ${text}`),
    )
  }

  #newSink(name?: string, like?: SimulatedSink): SimulatedSink {
    const { seed, storm, burst, sinks } = this.#plan
    const index = this.#sinksEver
    this.#sinksEver += 1
    const plan = like?.plan ?? sinks[index] ?? drawSink(seed, index, storm, burst)
    const sink = new SimulatedSink(
      name ?? sinkName(index),
      plan,
      storm,
      this.#oracle,
      new Draw(seed, `answers ${index}`),
    )
    const { order, digest, delivery, backlog } = plan.config
    this.#oracle.rules.set(sink.name, {
      order: order === "key" || digest !== undefined,
      bound: undefined,
      maxAttempts: delivery.retry.maxAttempts ?? Number.POSITIVE_INFINITY,
      maxAge: Duration.toMillis(delivery.retry.maxAge),
      givesUp: backlog?.whenFull === "deadLetter",
      unrenderable: (event) => sink.unbearable(event, "unrenderable"),
    })
    return sink
  }

  #placed(): ReadonlyArray<Life.Placed> {
    return this.#places.filter((place) => place !== undefined)
  }

  #routes(): ReadonlyArray<Route> {
    const names = (to: ReadonlyArray<number>) => to.flatMap((place) => this.#places[place]?.sink.name ?? [])
    const route = (
      { match, except = [], where = {} }: Pick<RoutePlan, "match" | "except" | "where">,
      name: string,
      to: ReadonlyArray<number>,
    ) => ({
      name,
      match,
      except,
      where,
      to: names(to),
    })
    const { routes, own } = this.#plan
    return [
      ...routes.map(({ plan, to }, index) => route(plan, `route ${index}`, to)),
      ...(own === undefined ? [] : [route({ match: ["relay.*"] }, "own", [own])]),
    ]
  }

  #put(at: number, placed: Life.Placed | undefined): void {
    this.#places = this.#places.map((before, place) => (place === at ? placed : before))
  }

  /** The next config. */
  #change(change: Reload["change"]): void {
    const place = this.#draw.int(0, this.#places.length - 1)
    const placed = this.#places[place]
    switch (change) {
      case "add":
        this.#places = [...this.#places, { sink: this.#newSink(), renamedFrom: undefined, tuned: 0 }]
        break
      case "remove":
        if (placed === undefined || this.#places.filter((one) => one !== undefined).length < 2) return
        this.#put(place, undefined)
        this.#removed = [...this.#removed, { place, sink: placed.sink }]
        break
      case "rename": {
        if (placed === undefined) return
        const sink = this.#newSink(undefined, placed.sink)
        // Renamed twice, the first may have been cut short: then it is a lane that nobody has heard of.
        sink.paused = placed.sink.paused && placed.renamedFrom === undefined
        this.#put(place, { sink, renamedFrom: placed.sink.name, tuned: 0 })
        this.#oracle.inherited(placed.sink.name, sink.name, false)
        break
      }
      case "return": {
        const back = this.#removed.at(-1)
        if (back === undefined) return
        this.#removed = this.#removed.slice(0, -1)
        // A pause goes with its lane.
        if (this.#oracle.isGone(back.sink.name)) back.sink.paused = false
        this.#put(back.place, { sink: back.sink, renamedFrom: undefined, tuned: 0 })
        break
      }
      case "tune":
        if (placed === undefined) return
        this.#put(place, { ...placed, tuned: placed.tuned + 1 })
        break
      case "nothing":
        return
    }
    this.#oracle.note(
      `the config changes: ${change}; sinks are now ${this.#places.map((one) => one?.sink.name ?? "-").join(", ")}`,
    )
  }
}

const beatOf = (beat: number, receivedAt: number): Event => ({
  id: `evt_beat_${beat}`,
  type: "custom.heartbeat",
  accountId: heartbeat,
  webhook: "scheduling",
  webhookId: "wh_1",
  signature: "sha256=…",
  secret: "one",
  receivedAt,
  body: new TextEncoder().encode(`{"beat":${beat}}`),
})

/** The same seed, the same run, to the last step. */
export const simulate = (seed: number, planted?: Life.Planted): Verdict => new Simulation(drawPlan(seed), planted).run()
