/** A process that appends forever and prints the ids of stored events. Tests kill it. */
import { Effect } from "effect"
import { Journal } from "../../src/journal/Journal.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import { event, optionsAt } from "./samples.ts"

const [path = "", prefix = ""] = process.argv.slice(2)

const append = Effect.fnUntraced(function* (journal: Journal["Service"], worker: number) {
  for (let n = 0; ; n++) {
    const id = `${prefix}.${worker}.${n}`
    yield* journal.append(event(id, { receivedAt: Date.now() }), ["lake"])
    process.stdout.write(`${id}\n`)
    if (n % 50 === 0) {
      const head = yield* journal.head
      const cursor = { sequence: Math.floor(head / 2), settled: [] }
      yield* journal.settle([
        {
          lane: "lake",
          cursor,
          retry: [],
          takeBack: [],
          endRetry: [],
          deadLetter: [],
          delivered: [],
          late: [],
          dropped: [],
          counted: [],
          alerts: [],
          pausedFor: 0,
        },
      ])
    }
  }
})

await Effect.runPromise(
  Effect.flatMap(Journal, (journal) =>
    Effect.forEach(
      Array.from({ length: 32 }, (_, index) => index),
      (worker) => append(journal, worker),
      {
        concurrency: "unbounded",
      },
    ),
  ).pipe(Effect.provide(SqliteJournal.layer(optionsAt(path)))),
)
