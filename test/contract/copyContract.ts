/** Copies between all pairs of journal types keep everything that the source keeps. */
import { expect } from "bun:test"
import { Effect, type Scope } from "effect"
import { quarantine } from "../../src/event/Event.ts"
import { copyInto } from "../../src/journal/archive/Copying.ts"
import { collect } from "../../src/journal/EventQuery.ts"
import type { JournalError } from "../../src/journal/Journal.ts"
import type { CopySource, CopyTarget } from "../../src/journal/JournalCopy.ts"
import { MaintenanceError } from "../../src/journal/JournalError.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"
import { letter, event as old, retrying, settlement } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { operation } from "./journal/auditContract.ts"

/** A journal that is copied. */
export interface CopiedJournal {
  /** Opens the journal, uses it, and closes it. */
  readonly use: <A>(work: (journal: WholeJournal) => Effect.Effect<A, JournalError>) => Effect.Effect<A, JournalError>
  readonly source: Effect.Effect<CopySource, MaintenanceError, Scope.Scope>
  readonly target: (source: CopySource) => Effect.Effect<CopyTarget, MaintenanceError, Scope.Scope>
}

export const event = (id: string) => old(id, { receivedAt: Date.now() })
const encoded = (text: string) => new TextEncoder().encode(text)

/** Returns a journal's report of all that it keeps, without sequences. */
export const account = Effect.fnUntraced(function* (journal: WholeJournal) {
  const { events } = yield* collect({ limit: 100 }, journal.events)
  const letters = yield* journal.deadLetters({ limit: 100 })
  const lanes = yield* journal.lanes
  const idOf = new Map(events.map(({ sequence, event, origin }) => [sequence, `${event.id}, ${origin}`]))
  const isPending = ({ outcome }: { readonly outcome: string }) => outcome === "pending"
  return {
    events: events
      .map(({ event, origin, deliveries, copyOf, copies = [] }) => ({
        id: event.id,
        altered: event.altered ?? false,
        origin,
        copyOf: copyOf && { ...copyOf, sequence: idOf.get(copyOf.sequence) },
        copies: copies.map((link) => ({ ...link, sequence: idOf.get(link.sequence) })),
        deliveries: deliveries
          .map(({ copy, ...one }) => (copy === undefined ? one : { ...one, copy: idOf.get(copy) }))
          .toSorted((a, b) => a.sink.localeCompare(b.sink)),
      }))
      .toSorted((a, b) => `${a.id} ${a.altered} ${a.origin}`.localeCompare(`${b.id} ${b.altered} ${b.origin}`)),
    pending: events
      .filter(({ deliveries }) => deliveries.some(isPending))
      .toSorted((a, b) => a.sequence - b.sequence)
      .map(({ sequence }) => idOf.get(sequence)),
    letters: letters.map(({ lane, at, attempts, entry }) => ({
      lane,
      at,
      attempts,
      id: entry.event.id,
      body: Buffer.from(entry.event.body).toString(),
    })),
    audit: (yield* journal.audit.list({ limit: 1_000 })).map(({ id: _, ...record }) => record),
    lanes: lanes
      .map(({ name, backlog, retrying, returned, deadLetters, paused, mute }) => ({
        ...{ name, backlog, retrying, returned, deadLetters, paused, mute },
      }))
      .toSorted((a, b) => a.name.localeCompare(b.name)),
  }
})

/** More than a page of a copy. */
export const operations = 70

/** An undelivered event of another journal. */
export const another = { sequence: 9, event: event("another"), replayed: false, pending: ["lake"] }

const mute = { from: 1, until: 1_800_000_000_000, ending: "digest", by: "alice" } as const

/** The counts of a copy of a filled journal. */
export const filled = { events: 13, retries: 2, deadLetters: 2 }

/**
 * Fills a journal: with events that are delivered, pending behind a delivered one, retrying, dead, replayed, dropped,
 * altered, quarantined, moved and imported. One lane is paused, and another was removed.
 */
export const fill = Effect.fnUntraced(function* (journal: WholeJournal) {
  for (const lane of ["lake", "audit"]) yield* journal.openLane(lane)
  for (const id of ["a", "b", "c", "d", "e", "f"]) yield* journal.append(event(id), ["lake", "audit"])
  yield* journal.append({ ...event("a"), body: encoded("other") }, ["lake"])
  yield* journal.append({ ...event("strange"), problem: "it is strange" }, [quarantine])
  yield* journal.append(event("given-up"), ["gone"])
  yield* journal.append(event("moved"), ["former"])
  const letters = { retry: [retrying(2, "key")], deadLetter: [letter(3), letter(1), letter(6)] }
  yield* journal.settle([
    settlement("audit", 7),
    settlement("lake", 3, { ...letters, cursor: { sequence: 3, settled: [[5, 6]] }, pausedFor: 7 }),
    settlement(quarantine, 8, { delivered: [], deadLetter: [letter(8)] }),
  ])
  yield* journal.replayDeadLetters(["lake:1"])
  yield* journal.dropDeadLetters(["lake:6"])
  yield* journal.dropLane("gone")
  yield* journal.moveLane("former", "lake")
  yield* journal.replay([{ sequence: 4, sinks: ["lake"] }])
  for (const lane of ["lake", "audit"]) yield* journal.setPaused(lane, mute.until, mute)
  // The mute of a pause that has ended is kept.
  yield* journal.endPause("lake", mute.until)
  expect(yield* journal.import("another", [another])).toMatchObject({ pending: 1 })
  for (let index = 0; index < operations; index++) yield* journal.audit.record(operation({ on: `lake${index}` }))
})

