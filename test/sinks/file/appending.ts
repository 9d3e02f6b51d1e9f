/**
 * Appends batches to the file named on the command line until it is killed. Prints the number of delivered events after
 * each batch.
 */
import { writeSync } from "node:fs"
import process from "node:process"
import { Effect } from "effect"
import { File } from "../../../src/sinks/file/File.ts"
import { entries } from "../samples.ts"

const path = process.argv[2] ?? ""
const perBatch = 200

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const sink = yield* File.open({ path, format: "raw", rotate: { size: 200_000, daily: false } })
      for (let passed = 0; ; passed += perBatch) {
        yield* sink.send(entries(perBatch, 1 + passed))
        writeSync(1, `${passed + perBatch}\n`)
      }
    }),
  ),
)
