/** S3 sinks to the servers of the tests, and the tests that need one. */
import { S3 } from "../../../src/sinks/s3/S3.ts"
import { lacksS3rver, type S3rverServer, startS3rver } from "../../parts/Buckets.ts"
import { reasonToSkip, sharedMoto } from "../../parts/Moto.ts"
import { openThere, suitesWith } from "../thereSink.ts"

/** Credentials that belong to nobody. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }

export const required = { bucket: "events", region: "us-east-1" }

export const openS3 = (more: () => Record<string, unknown>) =>
  openThere("s3", S3, () => ({ ...required, credentials, ...more() }))

/** Tests against moto. */
export const withMoto = suitesWith(reasonToSkip, sharedMoto)

let shared: Promise<S3rverServer> | undefined

/** Tests against s3rver. It ends with the process. */
export const withS3rver = suitesWith(lacksS3rver, () => {
  shared ??= startS3rver()
  return shared
})
