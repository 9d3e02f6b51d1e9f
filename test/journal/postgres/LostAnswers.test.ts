/**
 * Loses each answer of the database that an operation waits for, one at a time: before the statement was done, or
 * after. Then the connection is back, or it is refused until the operation has failed and is requested again.
 */
import { expect } from "bun:test"
import { Duration, Effect, Exit, Result, SubscriptionRef } from "effect"
import type { Log } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import type { Database } from "../../../src/journal/postgres/connection/Database.ts"
import { databaseError } from "../../../src/journal/postgres/connection/DatabaseError.ts"
import { sharedStream } from "../../../src/journal/Sequences.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip } from "../../parts/Postgres.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { meanwhile, relays, seconds } from "./relays.ts"

const lost = databaseError("unavailable", "PostgreSQL at db: the connection was lost", { isLost: true })
const refused = databaseError("misconfigured", "PostgreSQL at db: the password is wrong", { code: "28P01" })

/** The fate of the statement that is cut, and of the statements after it. */
interface Cut {
  readonly done: "before" | "after"
  readonly next: "back" | "refused"
}

const cuts: ReadonlyArray<Cut> = [
  { done: "before", next: "back" },
  { done: "after", next: "back" },
  { done: "after", next: "refused" },
]

type Fate = Cut["done"] | "refused"

/** Cuts one statement while it is armed. In a transaction it can cut each statement and the commit. */
class Cutter {
  #cut: Cut | undefined
  /** The number of statements before the cut. */
  #left = 0
  hasCut = false

  arm(cut: Cut, at: number): void {
    this.#cut = cut
    this.#left = at
    this.hasCut = false
  }

  disarm(): void {
    this.#cut = undefined
  }

  #next(): Fate | undefined {
    if (this.#cut === undefined) return undefined
    if (this.hasCut) return this.#cut.next === "refused" ? "refused" : undefined
    this.hasCut = this.#left-- === 0
    return this.hasCut ? this.#cut.done : undefined
  }

  readonly over = (db: Database): Database => {
    const asking: Database["query"] = (...all) =>
      Effect.suspend(() => {
        const cut = this.#next()
        if (cut === "refused") return Effect.fail(refused)
        if (cut === "before") return Effect.fail(lost)
        const query = db.query<never>(...all)
        return cut === "after" ? Effect.andThen(query, Effect.fail(lost)) : query
      })
    return {
      ...db,
      query: asking,
      queryUnsafe: async <Row>(...all: Parameters<Database["queryUnsafe"]>) => {
        const cut = all[0] === "beat" ? undefined : this.#next()
        if (cut === "refused") return Result.fail(refused)
        if (cut === "before") return Result.fail(lost)
        const answer = await db.queryUnsafe<Row>(...all)
        return cut === "after" && Result.isSuccess(answer) ? Result.fail(lost) : answer
      },
      transact: (work) =>
        Effect.suspend(() => {
          let ofCommit: Fate | undefined
          const cutting: Database["query"] = (...all) => this.#inside(() => inner.query<never>(...all))
          let inner: Parameters<typeof work>[0] = db
          return db
            .transact((queries) => {
              inner = queries
              return Effect.tap(work({ query: cutting }), () => {
                ofCommit = this.#next()
                if (ofCommit === "refused") return Effect.fail(refused)
                return ofCommit === "before" ? Effect.fail(lost) : Effect.void
              })
            })
            .pipe(Effect.flatMap((answer) => (ofCommit === "after" ? Effect.fail(lost) : Effect.succeed(answer))))
        }),
    }
  }

  /** A statement that is lost takes its transaction with it, whether it was done or not. */
  #inside<A, E>(query: () => Effect.Effect<A, E>) {
    const cut = this.#next()
    if (cut === "refused") return Effect.fail(refused)
    return cut === undefined ? query() : Effect.fail(lost)
  }
}

interface Operation {
  readonly name: string
  /** The number of entries that the event must have in the end. */
  readonly entries: number
  /**
   * The number of attempts that the event's dead letter must have in the end. If absent, there must be no dead letter.
   */
  readonly attempts?: number
  /** It is delivered in the end, after an attempt that failed. */
  readonly isLate?: boolean
  /** The event waits for a retry, and the log has been pruned of it. */
  readonly isPruned?: boolean
  readonly given?: (journal: WholeJournal, id: string) => Effect.Effect<unknown, unknown>
  /** `sequence` is the event's, if `given` has appended it. */
  readonly act: (journal: WholeJournal, id: string, sequence: number) => Effect.Effect<unknown, unknown>
}

const sequencesOf = (journal: WholeJournal, id: string) =>
  Effect.map(journal.events({ limit: 1_000, after: "" }), ({ events }) =>
    events.flatMap(({ event, sequence }) => (event.id === id ? [sequence] : [])),
  )

const logOf = (journal: WholeJournal, lane: string): Log => {
  const logs = journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)
  const shared = logs.find((log) => (log as Log & { id?: number }).id === sharedStream)
  return lane === "ordered" && shared !== undefined ? shared : journal
}

/** Settles an event alone, whatever else is there. */
const settled = (journal: WholeJournal, lane: string, sequence: number, more: object) =>
  logOf(journal, lane).settle([settlement(lane, sequence, { delivered: [], ...more })])

