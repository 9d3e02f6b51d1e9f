/**
 * Simulates a fleet by seed: three relays with their real journals and lanes, on a real PostgreSQL. Their machines
 * crash, freeze, lose the network or single answers, and have their clocks set.
 *
 * On one database, sinks are renamed by reloads of relay after relay, and one sink leaves the config and comes back.
 * Operators act as well (`Operators.ts`). The database fails over to a server that has everything or to a server that
 * was behind, and the same server is restored to an earlier state. A relay that was frozen together with the former
 * server may continue with it for some time.
 *
 * On several databases, each relay has a journal in each, and lanes over it. An event goes to the database of its
 * account. Databases become unavailable as well, and one more is added while all relays run.
 *
 * A relay may send a report that the others can't read. The database may refuse a relay's statements on a table or have
 * no connection left, a proxy may drop idle connections, and some text can't be stored.
 *
 * **What must hold.** Each acknowledged event arrives at its sinks, unless the database lost it, a sink rejects it or
 * an operator dropped it. In the end every relay reports the same: no events are pending, and each stored event has the
 * outcome at each sink that the relays report. Running relays name the events that the database lost, and no relay
 * names others. The sink with an order gets the events of a key in the order in which they were acknowledged. An event
 * that was sent once is not answered as a duplicate, unless its row is deleted immediately. After a later epoch of the
 * same history has started on a stream, no attempt starts and no append is stored under an earlier one. No event is
 * refused because the journal is full, or because of the text of another event. A relay whose append the database
 * refused immediately reports that it isn't ready, unless the event's own text was the reason.
 */
import { Clock, Duration, Effect, Logger } from "effect"
import { lease } from "../../../../src/journal/postgres/fleet/Membership.ts"
import { makePostgres } from "../../../parts/Postgres.ts"
import { Draw } from "../../simulation/Draw.ts"
import { type Loss, Losses, more } from "./Losses.ts"
import { type Machine, Time } from "./Machines.ts"
import { type Desk, guest, hasGuest, Operators } from "./Operators.ts"
import { drawRefusal } from "./Refusals.ts"
import { names, Relays } from "./Relays.ts"
import { report } from "./Report.ts"
import { Senders } from "./Senders.ts"
import { Shard } from "./Shards.ts"
import { named, Sinks } from "./Sinks.ts"

/** A step of the simulation, in milliseconds, and the number of steps with faults. */
const step = 200
const steps = 300
/** Largest number of steps until all events have arrived, after the faults end. */
const mending = 300
/** Steps within which every relay learns that an alarm was acknowledged at one relay. */
const hearing = 15
const keys = 5
/** How often the answer to a statement is lost while all else works. */
const lostAnswers = 0.01
/** How often the server is restored to an earlier state. */
const restoresAtStep = 0.01
/** How often a relay goes on with the server that wrote before another one was promoted. */
const splitsAtStep = 0.01
/** Milliseconds after which relays have named the events that the database lost. */
const naming = 10_000

export interface Verdict {
  readonly acknowledged: number
  readonly lost: number
  readonly repeated: number
  readonly takeovers: number
  /** Acknowledged in one database while another was away. */
  readonly meanwhile: number
  readonly renames: number
  readonly promotions: number
  readonly restores: number
  readonly splits: number
  /** Number of requests by operators that succeeded. */
  readonly operations: number
  readonly broken: ReadonlyArray<string>
  /** State of the fleet when a violation was first seen, and in the end. Empty if nothing was broken. */
  readonly reports: ReadonlyArray<string>
}

