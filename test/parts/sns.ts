/** `bun test/parts/sns.ts`: moto, an SNS and SQS endpoint, on 127.0.0.1:4566 until Ctrl-C, to try the SNS sink with. Needs Python 3.10. */
import { Effect } from "effect"
import { makeMoto } from "./Moto.ts"
import { makeTopic } from "./Queues.ts"

const moto = await makeMoto(4566)
process.once("SIGINT", () => void moto.stop().then(() => process.exit(0)))
process.once("SIGTERM", () => void moto.stop().then(() => process.exit(0)))
await moto.start()
const { arn, received } = await makeTopic(moto.url, { name: "failures" })
console.log(`moto listens on ${moto.url} and has the topic ${arn}; what comes to it is shown below (Ctrl-C ends it)`)
for (let shown = 0; ; ) {
  const all = await Effect.runPromise(received(shown + 1))
  for (const { body, attributes } of all.slice(shown)) console.log(`${body} ${JSON.stringify(attributes)}`)
  shown = all.length
}
