/**
 * `bun test/parts/aws.ts` runs moto (an SNS, SQS, EventBridge and S3 endpoint) on 127.0.0.1:4566 until Ctrl-C, to try
 * those sinks. It needs Python 3.10.
 */
import { Effect } from "effect"
import { linesIn, makeBucket } from "./Buckets.ts"
import { makeMoto } from "./Moto.ts"
import { makeBus, makeQueue, makeTopic, type Topic } from "./Queues.ts"

const moto = await makeMoto(4566)
process.once("SIGINT", () => void moto.stop().then(() => process.exit(0)))
process.once("SIGTERM", () => void moto.stop().then(() => process.exit(0)))
await moto.start()

const show = async (what: string, { received }: Pick<Topic, "received">): Promise<never> => {
  for (let shown = 0; ; ) {
    const all = await Effect.runPromise(received(shown + 1))
    for (const { body, attributes } of all.slice(shown)) console.log(`${what}: ${body} ${JSON.stringify(attributes)}`)
    shown = all.length
  }
}

const topic = await makeTopic(moto.url, { name: "failures" })
const queue = await makeQueue(moto.url, { name: "failures", fifo: true })
const bucket = await makeBucket(moto.url, "scheduling")
const bus = await makeBus(moto.url, { name: "scheduling" })
console.log(
  `moto listens on ${moto.url} and has the topic ${topic.arn}, the queue ${queue.url}, the bus ${bus.arn} and the bucket ${bucket.name}`,
)
console.log("What comes to them is shown below (Ctrl-C ends it)")
const inBucket = (count: number) =>
  Effect.map(linesIn(bucket)(count), (lines) =>
    lines.map((line) => ({
      body: Buffer.from(line).toString(),
      attributes: {},
      group: undefined,
      deduplication: undefined,
    })),
  )
await Promise.all([
  show("topic", topic),
  show("queue", queue),
  show("bus", bus),
  show("bucket", { received: inBucket }),
])
