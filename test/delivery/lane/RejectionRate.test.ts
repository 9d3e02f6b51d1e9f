import { expect, test } from "bun:test"
import { RejectionRate } from "../../../src/delivery/lane/RejectionRate.ts"

test("more than half of the last 20 rejected blocks; half does not", () => {
  const rejections = new RejectionRate()
  rejections.passed(10)
  const verdicts = Array.from({ length: 11 }, () => rejections.rejected())
  expect(verdicts).toEqual([...Array.from({ length: 10 }, () => false), true])
})