class Play {
  readonly time = new Time()
  readonly draw: Draw
  /** Which relays send a report that the others can't read, and whose questions the database refuses. */
  readonly #reports: Draw
  readonly #refusals: Draw
  readonly acknowledged = new Set<string>()
  readonly broken = new Set<string>()
  readonly shards: Array<Shard> = []
  readonly sinks: Sinks
  readonly relays: Relays
  readonly senders: Senders
  readonly operators: Operators
  /** Version of the newest config. */
  version = 0
  promotions = 0
  restores = 0
  splits = 0
  readonly losses = new Losses()
  /** Acknowledged while a standby was behind that was promoted then: the database may have lost it. */
  readonly mayBeLost = new Set<string>()
  /** Odd while a standby that will be promoted is behind: events stored meanwhile will be lost. */
  #losses = 0
  /** When the database lost something last. */
  #lostAt = Number.NEGATIVE_INFINITY
  #isMending = false
  /** Says when the server is restored, and when a relay is left with the former server. */
  readonly #restoring: Draw
  readonly #splitting: Draw
  /** The machine that is left with the former server. */
  #leftBehind: Machine | undefined
  /** No relay ends in this fleet, so each must name all that it knows to be lost. */
  readonly #isCalm: boolean
  readonly #seed: number
  readonly #url: string

  constructor(seed: number, url: string) {
    const { time, shards, broken, mayBeLost } = this
    const draw = new Draw(seed, "fleet")
    this.draw = draw
    this.#restoring = new Draw(seed, "restores")
    this.#splitting = new Draw(seed, "splits")
    this.#isCalm = new Draw(seed, "calm").chance(0.3)
    this.#reports = new Draw(seed, "reports")
    this.#refusals = new Draw(seed, "refusals")
    this.#seed = seed
    this.#url = url
    const losses = () => this.#losses
    const accept = (id: string, isBound: boolean) => {
      this.acknowledged.add(id)
      if (!isBound) mayBeLost.add(id)
    }
    this.operators = new Operators(seed, {
      desk: () => this.#desk(),
      isGuestGone: () => this.relays.isSettled && !hasGuest(this.version),
      losses,
      after: (millis, run) => time.after(millis, run),
      accept,
      arrivedAt: (sink, id) => this.sinks.arrivedAt(sink, id),
      broken,
    })
    // Operators look after the dead letters of one database.
    const rejects = (id: string) => shards.length === 1 && this.operators.rejects(id)
    this.sinks = new Sinks({ draw, rejects, mayBeLost, broken })
    const retention = Duration.millis(this.operators.retention)
    const answers = new Draw(seed, "answers")
    const losesAnswer = () => !this.#isMending && answers.chance(lostAnswers)
    const newest = () => this.version
    this.relays = new Relays({ time, draw, losesAnswer, shards, sinks: this.sinks, retention, newest })
    this.senders = new Senders({
      time,
      draw,
      relays: this.relays,
      shards,
      losses,
      accept,
      isPruned: this.operators.isPruned,
      broken,
    })
  }

  /** A relay that runs, as an operator finds it. */
  #desk(): Desk | undefined {
    const life = this.relays.any
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

