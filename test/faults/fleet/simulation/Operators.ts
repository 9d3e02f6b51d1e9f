/**
 * Operators of a simulated fleet. By seed they pause and resume lanes, replay events, replay and drop dead letters,
 * import events of another journal, move or drop a lane without a sink, and acknowledge alarms. They do so at any
 * relay, at the same time as everything else that happens to the fleet.
 *
 * They remember their requests. If an answer never came, or a failover may have undone it, either outcome is accepted.
 */
import { Cause, Effect, Exit } from "effect"
import type { Lanes } from "../../../../src/delivery/Lanes.ts"
import type { Archive, DeliveryStatus, FoundEvent } from "../../../../src/journal/Archive.ts"
import type { StoredDeadLetter } from "../../../../src/journal/Journal.ts"
import { event } from "../../../journal/samples.ts"
import { Draw } from "../../simulation/Draw.ts"

/** The sink that comes and goes with the version of the config. */
export const guest = "guest"
export const hasGuest = (version: number): boolean => version % 3 !== 2

/** A relay that an operator can ask. */
export interface Desk {
  readonly archive: Archive["Service"]
  readonly lanes: Lanes["Service"]
  /** The name of the plain sink in its config. */
  readonly plain: string
  readonly run: <A>(question: Effect.Effect<A, unknown>) => Promise<Exit.Exit<A, unknown>>
}

/** The fleet as the operators see it. */
export interface Stage {
  readonly desk: () => Desk | undefined
  /** Every relay runs by the newest config, and that has no guest. */
  readonly isGuestGone: () => boolean
  /** Odd while a failover may lose stored events, and a new number after it did. */
  readonly losses: () => number
  readonly after: (millis: number, run: () => void) => void
  /** Events that a relay has accepted, or that a failover may have lost. */
  readonly accept: (id: string, isBound: boolean) => void
  readonly arrivedAt: (sink: string, id: string) => number
  readonly broken: Set<string>
}

export class Operators {
  readonly #draw: Draw
  readonly #stage: Stage
  /** By event, whether the plain sink rejects it. */
  readonly #rejected = new Map<string, boolean>()
  /** Dead letters that operators asked to be dropped, or replayed, by event. */
  readonly #dropped = new Set<string>()
  readonly #replayed = new Set<string>()
  /** By event, how many replays the journal has stored for good. */
  readonly #replays = new Map<string, number>()
  #imports = 0
  done = 0
  /** Whether the journal is pruned all the time. */
  readonly isPruned: boolean

  constructor(seed: number, stage: Stage) {
    this.#draw = new Draw(seed, "operators")
    this.#stage = stage
    this.isPruned = this.#draw.chance(0.3)
  }

  /** How long the journal keeps what every sink has, in milliseconds. */
  get retention(): number {
    return this.isPruned ? 2_000 : 7 * 24 * 3_600_000
  }

  /** Whether the plain sink rejects an event: always the same, until an operator has replayed the dead letter. */
  rejects(id: string): boolean {
    const known = this.#rejected.get(id)
    const rejects = known ?? this.#draw.chance(0.04)
    this.#rejected.set(id, rejects)
    return rejects && !this.#replayed.has(id)
  }

  /**
   * Reports whether an event need not arrive: the sink rejected it, or an operator dropped it. `unaccounted` checks its
   * present state.
   */
  isExcused(id: string): boolean {
    return this.#rejected.get(id) === true || this.#dropped.has(id)
  }

  act(guests: () => ReadonlyArray<string>): void {
    if (!this.#draw.chance(0.15)) return
    const desk = this.#stage.desk()
    if (desk === undefined) return
    const what = this.#draw.next()
    if (what < 0.2) this.#pause(desk)
    else if (what < 0.4) this.#replay(desk)
    else if (what < 0.65) this.#settleLetter(desk)
    else if (what < 0.8) this.#import(desk)
    else if (what < 0.9) this.#ask(desk, desk.archive.acknowledge)
    else if (this.#stage.isGuestGone()) this.#endGuest(desk, guests())
  }

  /** Every lane that is paused goes on. */
  resume(): void {
    const desk = this.#stage.desk()
    if (desk === undefined) return
    this.#ask(
      desk,
      Effect.flatMap(desk.archive.lanes, (lanes) =>
        Effect.forEach(
          lanes.filter(({ paused }) => paused),
          ({ name }) => desk.lanes.resume(name),
        ),
      ),
    )
  }

  /** `then` hears the answer, and whether no failover can have undone it. */
  #ask<A>(desk: Desk, question: Effect.Effect<A, unknown>, then: (answer: A, isBound: boolean) => void = () => {}) {
    const before = this.#stage.losses()
    void desk.run(question).then((exit) => {
      if (Exit.isSuccess(exit)) {
        this.done += 1
        then(exit.value, before % 2 === 0 && before === this.#stage.losses())
      } else if (Cause.hasDies(exit.cause)) this.#stage.broken.add(`an operator met a bug: ${Cause.pretty(exit.cause)}`)
    })
  }

  #pause(desk: Desk): void {
    this.#ask(desk, desk.lanes.pause(desk.plain))
    this.#stage.after(this.#draw.int(500, 8_000), () => this.resume())
  }

