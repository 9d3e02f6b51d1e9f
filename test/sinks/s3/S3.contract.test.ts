import { Effect } from "effect"
import { type Receiver, sinkContract, type Wrong } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { freePort } from "../../lib/port.ts"
import { type Bucket, linesIn, makeBucket, s3rverKey } from "../../parts/Buckets.ts"
import { openS3, required, withMoto, withS3rver } from "./s3Sink.ts"

sinkTypeContract({
  type: "s3",
  config: {
    ...required,
    format: "cloudevents",
    credentials: { accessKeyId: canary, secretAccessKey: canary, sessionToken: canary },
  },
  carriesTrace: true,
})

const receiver = (make: () => Promise<Bucket>, config: () => Record<string, unknown>): Effect.Effect<Receiver> =>
  Effect.map(Effect.promise(make), (bucket) => ({
    open: openS3(() => ({ bucket: bucket.name, ...config() })),
    received: linesIn(bucket),
  }))

const wrong = (endpoint: () => Record<string, unknown> & { readonly endpoint: string }): Record<string, Wrong> => ({
  "an endpoint where nothing is": [
    Effect.flatMap(Effect.promise(freePort), (port) => openS3(() => ({ endpoint: `http://127.0.0.1:${port}` }))),
    "SinkUnavailable",
    ["bucket events", "http://127.0.0.1:", /can't be reached/, /refused/],
  ],
  "a bucket that is not there": [
    openS3(() => ({ ...endpoint(), bucket: "nowhere" })),
    "SinkMisconfigured",
    ["bucket nowhere", /no such bucket/, '"bucket"'],
  ],
  "an endpoint that speaks no TLS": [
    openS3(() => ({ endpoint: endpoint().endpoint.replace("http:", "https:") })),
    "SinkMisconfigured",
    [/https:\/\/127/, /no TLS with it|no HTTP/, '"endpoint"'],
  ],
})

withS3rver("the S3 sink's contract against s3rver", (server) => {
  const endpoint = () => ({ endpoint: server().url, credentials: s3rverKey })
  for (const compression of ["gzip", "none"]) {
    sinkContract(`the S3 sink with "compression": "${compression}"`, {
      overwritesRepeats: true,
      make: Effect.suspend(() => receiver(server().makeBucket, () => ({ ...endpoint(), compression }))),
      wrong: {
        ...wrong(endpoint),
        "an access key that nobody knows": [
          openS3(() => ({ ...endpoint(), credentials: { ...s3rverKey, accessKeyId: "UNKNOWN" } })),
          "SinkMisconfigured",
          [/does not know this access key/],
        ],
      },
    })
  }
})

withMoto("the S3 sink's contract against moto", (moto) => {
  const endpoint = () => ({ endpoint: moto().url })
  sinkContract("the S3 sink", {
    overwritesRepeats: true,
    make: Effect.suspend(() => receiver(() => makeBucket(moto().url), endpoint)),
    wrong: wrong(endpoint),
  })
})