  async addShard(): Promise<void> {
    const shard = new Shard(this.#url, `seed_${process.pid}_${this.#seed}_${this.shards.length}`)
    await Effect.runPromise(shard.prepare)
    this.shards.push(shard)
    // Relays learn of the database one by one, as by a reload.
    for (const [name, life] of this.relays.lives) {
      this.time.after(this.draw.int(0, 10_000), () => this.relays.open(name, life, life.parts.length))
    }
  }

  // --- faults ----------------------------------------------------------------

  harm(): void {
    const name = this.draw.pick(names)
    const life = this.relays.lives.get(name)
    if (life === undefined || life.isOver) return
    const { machine } = life
    const what = this.draw.next()
    if (what < 0.4 && this.#isCalm) return
    if (what < 0.25) this.relays.crash(name)
    else if (what < 0.4) this.relays.stop(name)
    else if (what < 0.65) {
      machine.freeze()
      this.time.after(this.draw.int(500, 20_000), () => machine.thaw())
    } else if (what < 0.9) {
      machine.network.cut()
      this.time.after(this.draw.int(500, 15_000), () => machine.network.heal())
    } else machine.wallOffset += this.draw.int(-3_600_000, 3_600_000)
  }

  /** A relay is of another version for some time: the others can't read its report. */
  misreport(): void {
    if (!this.#reports.chance(0.02)) return
    const machine = this.relays.lives.get(this.#reports.pick(names))?.machine
    const kind = this.#reports.pick(["lacking", "nonsense"] as const)
    const lasts = this.#reports.int(1_000, 15_000)
    if (machine === undefined) return
    machine.foreign = kind
    this.time.after(lasts, () => {
      machine.foreign = undefined
    })
  }

  /** The database, or a proxy before it, refuses some of a relay's questions for some time. */
  refuse(): void {
    if (!this.#refusals.chance(0.03)) return
    const machine = this.relays.lives.get(this.#refusals.pick(names))?.machine
    const refusal = drawRefusal(this.#refusals)
    const lasts = this.#refusals.int(500, 5_000)
    if (machine === undefined) return
    machine.refusal = refusal
    this.time.after(lasts, () => {
      machine.refusal = undefined
    })
  }

  /** A database goes away, for all. */
  harmShard(): void {
    const shard = this.shards[this.draw.int(0, this.shards.length - 1)]
    shard?.link.cut()
    this.time.after(this.draw.int(2_000, 15_000), () => shard?.link.heal())
  }

  async mend(): Promise<void> {
    this.#isMending = true
    await this.#rejoin()
    for (const { link } of this.shards) link.heal()
    for (const [name, { machine }] of this.relays.lives) {
      machine.thaw()
      machine.network.heal()
      machine.foreign = undefined
      machine.refusal = undefined
      this.relays.reload(name)
    }
    this.operators.resume()
    // Pending events of the guest need a config that has it.
    if (this.relays.isSettled && !hasGuest(this.version)) await this.rename()
  }

  // --- changes ---------------------------------------------------------------

  /**
   * Renames the sinks, and reloads each relay some time later. A config names only one former name, so a lane with an
   * earlier name would be an orphan, as the reference says. Therefore all relays must run with the current config, and
   * the lanes of all owned streams must have its names, on a standby that is behind as well.
   */
  async rename(): Promise<void> {
    const [shard] = this.shards
    if (shard === undefined || !this.relays.isSettled || this.#leftBehind !== undefined) return
    const { version } = this
    const current = new Set([named("plain", version), named("ordered", version), guest, "_quarantine"])
    const tables = ["progress", ...(this.#losses % 2 === 1 ? ["behind_progress"] : [])]
    const owned = new Set(
      [...this.relays.lives.values()].flatMap((life) => this.relays.streamsOf(life).map(({ id }) => id)),
    )
    for (const table of tables) {
      for (const { stream, lanes } of await shard.lanes(table)) {
        if (!owned.has(stream) || lanes.some((lane) => !current.has(lane))) return
      }
    }
    this.version += 1
    for (const name of names) this.time.after(this.draw.int(0, 8_000), () => this.relays.reload(name))
  }

  /** Another server takes writes: it has all, or what there was some time ago. */
  async promote(isBehind: boolean): Promise<void> {
    const [shard] = this.shards
    if (shard === undefined || this.#losses % 2 === 1) return
    this.promotions += 1
    if (isBehind) return this.#lose(shard, this.draw.int(100, 3_000), () => shard.promote(true))
    shard.link.cut()
    this.losses.add(await shard.promote(false))
    this.time.after(this.draw.int(0, 3_000), () => shard.link.heal())
  }

  /** Restores the same server now and then, to its state of some seconds ago: each relay gave several signs of life since. */
  async maybeRestore(): Promise<void> {
    const [shard] = this.shards
    if (shard === undefined || this.#losses % 2 === 1 || !this.#restoring.chance(restoresAtStep)) return
    this.restores += 1
    await this.#lose(shard, this.#restoring.int(3_000, 8_000), () => {
      this.sinks.forgetEpochs()
      this.time.after(lease, () => this.sinks.epochsCount())
      return shard.goBack()
    })
  }

  /**
   * The server that takes writes and a relay stand still together while another server is promoted. When they go on the
   * relay writes to that server for some time, and then finds the promoted one.
   */
  async maybeSplit(): Promise<void> {
    const [shard] = this.shards
    if (shard === undefined || this.#losses % 2 === 1 || !this.#splitting.chance(splitsAtStep)) return
    const machine = this.relays.lives.get(this.#splitting.pick(names))?.machine
    if (machine === undefined || machine.isFrozen) return
    this.splits += 1
    this.#losses += 1
    this.#leftBehind = machine
    machine.freeze()
    await shard.split()
    machine.isLeftBehind = true
    const until = this.#splitting.int(500, 15_000)
    this.time.after(until, () => machine.thaw())
    this.time.after(until + this.#splitting.int(500, 2_500), () => this.#meanwhile(() => this.#rejoin()))
  }

  async #rejoin(): Promise<void> {
    const machine = this.#leftBehind
    const [shard] = this.shards
    if (machine === undefined || shard === undefined) return
    this.#leftBehind = undefined
    machine.rejoin()
    this.#lost(await shard.endFormer())
  }

  #lost(loss: Loss): void {
    this.losses.add(loss)
    this.#losses += 1
    this.#lostAt = this.time.now
  }

  /** Brings the database back to its present state in `after` milliseconds. */
  async #lose(shard: Shard, after: number, restore: () => Promise<Loss>): Promise<void> {
    this.#losses += 1
    await shard.remember()
    this.time.after(after, () =>
      this.#meanwhile(async () => {
        shard.link.cut()
        this.#lost(await restore())
        this.time.after(this.draw.int(0, 3_000), () => shard.link.heal())
      }),
    )
  }

  /** No time passes until it is done. */
  #meanwhile(work: () => Promise<void>): void {
    this.time.asked += 1
    void work()
      .catch((error: unknown) => this.broken.add(`the simulation could not fail over: ${error}`))
      .finally(() => {
        this.time.asked -= 1
      })
  }

  // --- what must hold --------------------------------------------------------

  get missing(): ReadonlyArray<string> {
    const came = (sink: string, id: string) => this.sinks.arrivedAt(sink, id) > 0
    const arrived = (id: string) => {
      if (id.startsWith("guest-")) return came(guest, id) || came("plain", id)
      return came("plain", id) && (!id.startsWith("key_") || came("ordered", id))
    }
    return [...this.acknowledged].filter(
      (id) => !this.mayBeLost.has(id) && !this.operators.isExcused(id) && !arrived(id),
    )
  }

  /** Returns the false statements of relays, once all events have arrived. */
  async untrue(): Promise<ReadonlyArray<string>> {
    const letters = (await this.relays.ask((journal) => journal.deadLetters({ limit: 10_000 })))[0] ?? []
    const said = await this.relays.ask((journal) =>
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

  async pass(count: number): Promise<void> {
    for (let passed = 0; passed < count; passed++) {
      await this.time.pass(step)
      this.losses.hear(this.relays.alarms)
    }
  }

  /** The database will lose no more events, and relays have named the lost ones. */
  get isWhole(): boolean {
    return this.#losses % 2 === 0 && this.time.now - this.#lostAt > naming
  }

  /** Events that relays name as lost and that are not, and lost events that no relay names. */
  async misnamed(): Promise<ReadonlyArray<string>> {
    const [found] = await this.relays.ask((journal) => journal.events({ limit: 10_000 }))
    const kept = new Set(found?.events.map(({ event }) => event.id))
    const gone = [...this.mayBeLost].filter((id) => !kept.has(id))
    return this.losses.untrue(this.operators.isPruned || this.relays.ends > 0 ? 0 : gone.length)
  }

  /** The journal is red for nothing but a failover, and for nobody any more once it was acknowledged at one relay. */
  async alarms(): Promise<ReadonlyArray<string>> {
    const lines = async () => (await this.relays.ask(({ status }) => status)).flatMap(({ alarm }) => alarm.lines)
    const shown = (await lines()).filter((line) => !line.startsWith(more))
    const unexpected = shown.filter((line) => this.#losses === 0 || !line.startsWith("The database lost"))
    const life = [...this.relays.lives.values()].find(({ parts: [part] }) => part?.journal !== undefined)
    const journal = life?.parts[0]?.journal
    if (life === undefined || journal === undefined) return ["no relay runs"]
    let isAcknowledged = false
    const acknowledge = Effect.provideService(journal.acknowledge, Clock.Clock, life.machine.clock)
    void Effect.runPromise(Effect.result(acknowledge)).then(() => {
      isAcknowledged = true
    })
    // Time passes in steps, because the database's answers within a step arrive at its end.
    for (let passed = 0; passed < mending && !isAcknowledged; passed++) await this.pass(1)
    await this.pass(hearing)
    const left = await lines()
    const notes = new Set(await this.shards[0]?.auditNotes())
    return [
      ...unexpected,
      ...left.map((line) => `after it was acknowledged: ${line}`),
      ...shown.filter((line) => !notes.has(line)).map((line) => `not in the audit log: ${line}`),
    ].map((line) => `red: ${line}`)
  }

  async takeovers(): Promise<number> {
    const counts = await this.relays.ask(({ fleet }) =>
      Effect.map(fleet?.status ?? Effect.undefined, (status) => status?.counters.takeovers ?? 0),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }
}

/** Sends events and draws faults for one step. */
const disturb = async (play: Play, passed: number, databases: number): Promise<void> => {
  const { draw, senders } = play
  const isGrown = play.shards.length > databases
  for (let sent = draw.int(0, 3); sent > 0; sent--) senders.send(isGrown ? 2 * keys : keys)
  senders.sendPlain(passed)
  if (databases === 1) {
    if (draw.chance(0.3)) senders.sendGuest(passed)
    play.operators.act(() => senders.guests)
  }
  if (draw.chance(0.04)) play.harm()
  play.misreport()
  play.refuse()
  if (draw.chance(0.05)) senders.sendUnheld(passed)
  if (databases > 1 && draw.chance(0.015)) play.harmShard()
  if (databases > 1 && passed === steps / 2) await play.addShard()
  if (databases === 1 && draw.chance(0.1)) await play.rename()
  if (databases === 1 && draw.chance(0.01)) await play.promote(draw.chance(0.5))
  if (databases === 1) await play.maybeRestore()
  if (databases === 1) await play.maybeSplit()
}

/**
 * Simulates a fleet on the given number of databases of the server at `url`. Renames, operators and failovers need a
 * single database.
 */
export const simulate = async (url: string, seed: number, databases: number): Promise<Verdict> => {
  const play = new Play(seed, url)
  const reports: Array<string> = []
  const note = async (when: string) => {
    reports.push(...(await report(play.relays, play.shards)).map((line) => `${when}: ${line}`))
  }
  const pass = async () => {
    const wasBroken = play.broken.size > 0
    await play.pass(1)
    if (!wasBroken && play.broken.size > 0) await note("when it broke")
  }
  for (let made = 0; made < databases; made++) await play.addShard()
  for (const name of names) play.relays.start(name)
  for (let passed = 0; passed < steps; passed++) {
    await disturb(play, passed, databases)
    await pass()
  }
  for (let passed = 0; passed < mending; passed++) {
    await play.mend()
    await pass()
    if (passed > 20 && play.isWhole && play.missing.length === 0 && (await play.untrue()).length === 0) break
  }
  for (const text of await play.untrue()) play.broken.add(`in the end a relay says that ${text}`)
  for (const id of play.missing.slice(0, 3)) play.broken.add(`${id} did not arrive`)
  const takeovers = await play.takeovers()
  if (databases === 1) for (const text of [...(await play.alarms()), ...(await play.misnamed())]) play.broken.add(text)
  for (const { trespasses } of play.shards) for (const text of trespasses) play.broken.add(text)
  if (play.broken.size > 0) await note("in the end")
  await play.relays.end()
  return {
    acknowledged: play.acknowledged.size,
    lost: play.missing.length,
    repeated: play.sinks.repeated,
    takeovers,
    meanwhile: play.senders.meanwhile,
    renames: play.version,
    promotions: play.promotions,
    restores: play.restores,
    splits: play.splits,
    operations: play.operators.done,
    broken: [...play.broken],
    reports,
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
