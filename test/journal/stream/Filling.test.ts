import { expect, it } from "bun:test"
import type { JournalStatus } from "../../../src/journal/JournalStatus.ts"
import { fillingOf } from "../../../src/journal/stream/Filling.ts"

it("a mark of filling is cleared only five percent below it", () => {
  let filling: JournalStatus["filling"] = 0
  const marks = [49, 50, 49, 51, 46, 44, 49, 50, 81, 79, 74, 96, 91, 89].map((percent) => {
    filling = fillingOf(percent, 100, filling)
    return filling
  })
  expect(marks).toEqual([0, 50, 50, 50, 50, 0, 0, 50, 80, 80, 50, 95, 95, 80])
})
