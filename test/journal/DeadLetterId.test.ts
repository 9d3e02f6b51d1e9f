import { expect, test } from "bun:test"
import { letterId, parseLetterId } from "../../src/journal/LaneInfo.ts"

test("an id is split into the lane and the sequence that it was made of", () => {
  for (const lane of ["lake", "_quarantine", "a:1", "eu:lake"]) {
    for (const sequence of [1, 42, Number.MAX_SAFE_INTEGER]) {
      expect(parseLetterId(letterId(lane, sequence))).toEqual({ lane, sequence })
    }
  }
})

test("a text that isn't an id is not split", () => {
  for (const text of [undefined, "", "lake", "lake:", ":1", "lake:0", "lake:007", "lake:-1", "lake:1.5", "lake:1 "]) {
    expect(parseLetterId(text)).toBeUndefined()
  }
})
