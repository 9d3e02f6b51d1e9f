/**
 * Sends batches to the file named on the command line until a batch fails, then makes room and sends that batch again.
 * It runs under `ulimit -f`, because a file that can't grow behaves almost like a full disk.
 */
import { readFileSync, truncateSync } from "node:fs"
import process from "node:process"
import { Effect } from "effect"
import { File } from "../../../src/sinks/file/File.ts"
import { entries, reasonOf } from "../samples.ts"

// Without a handler the signal would end the process before the write fails.
process.on("SIGXFSZ", () => {})

const path = process.argv[2] ?? ""
const perBatch = 50

const result = await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const sink = yield* File.open({ path, format: "raw", rotate: { daily: false } })
      for (let batch = 0; batch < 1_000; batch++) {
        const reason = yield* reasonOf(sink.send(entries(perBatch, 1 + batch * perBatch)))
        if (reason === undefined) continue
        const left = readFileSync(path, "utf8")
        truncateSync(path)
        const again = yield* reasonOf(sink.send(entries(perBatch, 1 + batch * perBatch)))
        if (again !== undefined) return { reason: again._tag, message: `again: ${again.message}` }
        return { reason: reason._tag, message: reason.message, sent: batch * perBatch, left }
      }
      return { reason: "never full" }
    }),
  ),
)
console.log(JSON.stringify(result))
