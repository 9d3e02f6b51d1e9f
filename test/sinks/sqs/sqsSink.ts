/** SQS sinks to the server of the tests, and the tests that need one. */
import { Sqs } from "../../../src/sinks/sqs/Sqs.ts"
import { reasonToSkip, sharedMoto } from "../../parts/Moto.ts"
import { openThere, suitesWith } from "../thereSink.ts"

/** Credentials that belong to nobody. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }
export const region = "eu-west-1"

export const queueUrl = "https://sqs.eu-west-1.amazonaws.com/123456789012/events"

export const openSqs = (more: () => Record<string, unknown>) =>
  openThere("sqs", Sqs, () => ({ region, credentials, ...more() }))

/** Tests against moto. */
export const withMoto = suitesWith(reasonToSkip, sharedMoto)
