/**
 * `bun test/parts/jetstream.ts` runs nats-server on 127.0.0.1:4222 with the streams of config/examples/nats.json until
 * Ctrl-C, to try the NATS sink.
 */
import { lacking, startNats } from "./Nats.ts"
import { makeStream } from "./Streams.ts"

const why = lacking()
if (why !== undefined) {
  console.error(`NATS is missing: ${why}`)
  process.exit(1)
}
const nats = await startNats("", 4222)
process.once("SIGINT", () => void nats.stop().then(() => process.exit(0)))
process.once("SIGTERM", () => void nats.stop().then(() => process.exit(0)))
await makeStream(nats.server, { name: "SCHEDULING", subjects: ["scheduling.>"] })
await makeStream(nats.server, { name: "BOOKINGS", subjects: ["bookings"] })
console.log(`NATS listens on ${nats.server}; what is in it goes when it stops (Ctrl-C)`)
