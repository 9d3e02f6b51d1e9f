/**
 * Ingest over a journal in memory, on whichever runtime starts it: what the
 * HTTP suite drives. It prints `listening HOST:PORT` and drains on SIGTERM.
 * Kept events are written as lines of `sequence TAB sinks TAB base64` to the
 * file named by its first argument.
 */
import { appendFileSync } from "node:fs"
import process from "node:process"
import { Duration, Effect, Layer, Redacted } from "effect"
import { Ingest } from "../../../src/ingest/Ingest.ts"
import * as Snapshot from "../../../src/ingest/Snapshot.ts"
import { Journal } from "../../../src/journal/Journal.ts"
import * as MemoryJournal from "../../../src/journal/MemoryJournal.ts"
import * as Runtime from "../../../src/runtime/Runtime.ts"

const snapshot = Snapshot.make(
  {
    webhooks: [
      {
        name: "scheduling",
        ids: [],
        path: "/hooks/scheduling",
        secrets: [{ name: "suite", value: Redacted.make("whsec_suite") }],
        headers: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
        unknownTypes: "route",
        undecodable: "quarantine",
        respond: 202,
        maxBody: 1024 * 1024,
        commitTimeout: Duration.seconds(3),
        strictId: false,
      },
    ],
    routes: [{ name: "everything", match: ["**"], except: [], where: {}, to: ["audit"] }],
  },
  Runtime.hmac,
)

const [, , keptPath = "", port = "0", certificate, key] = process.argv

const main = Effect.gen(function* () {
  const ingest = yield* Ingest
  const journal = yield* Journal
  const keep = Effect.gen(function* () {
    let after = 0
    while (keptPath !== "") {
      yield* journal.awaitBeyond(after)
      for (const { sequence, sinks, event } of yield* journal.read(after, 1000)) {
        appendFileSync(keptPath, `${sequence}\t${sinks}\t${Buffer.from(event.body).toString("base64")}\n`)
        after = sequence
      }
    }
  })
  yield* Effect.forkScoped(keep)
  const address = yield* Runtime.serve({
    address: { host: "127.0.0.1", port: Number(port) },
    handler: ingest.handle,
    onDrain: ingest.drain,
    drainTimeout: Duration.seconds(3),
    ...(certificate === undefined || key === undefined ? {} : { tls: { certificate, key } }),
  })
  console.log(`listening ${Runtime.show(address)}`)
  yield* Runtime.firstSignal
}).pipe(Effect.scoped, Effect.provide(Ingest.layer(() => snapshot).pipe(Layer.provideMerge(MemoryJournal.layer))))

await Effect.runPromise(main)
process.exit(0)
