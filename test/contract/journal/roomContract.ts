/** The largest size of a journal. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import type { Event } from "../../../src/event/Event.ts"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { event, letter, settlement } from "../../journal/samples.ts"
import { type Create, lane, type Service, testWith } from "./sessions.ts"

const maxSize = 4_000_000

/** Appends events of 100 KB until one is refused. Returns the number of those that were stored. */
const fill = Effect.fnUntraced(function* (journal: Service) {
  yield* journal.openLane("lake")
  for (let count = 0; ; count++) {
    const large = event(`evt_${count}`, { body: new Uint8Array(100_000) })
    const appended = yield* Effect.result(journal.append(large, ["lake"]))
    if (appended._tag === "Success") continue
    expect(appended.failure.reason).toMatchObject({ _tag: "JournalFull", cause: "maxSize" })
    return count
  }
})

const undelivered = (sequence: number) => ({
  ...{ sequence, event: event(`other_${sequence}`), replayed: false, pending: ["lake"] },
})

const reroute = (event: Event) => ({ event, sinks: ["lake"] })

export const roomContract = (name: string, create: Create): void => {
  const test = testWith(create, maxSize)

  describe(`${name}: a full journal`, () => {
    test("refuses an operator's appends too, with the reason", function* (journal) {
      const count = yield* fill(journal)
      yield* journal.openLane("_quarantine")
      yield* journal.settle([settlement("_quarantine", 2, { delivered: [], deadLetter: [letter(2)] })])
      const { head } = yield* journal.status
      const changes: ReadonlyArray<readonly [change: Effect.Effect<unknown, JournalError>, said: string]> = [
        [journal.replay([{ sequence: 2, sinks: ["lake"] }]), "Nothing is replayed until there is."],
        [journal.replayDeadLetters(["_quarantine:2"], reroute), "0 dead letters were replayed, the others stay."],
        [journal.import("another", [undelivered(1)]), "What was imported stays; import the file again to go on."],
      ]
      for (const [change, said] of changes) {
        const refused = yield* Effect.orDie(Effect.flip(change))
        expect(refused.reason._tag).toBe("JournalUnavailable")
        expect(refused.message).toContain('"journal.maxSize"')
        expect(refused.message).toEndWith(said)
      }
      expect((yield* journal.status).head).toBe(head)
      expect(yield* lane(journal, "lake")).toMatchObject({ backlog: count })
      expect(yield* lane(journal, "_quarantine")).toMatchObject({ deadLetters: 1 })
    })

    test("lets an operator replay and drop dead letters", function* (journal) {
      yield* fill(journal)
      yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1), letter(2)] })])
      expect(yield* journal.replayDeadLetters(["lake:1"])).toBe(1)
      expect(yield* journal.dropDeadLetters(["lake:2"])).toBe(1)
    })
  })
}
