/** SNS sinks to the server of the tests, and the tests that need one. */
import { Sns } from "../../../src/sinks/sns/Sns.ts"
import { reasonToSkip, sharedMoto } from "../../parts/Moto.ts"
import { openThere, suitesWith } from "../thereSink.ts"

/** Credentials that belong to nobody. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }

export const topicArn = "arn:aws:sns:eu-west-1:123456789012:events"

export const openSns = (more: () => Record<string, unknown>) =>
  openThere("sns", Sns, () => ({ topicArn, credentials, ...more() }))

/** Tests against moto. */
export const withMoto = suitesWith(reasonToSkip, sharedMoto)
