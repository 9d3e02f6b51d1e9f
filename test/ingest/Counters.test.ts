import { expect, test } from "bun:test"
import { commitBuckets, make, observeCommit } from "../../src/ingest/Counters.ts"

test("a commit counts in the first bucket that its duration fits, or above all of them", () => {
  const { commits } = make()
  for (const bound of commitBuckets) observeCommit(commits, bound)
  observeCommit(commits, 3.001)
  expect(commits.counts).toEqual([...commitBuckets.map(() => 1), 1])
  expect(commits.sum).toBeCloseTo(commitBuckets.reduce((sum, bound) => sum + bound, 3.001))
})