const operationsOn = (lane: string): ReadonlyArray<Operation> => {
  const append = (journal: WholeJournal, id: string) => journal.append(event(id), [lane])
  const die: Operation["act"] = (journal, _, sequence) =>
    settled(journal, lane, sequence, { deadLetter: [letter(sequence)] })
  const appended = (act: Operation["act"]) => (journal: WholeJournal, id: string) =>
    Effect.gen(function* () {
      yield* append(journal, id)
      yield* act(journal, id, (yield* sequencesOf(journal, id))[0] ?? 0)
    })
  const wait: Operation["act"] = (journal, id, sequence) =>
    Effect.gen(function* () {
      // The lane reads the event first, so from then on it is not in memory.
      yield* logOf(journal, lane).read(sequence - 1, 10, lane)
      yield* settled(journal, lane, sequence, { retry: [retrying(sequence)] })
      yield* append(journal, `${id} behind`)
    })
  return [
    { name: `an append for ${lane}`, entries: 1, act: append },
    {
      name: `a replay to ${lane}`,
      entries: 2,
      given: append,
      act: (journal, _, sequence) => journal.replay([{ sequence, sinks: [lane] }]),
    },
    {
      name: `a dead letter of ${lane} that is replayed`,
      entries: 1,
      given: appended(die),
      act: (journal, _, sequence) => journal.replayDeadLetters([`${lane}:${sequence}`]),
    },
    {
      name: `an import for ${lane}`,
      entries: 1,
      act: (journal, id) => {
        const sequence = Number(id.replaceAll(/\D/g, "")) + 1
        return journal.import("another", [{ sequence, event: event(id), replayed: false, pending: [lane] }])
      },
    },
    { name: `an event of ${lane} that becomes a dead letter`, entries: 1, attempts: 1, given: append, act: die },
    {
      name: `a retry of ${lane} that becomes a dead letter, of which the log was pruned`,
      entries: 1,
      attempts: 2,
      isPruned: true,
      given: appended(wait),
      act: die,
    },
    {
      name: `a retry of ${lane} that is delivered`,
      entries: 1,
      isLate: true,
      given: appended(wait),
      act: (journal, _, sequence) => {
        const late = [{ sequence, attempts: 2, at: 20, took: 3, refunded: 0, failed: [] }]
        return settled(journal, lane, sequence, { endRetry: [sequence], late })
      },
    },
  ]
}

interface Stage {
  readonly journal: WholeJournal
  readonly cutter: Cutter
  readonly sql: (text: string) => Effect.Effect<ReadonlyArray<Record<string, unknown>>>
}

/** Tries one cut of an operation. Returns whether the operation had a statement to cut. */
const tryCut = (
  { journal, cutter, sql }: Stage,
  { entries, attempts = 0, isLate = false, isPruned = false, given, act }: Operation,
  cut: Cut,
  at: number,
) =>
  Effect.gen(function* () {
    const id = `${cut.done} ${cut.next} ${1_000 * cuts.indexOf(cut) + at}`
    if (given !== undefined) yield* given(journal, id)
    const letterOf = Effect.map(journal.deadLetters({ limit: 1_000 }), (letters) =>
      letters.filter(({ entry }) => entry.event.id === id),
    )
    const sequence = (yield* sequencesOf(journal, id))[0] ?? 0
    const inLog = sql(`SELECT FROM relay.log WHERE first = ${sequence}`)
    while (isPruned && (yield* inLog).length > 0) yield* seconds(1)
    cutter.arm(cut, at)
    let exit = yield* meanwhile(Effect.exit(act(journal, id, sequence)))
    cutter.disarm()
    // No earlier commit has stored the event. Only an earlier attempt of its own commit may have.
    expect([id, Exit.isSuccess(exit) && exit.value]).not.toEqual([id, "duplicate"])
    // A refused sender tries again. A person first checks the result.
    while (Exit.isFailure(exit)) {
      yield* seconds(1)
      if (entries > 1 && (yield* sequencesOf(journal, id)).length === entries) break
      exit = yield* Effect.exit(act(journal, id, sequence))
    }
    const probe = `probe ${id}`
    while (Exit.isFailure(yield* Effect.exit(journal.append(event(probe), ["lake"])))) yield* seconds(1)
    const letters = yield* letterOf
    const late = yield* sql(`SELECT note FROM relay.ended WHERE sequence = ${sequence} AND outcome = 'delivered'`)
    expect({
      id,
      entries: (yield* sequencesOf(journal, id)).length,
      probes: (yield* sequencesOf(journal, probe)).length,
      letters: letters.length,
      attempts: letters.flatMap(({ attempts }) => attempts).length,
      late: late.map(({ note }) => JSON.parse(String(note)).attempts.length),
      message: (yield* journal.status).message,
    }).toEqual({
      ...{ id, entries, probes: 1, attempts, message: "" },
      letters: attempts > 0 ? 1 : 0,
      late: isLate ? [1] : [],
    })
    return cutter.hasCut
  })

suiteUnless(reasonToSkip(), "an answer of the database that is lost", () => {
  for (const operation of ["lake", "ordered"].flatMap(operationsOn)) {
    it.effect(
      `costs nothing, and repeats nothing: ${operation.name}`,
      function* () {
        const cutter = new Cutter()
        const { start, sql } = yield* relays
        const { journal } = yield* start("a", operation.isPruned ? Duration.seconds(1) : undefined, cutter.over)
        yield* journal.openLane("lake")
        yield* seconds(1)
        yield* logOf(journal, "ordered").openLane("ordered", { exclusive: true })
        for (const cut of cuts) {
          let at = 0
          while (yield* tryCut({ journal, cutter, sql }, operation, cut, at)) at += 1
        }
      },
      120_000,
    )
  }
})
