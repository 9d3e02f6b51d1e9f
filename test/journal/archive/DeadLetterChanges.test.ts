import { expect, test } from "bun:test"
import { quarantine } from "../../../src/event/Event.ts"
import { splitLetters } from "../../../src/journal/archive/DeadLetterChanges.ts"
import { entryOf, forSeeds } from "../stream/policies.ts"

test("a letter of the quarantine is routed or stays; every other returns to its lane", () => {
  forSeeds(30, (random) => {
    const letters = Array.from({ length: 9 }, (_, index) => {
      const lane = random.below(2) === 0 ? quarantine : "lake"
      return {
        id: `${lane}:${index + 1}`,
        lane,
        sequence: index + 1,
        at: 1,
        attempts: [],
        entry: entryOf(random, index + 1),
      }
    })
    const routable = new Set(random.some(letters).map(({ entry }) => entry.event))
    const { own, routed } = splitLetters(letters, (event) =>
      routable.has(event) ? { event, sinks: ["mail"] } : undefined,
    )
    expect(own).toEqual(letters.filter(({ lane }) => lane !== quarantine))
    const found = letters.filter(({ lane, entry }) => lane === quarantine && routable.has(entry.event))
    expect(routed.map(({ letter, sinks }) => [letter, ...sinks])).toEqual(found.map((one) => [one, "mail"]))
    // Without routes a letter of the quarantine returns to the quarantine.
    expect(splitLetters(letters, undefined).own).toEqual(letters)
  })
})
