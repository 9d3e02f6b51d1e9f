import { expect } from "bun:test"
import { expire } from "../../../../src/delivery/Quarantine.ts"
import { quarantine } from "../../../../src/event/Event.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, letter, settlement } from "../../samples.ts"
import { relays } from "../relays.ts"

suiteUnless(reasonToSkip(), "the quarantine of several relays", () => {
  it.effect("deletes deliveries older than its age, whichever relay received them", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const [name, { journal }] of Object.entries({ a, b })) {
      yield* journal.openLane(quarantine)
      for (const at of [10, 20, 1_000, 1_001]) {
        yield* journal.append(event(`${name} ${at}`), [quarantine])
        const sequence = yield* journal.head
        const deadLetter = [{ ...letter(sequence), at }]
        yield* journal.settle([settlement(quarantine, sequence, { delivered: [], deadLetter })])
      }
    }
    expect(yield* expire(a.journal, 500)).toBe(4)
    const left = yield* a.journal.deadLetters({ lane: quarantine, limit: 9 })
    expect(left.map(({ entry }) => entry.event.id).sort()).toEqual(["a 1000", "a 1001", "b 1000", "b 1001"])
    expect(yield* expire(a.journal, 2_000)).toBe(4)
  })
})
