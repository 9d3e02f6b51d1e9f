/** A copy of journals whose logs have gaps. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { copyInto } from "../../../src/journal/archive/Copying.ts"
import type { CopiedEnd, CopiedStream, CopySource } from "../../../src/journal/JournalCopy.ts"
import { Origin } from "../../../src/journal/stream/Record.ts"
import { it } from "../../lib/effect.ts"
import * as MemoryJournal from "../MemoryJournal.ts"
import { attempts, event } from "../samples.ts"

const entry = (sequence: number, id: string) => ({ sequence, event: event(id), sinks: ["lake"], replayed: false })

/** Returns a stream whose events have the ids `1a`, `2a`, … in the stream `a`. */
const stream = (name: string, sequences: ReadonlyArray<number>, more: Partial<CopiedStream> = {}): CopiedStream => ({
  last: sequences.at(-1) ?? 0,
  rows: 1,
  lanes: [],
  events: (after) =>
    Effect.succeed(
      sequences
        .filter((sequence) => sequence > after)
        .map((sequence) => ({ entry: entry(sequence, `${sequence}${name}`), origin: Origin.delivered })),
    ),
  retries: () => Effect.succeed([]),
  letters: () => Effect.succeed([]),
  outcomes: () => Effect.succeed([]),
  ends: () => Effect.succeed([]),
  ...more,
})

const once =
  <A>(items: ReadonlyArray<A>) =>
  (after: unknown) =>
    Effect.succeed(after === 0 || (after as { readonly sequence: number }).sequence === 0 ? items : [])

const lane = (sequence: number, settled: ReadonlyArray<readonly [number, number]> = []) => ({
  ...{ name: "lake", cursor: { sequence, settled }, pausedFor: sequence },
})

const removed = (id: number, sequence: number, last: number): CopiedEnd => ({
  ...{ id, sequence, last, lane: "gone", at: 5, outcome: "laneRemoved", note: {} },
})

const copied = Effect.fnUntraced(function* (streams: ReadonlyArray<CopiedStream>) {
  const journal = MemoryJournal.make()
  const source: CopySource = {
    ...{ identity: "one", streams, erasures: "", paused: new Map(), damaged: () => 0 },
    ...{ imported: () => Effect.succeed([]), audit: () => Effect.succeed([]) },
  }
  yield* copyInto(journal.target(source), source, () => Effect.void)
  return journal
})

describe("a copy of logs with gaps", () => {
  it.effect("numbers the events of all streams without gaps, and keeps pending events", function* () {
    const journal = yield* copied([
      stream("a", [3, 4, 7, 8], { lanes: [lane(3, [[7, 7]])] }),
      stream("b", [5, 6], { lanes: [lane(5)] }),
    ])
    const entries = yield* journal.read(0, 10)
    expect(entries.map(({ event }) => event.id)).toEqual(["3a", "4a", "7a", "8a", "5b", "6b"])
    expect(entries.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6])
    const { cursor, pausedFor } = yield* journal.openLane("lake")
    expect({ cursor, pausedFor }).toEqual({
      cursor: {
        sequence: 1,
        settled: [
          [3, 3],
          [5, 5],
        ],
      },
      pausedFor: 5,
    })
  })

  it.effect("keeps a dead letter that is no longer in the log, and never sends it from the log", function* () {
    const letters = once([{ lane: "lake", at: 9, attempts, entry: entry(1, "pruned") }])
    const journal = yield* copied([stream("a", [3], { lanes: [lane(3)], letters })])
    const [letter] = yield* journal.deadLetters({ limit: 9 })
    expect([letter?.id, letter?.entry.event.id]).toEqual(["lake:2", "pruned"])
    expect((yield* journal.read(0, 9)).map(({ sinks }) => sinks)).toEqual([["lake"], []])
  })

  it.effect("reports the removed lane for its remaining events", function* () {
    const ends = once([removed(1, 2, 5), removed(2, 5, 6), removed(3, 7, 9)])
    const journal = yield* copied([stream("a", [3, 4, 7, 8], { ends })])
    const [first] = journal.source().streams
    const found = yield* first?.ends(0) ?? Effect.succeed([])
    expect(found.map(({ sequence, last }) => [sequence, last])).toEqual([
      [1, 2],
      [3, 4],
    ])
  })
})
