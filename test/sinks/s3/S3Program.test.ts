/** The whole program with S3 sinks. */
import { expect } from "bun:test"
import { Effect } from "effect"
import { type Bucket, linesIn, makeBucket, region, s3rverKey } from "../../parts/Buckets.ts"
import { nothing } from "../aws/awsProgram.ts"
import { programContract } from "../programContract.ts"
import { credentials, withMoto, withS3rver } from "./s3Sink.ts"

const s3 = (endpoint: string, { name }: Pick<Bucket, "name">, more: object = {}) => ({
  type: "s3",
  bucket: name,
  region,
  endpoint,
  batch: { linger: "100 millis" },
  ...more,
})

const textsIn = async (bucket: Bucket, count: number): Promise<ReadonlyArray<string>> =>
  (await Effect.runPromise(linesIn(bucket)(count))).map((line) => Buffer.from(line).toString())

const bodiesIn =
  (bucket: Bucket) =>
  ({ length }: ReadonlyArray<string>) =>
    textsIn(bucket, length)

withS3rver("the whole program with S3 sinks to s3rver", (server) => {
  programContract({
    service: "s3rver",
    env: nothing,
    delivers: {
      how: "objects, compressed and plain, as bodies and as CloudEvents",
      make: async () => {
        const [plain, ordered, events] = [
          await server().makeBucket(),
          await server().makeBucket(),
          await server().makeBucket(),
        ]
        const key = { credentials: s3rverKey }
        return {
          sinks: {
            plain: s3(server().url, plain, { ...key, compression: "none" }),
            ordered: s3(server().url, ordered, { ...key, order: "key", prefix: "all-" }),
            events: s3(server().url, events, { ...key, format: "cloudevents", prefix: "{{type}}/{{date}}/" }),
          },
          received: {
            plain: bodiesIn(plain),
            ordered: bodiesIn(ordered),
            events: async ({ length }) =>
              (await textsIn(events, length)).map((line) => JSON.stringify(JSON.parse(line).data)),
          },
          ordered: ["ordered"],
          secrets: [],
        }
      },
    },
    refuses: {
      what: "that credentials are missing, that the key is unknown, or that the bucket is not there",
      make: async () => {
        const bucket = await server().makeBucket()
        return {
          sinks: {
            keyless: s3(server().url, bucket),
            unknown: s3(server().url, bucket, { credentials }),
            nowhere: s3(server().url, { name: "nowhere" }, { credentials: s3rverKey }),
          },
          says: {
            keyless: 'no credentials were found: set "credentials" or "profile"',
            unknown: "AWS does not know this access key",
            nowhere: 'there is no such bucket: make it, or correct "bucket"',
          },
        }
      },
    },
  })
})

withMoto("the whole program with S3 sinks to moto", (moto) => {
  programContract({
    service: "S3",
    env: nothing,
    delivers: {
      how: "objects by date and account",
      make: async () => {
        const bucket = await makeBucket(moto().url)
        return {
          sinks: { it: s3(moto().url, bucket, { credentials, prefix: "{{date}}/{{account_id}}/" }) },
          received: { it: bodiesIn(bucket) },
          secrets: [credentials.secretAccessKey],
        }
      },
    },
    example: {
      file: "s3",
      sends: "everything",
      make: async () => {
        const bucket = await makeBucket(moto().url)
        return {
          env: { S3_ENDPOINT: moto().url, S3_BUCKET: bucket.name, S3_LINGER: "100 millis" },
          types: ["appointment.created"],
          check: async () => {
            const [line = ""] = await textsIn(bucket, 1)
            expect(JSON.parse(line)).toMatchObject({ data: { type: "appointment.created" } })
            const [object] = await bucket.objects()
            expect(object?.name).toMatch(/^events\/date=\d{4}-\d\d-\d\d\/appointment\.created\/\d{8}T\d{9}Z-.*\.gz$/)
          },
        }
      },
    },
  })
})
