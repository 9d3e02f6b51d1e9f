/**
 * A seed from its first life to the end: faults, crashes and restarts, then
 * quiet, and the oracle's last word.
 */
import { Cause, Duration, Effect, Exit, type Layer, Semaphore } from "effect"
import type { Lanes } from "../../../src/delivery/Lanes.ts"
import type { Event } from "../../../src/event/Event.ts"
import type { Archive } from "../../../src/journal/Archive.ts"
import type { Journal, JournalError } from "../../../src/journal/Journal.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { usualSearchIds } from "../../../src/journal/stream/SearchIdsConfig.ts"
import * as MemoryJournal from "../../journal/MemoryJournal.ts"
import { whole } from "../../journal/whole.ts"
import { Disk } from "./Disk.ts"
import { Draw } from "./Draw.ts"
import type { Verdict } from "./Facts.ts"
import * as Life from "./Life.ts"
import * as Operator from "./Operator.ts"
import { Oracle } from "./Oracle.ts"
import { drawPlan, type End, type Plan } from "./Plan.ts"
import { Senders } from "./Senders.ts"
import { SinkPlaces } from "./SinkPlaces.ts"
import { heartbeat, type SimulatedSink, simulatedBug } from "./Sinks.ts"
import { World } from "./World.ts"

/** The first moment of a seed on the wall clock. */
const epoch = Date.UTC(2026, 0, 1)
/** How long after the faults all must be quiet, in milliseconds. */
const enough = 120_000
/** How long a relay may take to stop: its lanes' grace, and some. */
const stopWithin = 10_000

class Simulation {
  readonly #plan: Plan
  readonly #planted: Life.Planted | undefined
  readonly #oracle = new Oracle()
  readonly #disk: Disk
  readonly #memory: Layer.Layer<Journal | Archive> | undefined
  readonly #senders: Senders
  readonly #draw: Draw
  readonly #places: SinkPlaces
  #beats = 0
  #world: World
  #life = 0

  constructor(plan: Plan, planted: Life.Planted | undefined) {
    this.#plan = plan
    this.#planted = planted
    this.#draw = new Draw(plan.seed, "simulation")
    this.#disk = new Disk(new Draw(plan.seed, "disk"))
    this.#memory = plan.memory ? Life.kept(MemoryJournal.layer) : undefined
    this.#oracle.isRenamedApart = plan.memory
    this.#senders = new Senders(plan)
    this.#places = new SinkPlaces(plan, this.#oracle, this.#draw)
    this.#world = this.#newWorld({ now: 0, wallOffset: epoch })
  }

