import { Effect } from "effect"
import { largest } from "../../../src/sinks/eventbridge/EventBridge.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { makeBus } from "../../parts/Queues.ts"
import { bytesOf, eventBusArn, openEventBridge, withMoto } from "./eventBridgeSink.ts"

sinkTypeContract({
  type: "eventbridge",
  carriesTrace: true,
  config: {
    eventBusArn,
    format: "cloudevents",
    credentials: { accessKeyId: canary, secretAccessKey: canary, sessionToken: canary },
  },
})

withMoto("the EventBridge sink's contract against moto", (moto) => {
  const endpoint = () => ({ endpoint: moto().url })
  sinkContract("the EventBridge sink", {
    maxBody: largest,
    ordered: false,
    // EventBridge parses the JSON of an envelope and serializes it again.
    bytesOf: ({ event }) =>
      event.type === "" || event.body.toString().includes("relay_base64")
        ? event.body
        : Buffer.from(JSON.stringify(JSON.parse(Buffer.from(event.body).toString()))),
    make: Effect.gen(function* () {
      const { arn, received } = yield* Effect.promise(() => makeBus(moto().url))
      return {
        open: openEventBridge(() => ({ ...endpoint(), eventBusArn: arn })),
        received: (count) =>
          Effect.map(received(count), (all) => all.map(({ body }) => bytesOf(JSON.parse(body).detail))),
        held: Effect.sync(() => connectionsTo(Number(new URL(moto().url).port))),
      }
    }),
    wrong: {
      "an endpoint where nothing is": [
        openEventBridge(() => ({ endpoint: "http://127.0.0.1:1" })),
        "SinkUnavailable",
        [eventBusArn, "http://127.0.0.1:1", /can't be reached/, /refused/],
      ],
      "a bus that is not there": [
        openEventBridge(() => ({ ...endpoint(), eventBusArn: `${eventBusArn}-nowhere` })),
        "SinkMisconfigured",
        [`${eventBusArn}-nowhere`, /no such event bus/, '"eventBusArn"'],
      ],
      "an endpoint that speaks no TLS": [
        openEventBridge(() => ({ endpoint: moto().url.replace("http:", "https:") })),
        "SinkMisconfigured",
        [/https:\/\/127/, /no TLS with it/, '"endpoint"'],
      ],
    },
  })
})
