/** The EventBridge sink under each condition. */
import { makeBus, region, removeBus } from "../parts/Queues.ts"
import { type AwsKind, away, cellsOf } from "./AwsRows.ts"
import type { Column } from "./Column.ts"

const eventBridge: AwsKind = {
  name: "eventbridge",
  sink: (url, target) => ({
    type: "eventbridge",
    eventBusArn: `arn:aws:events:${region}:123456789012:event-bus/${target}`,
    endpoint: url,
  }),
  make: (url, name) => makeBus(url, { name }),
  bytesOf: ({ body }) => Buffer.from(JSON.stringify(JSON.parse(body).detail)),
  largest: 1024 * 1024 - 1,
  codes: {
    denied: "AccessDeniedException",
    throttled: "ThrottlingException",
    unknownKey: "UnrecognizedClientException",
    expired: ["ExpiredTokenException", "The security token included in the request is expired"],
  },
  content: { code: "MalformedDetail", message: "Detail is malformed.", isSenders: true },
  internal: { code: "InternalFailure", message: "An internal error occurred", isSenders: false },
}

export const column: Column = {
  sink: "eventbridge",
  cells: {
    ...cellsOf(eventBridge),
    // EventBridge accepts events for a bus that is gone and drops them. The sink looks for it once a minute.
    d: away(eventBridge, removeBus, /misconfigured: .*there is no such event bus/, false),
  },
}
