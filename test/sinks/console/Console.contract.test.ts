import { Effect } from "effect"
import * as Console from "../../../src/sinks/console/Console.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { bodies } from "../../lib/lines.ts"

const open = (write: Console.Output["write"]) =>
  Effect.sync(() => Console.make({ format: "raw" }, { write, color: false, isTerminal: false }))

sinkContract("the console sink", {
  ofType: { type: "console", config: { format: "raw" } },
  make: Effect.sync(() => {
    const chunks: Array<Uint8Array> = []
    return {
      // Accepts a few bytes at a time, like a pipe that is nearly full.
      open: open(async (bytes) => {
        const some = Uint8Array.from(bytes.subarray(0, 50_000))
        chunks.push(some)
        return some.length
      }),
      received: () => Effect.sync(() => bodies(Buffer.concat(chunks))),
    }
  }),
  wrong: {
    "a terminal that went away": [
      open(() => Promise.reject(Object.assign(new Error(canary), { code: "EPIPE" }))),
      "SinkMisconfigured",
      [/standard output is closed \(EPIPE\)/, /take the console sink out/],
    ],
  },
})
