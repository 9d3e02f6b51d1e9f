import { Effect } from "effect"
import { largest } from "../../../src/sinks/sns/Sns.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { bytesOf, makeTopic } from "../../parts/Queues.ts"
import { openSns, topicArn, withMoto } from "./snsSink.ts"

sinkTypeContract({
  type: "sns",
  carriesTrace: true,
  config: { topicArn, credentials: { accessKeyId: canary, secretAccessKey: canary, sessionToken: canary } },
})

withMoto("the SNS sink's contract against moto", (moto) => {
  const endpoint = () => ({ endpoint: moto().url })
  sinkContract("the SNS sink", {
    maxBody: largest,
    ordered: false,
    make: Effect.gen(function* () {
      const { arn, received } = yield* Effect.promise(() => makeTopic(moto().url))
      return {
        open: openSns(() => ({ ...endpoint(), topicArn: arn })),
        received: (count) => Effect.map(received(count), (all) => all.map(bytesOf)),
        held: Effect.sync(() => connectionsTo(Number(new URL(moto().url).port))),
      }
    }),
    wrong: {
      "an endpoint where nothing is": [
        openSns(() => ({ endpoint: "http://127.0.0.1:1" })),
        "SinkUnavailable",
        [topicArn, "http://127.0.0.1:1", /can't be reached/, /refused/],
      ],
      "a topic that is not there": [
        openSns(() => ({ ...endpoint(), topicArn: `${topicArn}-nowhere` })),
        "SinkMisconfigured",
        [`${topicArn}-nowhere`, /no such topic/, '"topicArn"'],
      ],
      "an endpoint that speaks no TLS": [
        openSns(() => ({ endpoint: moto().url.replace("http:", "https:") })),
        "SinkMisconfigured",
        [/https:\/\/127/, /no TLS with it/, '"endpoint"'],
      ],
    },
  })
})
