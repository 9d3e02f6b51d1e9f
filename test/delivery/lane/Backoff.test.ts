import { expect, test } from "bun:test"
import { remaining } from "../../../src/delivery/lane/LaneClock.ts"

test("a stored wait never becomes longer, whatever the wall clock did", () => {
  expect(remaining(10_000, 5_000, 7_000)).toBe(3_000)
  expect(remaining(10_000, 5_000, 20_000)).toBe(0)
  expect(remaining(10_000, 5_000, -1e12)).toBe(5_000)
})
