/**
 * The operator at the command line: pauses and resumes lanes, replays, works on
 * dead letters, and in the end makes every lane run.
 */
import { Effect, type Semaphore } from "effect"
import type { LaneStatus } from "../../../src/delivery/LaneStatus.ts"
import { Lanes } from "../../../src/delivery/Lanes.ts"
import { quarantine } from "../../../src/event/Event.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { whole } from "../../journal/whole.ts"
import type { Draw } from "./Draw.ts"
import { learnBounds } from "./Life.ts"
import type { Oracle } from "./Oracle.ts"
import type { SimulatedSink } from "./Sinks.ts"

export interface OperatorOptions {
  readonly draw: Draw
  readonly oracle: Oracle
  /** The sinks in the config as it is now. */
  readonly sinks: () => ReadonlyArray<SimulatedSink>
  /** Whether a sink of the config had this name before. */
  readonly isRenamed: (name: string) => boolean
  /**
   * Held while a config is loaded: events replayed meanwhile might have moved on before the oracle has heard of them.
   */
  readonly oneAtATime: Semaphore.Semaphore
  /** The relay died: its answer reaches nobody. */
  readonly isDead: () => boolean
}

/** Replays all events of a type to a sink, up to the present end of the log. */
const replayOf = Effect.fnUntraced(function* (journal: WholeJournal, type: string, sink: string) {
  const end = yield* journal.head
  let count = 0
  for (let after = 0; after < end; ) {
    const entries = yield* journal.read(after, 100)
    after = entries.at(-1)?.sequence ?? end
    let targets = entries
      .filter(({ sequence, event, replayed }) => sequence <= end && !replayed && event.problem === undefined)
      .filter(({ event }) => event.type === type)
      .map(({ sequence }) => ({ sequence, sinks: [sink] }))
    while (targets.length > 0) {
      const { done, gone } = yield* journal.replay(targets)
      count += done - gone.length
      targets = targets.slice(done)
    }
  }
  return count
})

/** One act of the operator, now and then. */
export const act = Effect.fnUntraced(function* ({
  draw,
  oracle,
  sinks,
  isRenamed,
  oneAtATime,
  isDead,
}: OperatorOptions) {
  const answered = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.tap(effect, () => (isDead() ? Effect.never : Effect.void))
  const journal = yield* whole
  const lanes = yield* Lanes
  const there = sinks()
  const sink = there[draw.int(0, there.length - 1)]
  if (sink === undefined) return
  const { name } = sink

  /** Entries that a replay appends above `head` are promised. */
  const replaying = Effect.fnUntraced(function* (replay: Effect.Effect<number, unknown>) {
    const head = yield* journal.head
    const count = yield* answered(replay)
    const entries = (yield* journal.read(head, count + 1_000)).filter(({ replayed }) => replayed)
    for (const entry of entries) for (const to of entry.sinks) oracle.replayed(entry, to)
    oracle.note(`the operator replays: ${count} events`)
  }, oneAtATime.withPermit)
  const some = Effect.gen(function* () {
    const letters = yield* journal.deadLetters({ limit: 20 })
    return letters.filter(() => draw.chance(0.5))
  })

  switch (
    draw.pick([
      "pause",
      "resume",
      "resume",
      "replay",
      "replay dead letters",
      "drop dead letters",
      "move orphans",
    ] as const)
  ) {
    case "pause":
      if (yield* answered(lanes.pause(name))) sink.paused = true
      return oracle.note(`the operator pauses ${name}`)
    case "resume":
      sink.paused = false
      sink.resumes += 1
      yield* lanes.resume(name)
      return oracle.note(`the operator resumes ${name}`)
    case "replay": {
      const type = draw.pick(["appointment.created", "client.updated"] as const)
      oracle.asked(type, name)
      return yield* replaying(replayOf(journal, type, name))
    }
    case "replay dead letters": {
      const letters = yield* some
      for (const { lane, sequence } of letters) oracle.replayedDeadLetter(lane, sequence)
      return yield* replaying(journal.replayDeadLetters(letters.map(({ id }) => id)))
    }
    case "drop dead letters": {
      const letters = yield* some
      for (const { lane, entry } of letters) oracle.droppedLetter(lane, entry.event)
      yield* journal.dropDeadLetters(letters.map(({ id }) => id))
      return
    }
    case "move orphans":
      for (const { name, condition, backlog } of yield* lanes.status) {
        if (condition === "orphaned") yield* moveOrDrop(name, backlog, { draw, oracle, sinks, isRenamed })
      }
  }
})

type Moving = Pick<OperatorOptions, "draw" | "oracle" | "sinks" | "isRenamed">

/**
 * Makes every lane run: those that are stopped are resumed, those without a sink are moved or dropped. A lane that
 * recovers by itself is only resumed by an `impatient` operator: resumed again and again it starts with the same
 * events each time, and never comes to others.
 */
export const runAll = Effect.fnUntraced(function* ({ draw, oracle, sinks, isRenamed }: Moving, impatient: boolean) {
  const lanes = yield* Lanes
  for (const { name, condition, backlog } of yield* lanes.status) {
    if (condition === "orphaned") yield* moveOrDrop(name, backlog, { draw, oracle, sinks, isRenamed })
    else if (impatient ? condition !== "running" || backlog > 0 : condition !== "running" && condition !== "waiting") {
      const sink = sinks().find((one) => one.name === name)
      if (sink !== undefined) sink.paused = false
      yield* lanes.resume(name)
    }
  }
})

const moveOrDrop = Effect.fnUntraced(function* (name: string, backlog: number, moving: Moving) {
  const { draw, oracle, sinks, isRenamed } = moving
  const lanes = yield* Lanes
  // The next reload or start takes its events along.
  if (isRenamed(name)) return
  const present = new Set((yield* lanes.status).map((lane) => lane.name))
  const names = oracle.moves.namesOf(name, (other) => present.has(other))
  const there = sinks()
  const target = there[draw.int(0, there.length - 1)]
  if (target === undefined || draw.chance(0.3)) {
    oracle.note(`the operator drops the lane ${name}`)
    for (const promised of names) oracle.moves.gaveUp(promised)
    yield* lanes.drop(name)
  } else {
    oracle.note(`the operator moves ${backlog} events of ${name} to ${target.name}`)
    for (const promised of names) oracle.moves.moved(promised, target.name, true)
    yield* lanes.move(name, target.name)
  }
})

/** Returns the lanes' states, as a scrape sees them. The oracle also learns bounds from them. */
export const look = Effect.fnUntraced(function* (oracle: Oracle) {
  const statuses = yield* (yield* Lanes).status
  learnBounds(oracle, statuses)
  return statuses
})

export const isQuiet = (statuses: ReadonlyArray<LaneStatus>): boolean =>
  statuses.every(({ name, condition, backlog }) => backlog === 0 && (condition === "running" || name === quarantine))
