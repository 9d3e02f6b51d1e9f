import { expect, test } from "bun:test"
import { isRefusedData, locked, refusedData, unavailable } from "../../src/journal/JournalError.ts"

test("only a refusal of the data itself is one that the journal repeats for the same request", () => {
  expect([refusedData("a"), unavailable("b"), locked("c")].map(isRefusedData)).toEqual([true, false, false])
})
