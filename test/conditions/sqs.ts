/** The SQS sink under each condition. */
import { bytesOf, makeQueue, region, removeQueue } from "../parts/Queues.ts"
import { type AwsKind, away, cellsOf } from "./AwsRows.ts"
import type { Column } from "./Column.ts"

const sqs: AwsKind = {
  name: "sqs",
  sink: (url, target) => ({ type: "sqs", queueUrl: `${url}/123456789012/${target}`, region }),
  make: (url, name) => makeQueue(url, { name }),
  bytesOf,
  largest: 1024 * 1024,
  codes: {
    denied: "AccessDeniedException",
    throttled: "RequestThrottled",
    unknownKey: "InvalidClientTokenId",
    expired: ["ExpiredToken", "The security token included in the request is expired"],
  },
  content: { code: "InvalidMessageContents", message: "Message contains invalid characters", isSenders: true },
  internal: { code: "InternalError", message: "We encountered an internal error. Please try again.", isSenders: false },
}

export const column: Column = {
  sink: "sqs",
  cells: { ...cellsOf(sqs), d: away(sqs, removeQueue, /misconfigured: .*there is no such queue/) },
}