  #replay(desk: Desk): void {
    const at = this.#draw.next()
    const question = Effect.gen(function* () {
      const { events } = yield* desk.archive.events({ limit: 30 })
      const delivered = events.filter(({ deliveries }) =>
        deliveries.some(({ sink, outcome }) => sink === desk.plain && outcome === "delivered"),
      )
      const found = delivered[Math.floor(at * delivered.length)]
      if (found === undefined) return undefined
      const { done, gone } = yield* desk.archive.replay([{ sequence: found.sequence, sinks: [desk.plain] }])
      return { id: found.event.id, count: done - gone.length }
    })
    this.#ask(desk, question, (answer, isBound) => {
      if (answer !== undefined && isBound) this.#count(answer.id, answer.count)
    })
  }

  #count(id: string, replays: number): void {
    this.#replays.set(id, (this.#replays.get(id) ?? 0) + replays)
  }

  /** Replays or drops a dead letter. */
  #settleLetter(desk: Desk): void {
    const at = this.#draw.next()
    const isDropped = this.#draw.chance(0.4)
    const question = Effect.gen({ self: this }, function* () {
      const letters = yield* desk.archive.deadLetters({ limit: 50 })
      const letter = letters[Math.floor(at * letters.length)]
      if (letter === undefined) return undefined
      const { id } = letter.entry.event
      if (isDropped) {
        this.#dropped.add(id)
        yield* desk.archive.dropDeadLetters([letter.id])
        return undefined
      }
      this.#replayed.add(id)
      return { id, count: yield* desk.archive.replayDeadLetters([letter.id]) }
    })
    this.#ask(desk, question, (answer, isBound) => {
      // The event had not arrived before, so its first arrival comes from a replay.
      if (answer !== undefined && isBound) this.#count(answer.id, answer.count - 1)
    })
  }

  /** Imports events for the plain sink, and the same once more at another relay. */
  #import(desk: Desk): void {
    const events = Array.from({ length: this.#draw.int(1, 3) }, () => {
      const sequence = ++this.#imports
      return { sequence, event: event(`import-${sequence}`), replayed: false }
    })
    const to = ({ archive, plain }: Desk) =>
      archive.import(
        "another",
        events.map((event) => ({ ...event, pending: [plain] })),
      )
    this.#ask(desk, to(desk), (_, isBound) => {
      for (const { event } of events) this.#stage.accept(event.id, isBound)
    })
    this.#stage.after(this.#draw.int(0, 5_000), () => {
      const other = this.#stage.desk()
      if (other !== undefined) this.#ask(other, to(other))
    })
  }

  /** The guest's lane has no sink in any config: its events are moved to the plain sink, or given up. */
  #endGuest(desk: Desk, guests: ReadonlyArray<string>): void {
    if (this.#draw.chance(0.5)) {
      this.#ask(desk, desk.lanes.move(guest, desk.plain))
      return
    }
    for (const id of guests) if (this.#stage.arrivedAt(guest, id) === 0) this.#dropped.add(id)
    this.#ask(desk, desk.lanes.drop(guest))
  }

  /** Returns the false outcomes among `events`, as a relay reports them. `letters` are the existing dead letters. */
  untrue(events: ReadonlyArray<FoundEvent>, letters: ReadonlyArray<StoredDeadLetter>): ReadonlyArray<string> {
    const dead = new Set(letters.map(({ id }) => id))
    return events.flatMap(({ sequence, event: { id }, deliveries }) =>
      deliveries.flatMap((delivery) =>
        this.#isTrue(id, delivery, dead.has(`${delivery.sink}:${sequence}`))
          ? []
          : [`${id} (${sequence}) is ${delivery.outcome} at ${delivery.sink}`],
      ),
    )
  }

  #isTrue(id: string, { sink, outcome }: DeliveryStatus, isDead: boolean): boolean {
    switch (outcome) {
      case "delivered":
        return this.#stage.arrivedAt(sink, id) > 0 && !isDead
      case "dead":
        return isDead
      case "dropped":
        return this.#dropped.has(id) && !isDead
      case "replayed":
        return this.#replayed.has(id) && !isDead
      case "moved":
      case "unrecorded":
        return !isDead
      case "laneRemoved":
        // An event may have arrived before the lane was removed, and its relay have crashed before it stored that.
        return sink !== guest || this.#dropped.has(id) || this.#stage.arrivedAt(sink, id) > 0
      default:
        return false
    }
  }

  /**
   * Returns the events that neither arrived nor are dead letters nor were dropped, and replayed events that did not
   * arrive again.
   */
  unaccounted(accepted: Iterable<string>, letters: ReadonlyArray<StoredDeadLetter>): ReadonlyArray<string> {
    const dead = new Set(letters.map(({ entry }) => entry.event.id))
    const arrived = (id: string) => this.#stage.arrivedAt("plain", id) + this.#stage.arrivedAt(guest, id)
    return [...accepted].flatMap((id) => {
      if (arrived(id) === 0 && !dead.has(id) && !this.#dropped.has(id)) {
        return [`${id} has not arrived, is no dead letter, and nobody dropped it`]
      }
      const replays = this.#replays.get(id) ?? 0
      return replays >= arrived(id) && !dead.has(id) && replays > 0
        ? [`${id} was replayed ${replays} times and arrived ${arrived(id)} times`]
        : []
    })
  }
}
