/** The S3 sink under each condition. */
import { Effect } from "effect"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { linesIn, makeBucket, region, removeBucket } from "../parts/Buckets.ts"
import { type AwsKind, away, cellsOf, inMoto, patientAt } from "./AwsRows.ts"
import type { Column } from "./Column.ts"
import * as Wires from "./Wires.ts"

const s3: AwsKind = {
  name: "s3",
  sink: (endpoint, bucket) => ({ type: "s3", bucket, region, endpoint, batch: { linger: "20 millis" } }),
  make: async (url, name) => {
    const lines = linesIn(await makeBucket(url, name))
    return {
      received: (count) =>
        Effect.map(lines(count), (all) =>
          all.map((line) => ({
            body: Buffer.from(line).toString(),
            attributes: {},
            group: undefined,
            deduplication: undefined,
          })),
        ),
    }
  },
  bytesOf: ({ body }) => Buffer.from(body),
  // S3 takes objects of 5 GiB: only the webhook's limit counts.
  largest: Number.POSITIVE_INFINITY,
  codes: {
    denied: "AccessDenied",
    throttled: "SlowDown",
    unknownKey: "InvalidAccessKeyId",
    expired: ["ExpiredToken", "The provided token has expired."],
  },
  content: {
    code: "EntityTooLarge",
    message: "Your proposed upload exceeds the maximum allowed object size.",
    isSenders: true,
  },
  saysOfContent: /finds the object too large \(EntityTooLarge\)/,
  internal: { code: "InternalError", message: "We encountered an internal error. Please try again.", isSenders: false },
}

export const column: Column = {
  sink: "s3",
  cells: {
    ...cellsOf(s3),
    d: away(s3, removeBucket, /misconfigured: .*there is no such bucket/),
    n: [
      patientAt("an event of 4 MiB, which is more than an object usually has", {
        start: async (place) => ({
          ...(await Wires.byProxy(inMoto(s3), () => {})(place)),
          config: Wires.largeBodies,
        }),
        body: (number) => (number === Wires.special ? Wires.sized(number, 4 * 1024 * 1024) : bodyOf(number)),
      }),
    ],
  },
}