  run(): Verdict {
    try {
      for (const end of this.#plan.ends) {
        this.#liveUntil(end)
        if (this.#oracle.broken !== undefined) return this.#oracle.verdict()
        this.#places.change(end.change)
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

  /** Lets time pass without a relay. */
  #pause(millis: number): void {
    const { now, wallOffset } = this.#world
    this.#world = this.#newWorld({ now: now + millis, wallOffset })
  }

  /** Lives until `end`; without one, until all is quiet. False when it ended before. */
  #live(end: End | undefined): boolean {
    const world = this.#world
    const oracle = this.#oracle
    this.#life += 1
    oracle.startLife(this.#life)
    oracle.now = () => world.now
    oracle.note(`life ${this.#life} starts`)
    this.#armDisk(world, end)
    const inside = <A>(work: () => A): A => this.#disk.watch(() => world.within(work))
    const life = inside(() => Life.start(this.#options(world, end)))
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
    this.#disk.closeLeftOpen()
    return oracle.broken !== undefined || !failed || end?.how === "fsync fails"
  }

  #kill(world: World): void {
    if (this.#memory === undefined) this.#disk.crash()
    world.die()
  }

  /** Only while there are faults may a life end because of its journal. */
  #diskFails(world: World): boolean {
    return this.#memory === undefined && world.now < this.#plan.faultsUntil + 5_000
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
      sinks: this.#places.placed(),
      routes: this.#places.routes(),
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

  #journal(): Layer.Layer<Journal | Archive, JournalError> {
    if (this.#memory !== undefined) return this.#memory
    const { retention, maxSize, duplicatesAge } = this.#plan.journal
    return SqliteJournal.layer({
      path: this.#disk.path,
      retention: Duration.millis(retention),
      maxSize,
      minFree: 0,
      duplicates: { age: Duration.millis(duplicatesAge), count: 1_024 },
      searchIds: usualSearchIds,
    })
  }

  /** Runs the work beside the relay. Ends when all is quiet. */
  #busy(
    world: World,
    last: boolean,
    { router, reload }: Life.Inside,
  ): Effect.Effect<void, never, Journal | Archive | Lanes> {
    const oracle = this.#oracle
    const sinks = () => this.#places.placed().map(({ sink }) => sink)
    const oneAtATime = Semaphore.makeUnsafe(1)
    const isRenamed = (name: string) => this.#places.placed().some(({ renamedFrom }) => renamedFrom === name)
    const operator = { draw: this.#draw, oracle, sinks, isRenamed, oneAtATime, isDead: () => world.dead }
    // The operator does one thing after the other.
    const oneAct = Semaphore.makeUnsafe(1)
    const hasFaults = () => world.now < this.#plan.faultsUntil
    const operating = Effect.forever(
      Effect.suspend(() => Effect.sleep(this.#draw.real(50, 1_500))).pipe(
        Effect.andThen(
          Effect.suspend(() => (hasFaults() ? oneAct.withPermit(Effect.ignore(Operator.act(operator))) : Effect.never)),
        ),
      ),
    )
    const jumping = Effect.forEach(
      this.#plan.jumps.filter(({ at }) => at >= world.now),
      ({ at, by }) =>
        Effect.delay(
          Effect.sync(() => {
            world.wallOffset += by
            oracle.clockSet(by)
          }),
          Duration.millis(at - world.now),
        ),
      { concurrency: "unbounded", discard: true },
    )
    const reloading = Effect.forEach(
      this.#plan.reloads.filter(({ at }) => at >= world.now),
      ({ at, change }) =>
        Effect.gen({ self: this }, function* () {
          const before = this.#places.placed()
          const undo = this.#places.snapshot()
          // From here on the file has the change, and the next life finds it.
          this.#places.change(change)
          // A rename that is cut short, by a crash or by a disk that takes nothing, may cost the lane its pause.
          const began = world.now
          const paused = this.#places
            .placed()
            .flatMap(({ sink }) => (sink.paused && !before.some((place) => place.sink === sink) ? [sink] : []))
            .map((sink) => ({ sink, resumes: sink.resumes }))
          for (const { sink } of paused) sink.paused = false
          yield* Effect.catch(reload(this.#places.placed(), this.#places.routes()), ({ message }) =>
            Effect.sync(() => {
              oracle.note(`the config is not in force: ${message}`)
              undo()
            }),
          )
          if (world.dead || this.#plan.badDisk.some(({ from, until }) => from <= world.now && began < until)) return
          // Except sinks that the operator has resumed meanwhile.
          for (const { sink, resumes } of paused) if (sink.resumes === resumes) sink.paused = true
        }).pipe(oneAtATime.withPermit, Effect.delay(Duration.millis(Math.max(0, at - world.now)))),
      { discard: true },
    )
    const looking = Effect.forever(Effect.delay(Effect.ignore(Operator.look(oracle)), 700)).pipe(
      // Once at the start, as soon as the sinks are open: a crash may come before anybody looks.
      (often) => Effect.andThen(Effect.delay(Effect.ignore(Operator.look(oracle)), 1), often),
    )
    const senders = this.#senders
    const quieting = Effect.gen({ self: this }, function* () {
      yield* Effect.sleep(Duration.millis(Math.max(0, this.#plan.faultsUntil - world.now)))
      for (let turn = 0; ; turn++) {
        yield* oneAct.withPermit(Effect.ignore(Operator.runAll(operator, turn % 9 === 0)))
        yield* Effect.ignore(this.#beat(sinks()))
        yield* Effect.sleep(500)
        const statuses = yield* Operator.look(oracle)
        // The next reload moves events that a rename could not move while the disk failed.
        if (statuses.some(({ name, condition }) => condition === "orphaned" && isRenamed(name)))
          yield* oneAtATime.withPermit(Effect.ignore(reload(this.#places.placed(), this.#places.routes())))
        if (senders.idle && Operator.isQuiet(statuses)) break
        if (world.now > this.#plan.faultsUntil + enough) {
          const busy = statuses.filter((status) => !Operator.isQuiet([status]))
          const said = busy.map(
            ({ name, backlog, retrying, condition }) =>
              `${name} is ${condition} with ${backlog} events, ${retrying} of them retrying`,
          )
          return oracle.fail(`all is well, and it does not come to an end: ${said.join("; ") || "senders wait"}`)
        }
      }
      const journal = yield* whole
      const { health, message } = yield* journal.status
      if (health !== "ok" && health !== "full") oracle.fail(`the journal is ${health}: ${message}`)
      oracle.finish(yield* journal.deadLetters({ limit: 100_000 }))
    }).pipe(
      Effect.catch((error: JournalError) =>
        Effect.sync(() => oracle.fail(`the journal failed after the faults: ${error.message}`)),
      ),
    )
    return Effect.gen({ self: this }, function* () {
      yield* Effect.forkChild(senders.run(router, () => world.now))
      yield* Effect.forkChild(operating)
      yield* Effect.forkChild(jumping)
      yield* Effect.forkChild(reloading)
      yield* Effect.forkChild(looking)
      if (!last) return yield* Effect.never
      yield* quieting
      this.#world.die()
    })
  }

  /** Sends an event that passes: only then is it plain that a failing event is at fault itself. */
  #beat(sinks: ReadonlyArray<SimulatedSink>): Effect.Effect<unknown, JournalError, Journal | Archive> {
    const failing = sinks
      .filter(
        ({ plan: { unbearable, poison } }) => unbearable.drops + unbearable.bug + unbearable.unrenderable + poison > 0,
      )
      .map(({ name }) => name)
    const beat = this.#beats++
    if (failing.length === 0 || beat % 4 > 0) return Effect.void
    const receivedAt = Math.floor(this.#world.wall)
    return Effect.flatMap(whole, (journal) => journal.append(beatOf(beat, receivedAt), failing))
  }

  // --- the config ------------------------------------------------------------

  #newWorld(before: { readonly now: number; readonly wallOffset: number }): World {
    return new World(before, new Draw(this.#plan.seed, `life ${this.#life + 1}`), (text) =>
      text.includes(simulatedBug) && !text.includes("it restarts within")
        ? this.#oracle.note(`a bug was logged: ${text.slice(0, 80)}`)
        : this.#oracle.fail(`an error was logged: ${text}`),
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

/** Plays a seed. The same seed repeats the same run, to the last step. */
export const simulate = (seed: number, planted?: Life.Planted): Verdict => new Simulation(drawPlan(seed), planted).run()
