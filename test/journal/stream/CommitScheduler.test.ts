import { expect, test } from "bun:test"
import { CommitScheduler } from "../../../src/journal/stream/CommitBatch.ts"

/** Runs `use` with two schedulers. Returns the order of their flushes, once both have flushed. */
const orderOf = (use: (first: CommitScheduler, second: CommitScheduler) => void): Promise<ReadonlyArray<string>> =>
  new Promise((resolve) => {
    const flushes: Array<string> = []
    const make = (name: string): CommitScheduler => {
      const scheduler = new CommitScheduler(
        () => {
          scheduler.flushed()
          flushes.push(name)
          if (flushes.length === 2) resolve(flushes)
        },
        () => 1,
      )
      return scheduler
    }
    use(make("first"), make("second"))
  })

test("a single event waits for fewer turns of the event loop than a batch", async () => {
  const order = orderOf((first, second) => {
    first.committed(3, 0)
    second.committed(2, 0)
    first.joined()
    second.joined()
  })
  expect(await order).toEqual(["second", "first"])
})
