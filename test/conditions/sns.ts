/** The SNS sink under each condition. */
import { bytesOf, makeTopic, region, removeTopic } from "../parts/Queues.ts"
import { type AwsKind, away, cellsOf } from "./AwsRows.ts"
import type { Column } from "./Column.ts"

const sns: AwsKind = {
  name: "sns",
  sink: (url, target) => ({ type: "sns", topicArn: `arn:aws:sns:${region}:123456789012:${target}`, endpoint: url }),
  make: (url, name) => makeTopic(url, { name }),
  bytesOf,
  largest: 256 * 1024,
  codes: {
    denied: "AuthorizationError",
    throttled: "Throttling",
    unknownKey: "InvalidClientTokenId",
    expired: ["ExpiredToken", "The security token included in the request is expired"],
  },
  content: { code: "InvalidParameter", message: "Invalid parameter: Message", isSenders: true },
  internal: { code: "InternalError", message: "Internal failure", isSenders: false },
}

export const column: Column = {
  sink: "sns",
  cells: { ...cellsOf(sns), d: away(sns, removeTopic, /misconfigured: .*there is no such topic/) },
}