export const copy = (from: CopiedJournal, to: CopiedJournal, change = (source: CopySource) => source) =>
  Effect.scoped(
    Effect.gen(function* () {
      const source = yield* from.source
      return yield* copyInto(yield* to.target(source), change(source), () => Effect.void)
    }),
  )

/** Returns the retries without sequences, and the milliseconds that each lane was paused. */
const waits = ({ source }: CopiedJournal) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { streams } = yield* source
      const retries = yield* Effect.forEach(streams, ({ retries }) => retries({ lane: "", sequence: 0 }))
      const paused = new Map<string, number>()
      for (const { name, pausedFor } of streams.flatMap(({ lanes }) => lanes)) {
        paused.set(name, Math.max(pausedFor, paused.get(name) ?? 0))
      }
      const ofRetries = retries.flat().map(({ sequence: _, entry, ...wait }) => ({ ...wait, id: entry.event.id }))
      return { retries: ofRetries.toSorted((a, b) => a.id.localeCompare(b.id)), paused: [...paused].toSorted() }
    }),
  )

/** Returns a source that gives `size` events at a time, and fails after the event `last`. */
export const cutOff =
  (size: number, last: number) =>
  (source: CopySource): CopySource => ({
    ...source,
    streams: source.streams.map((stream) => ({
      ...stream,
      events: (after) =>
        after > last
          ? Effect.fail(new MaintenanceError({ message: "cut off" }))
          : Effect.map(stream.events(after), (stored) => stored.slice(0, size)),
    })),
  })

/** Waits until the relay owns everything of a journal that was copied. */
export const adopted = Effect.fnUntraced(function* (journal: WholeJournal, backlog: number) {
  for (;;) {
    const lanes = yield* journal.lanes
    if (lanes.find(({ name }) => name === "lake")?.backlog === backlog) return
    yield* Effect.sleep("20 millis")
  }
})

const backlogOf = ({ lanes }: Effect.Success<ReturnType<typeof account>>) =>
  lanes.find(({ name }) => name === "lake")?.backlog ?? 0

type Types = Readonly<Record<string, () => CopiedJournal>>

/** Tests copies from each of some types of journals to each of others. */
export const copyContract = (sources: Types, targets: Types): void => {
  for (const [from, createFrom] of Object.entries(sources)) {
    for (const [to, createTo] of Object.entries(targets)) {
      const pair = `${from} to ${to}`
      it.live(
        `a copy from ${pair} keeps everything, and so does the next copy`,
        function* () {
          const [first, second, third] = [createFrom(), createTo(), createTo()]
          const before = yield* first.use((journal) => Effect.andThen(fill(journal), account(journal)))
          expect(yield* copy(first, second)).toEqual({ ...filled, known: 0 })
          const between = yield* second.use((journal) =>
            Effect.gen(function* () {
              yield* adopted(journal, backlogOf(before))
              const found = yield* account(journal)
              expect(yield* journal.append(event("f"), ["lake", "audit"])).toBe("duplicate")
              expect(yield* journal.import("another", [another])).toMatchObject({ pending: 0, known: 1 })
              yield* journal.append(event("late"), ["lake", "audit"])
              return found
            }),
          )
          expect(between).toEqual(before)
          expect(yield* waits(second)).toEqual(yield* waits(first))
          const late = yield* second.use((journal) =>
            Effect.andThen(adopted(journal, backlogOf(before) + 1), account(journal)),
          )
          expect(yield* copy(second, third)).toEqual({ ...filled, events: filled.events + 1, known: 0 })
          expect(
            yield* third.use((journal) => Effect.andThen(adopted(journal, backlogOf(late)), account(journal))),
          ).toEqual(late)
        },
        60_000,
      )

      it.live(
        `an interrupted copy from ${pair} continues, and restarts if events were erased`,
        function* () {
          const [first, second, third] = [createFrom(), createTo(), createTo()]
          const before = yield* first.use((journal) => Effect.andThen(fill(journal), account(journal)))
          for (const target of [second, third]) {
            expect((yield* Effect.flip(copy(first, target, cutOff(3, 5)))).message).toBe("cut off")
          }
          expect(yield* copy(first, second)).toEqual({ ...filled, events: filled.events - 6, known: 6 })
          const found = yield* second.use((journal) =>
            Effect.andThen(adopted(journal, backlogOf(before)), account(journal)),
          )
          expect(found).toEqual(before)
          const erased = (journal: WholeJournal) =>
            Effect.map(collect({ limit: 100 }, journal.events), ({ events }) =>
              events.filter(({ event }) => event.erased !== undefined).map(({ event }) => event.id),
            )
          yield* first.use((journal) =>
            Effect.gen(function* () {
              const { events } = yield* collect({ id: "b", limit: 9 }, journal.events)
              const sequences = events.map(({ sequence }) => sequence)
              expect((yield* journal.erase(sequences, true)).erased).toEqual(sequences)
            }),
          )
          expect(yield* copy(first, third)).toMatchObject({ events: filled.events, known: 0 })
          expect(
            yield* third.use((journal) => Effect.andThen(adopted(journal, backlogOf(before) - 1), erased(journal))),
          ).toEqual(["b"])
        },
        60_000,
      )
    }
  }
}
