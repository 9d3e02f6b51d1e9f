import { Effect } from "effect"
import { largest } from "../../../src/sinks/sqs/Sqs.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { bytesOf, makeQueue } from "../../parts/Queues.ts"
import { openSqs, queueUrl, withMoto } from "./sqsSink.ts"

sinkTypeContract({
  type: "sqs",
  carriesTrace: true,
  config: { queueUrl, credentials: { accessKeyId: canary, secretAccessKey: canary, sessionToken: canary } },
})

withMoto("the SQS sink's contract against moto", (moto) => {
  const nowhere = () => `${moto().url}/123456789012/nowhere`
  sinkContract("the SQS sink", {
    maxBody: largest,
    ordered: false,
    make: Effect.gen(function* () {
      const { url, received } = yield* Effect.promise(() => makeQueue(moto().url))
      return {
        open: openSqs(() => ({ queueUrl: url })),
        received: (count) => Effect.map(received(count), (all) => all.map(bytesOf)),
        held: Effect.sync(() => connectionsTo(Number(new URL(moto().url).port))),
      }
    }),
    wrong: {
      "a queue's host where nothing is": [
        openSqs(() => ({ queueUrl: "http://127.0.0.1:1/123456789012/events" })),
        "SinkUnavailable",
        ["SQS queue http://127.0.0.1:1/123456789012/events", /can't be reached/, /refused/],
      ],
      "a queue that is not there": [
        openSqs(() => ({ queueUrl: nowhere() })),
        "SinkMisconfigured",
        ["123456789012/nowhere", /no such queue/, '"queueUrl"'],
      ],
      "a host that speaks no TLS": [
        openSqs(() => ({ queueUrl: nowhere().replace("http:", "https:") })),
        "SinkMisconfigured",
        [/https:\/\/127/, /no TLS with it/, '"queueUrl"'],
      ],
    },
  })
})
