/** SNS sinks to the server of the tests, and the tests that need one. */
import { beforeAll, describe, test } from "bun:test"
import { Effect, Schema } from "effect"
import { Sns, SnsConfig } from "../../src/sinks/Sns.ts"
import { type Moto, reasonToSkip, sharedMoto } from "../parts/Moto.ts"

/** An access key that nobody gave. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }

export const topicArn = "arn:aws:sns:eu-west-1:123456789012:events"

/** Opens a sink from its config as it is written in the file. */
export const openSns = (config: () => Record<string, unknown>) =>
  Effect.suspend(() => Sns.open("sns", Schema.decodeUnknownSync(SnsConfig)({ topicArn, credentials, ...config() })))

/** Tests against moto, or one that says why it was skipped and how to have it. */
export const withMoto = (title: string, body: (moto: () => Moto) => void): void => {
  const skipped = reasonToSkip()
  describe(title, () => {
    if (skipped !== undefined) {
      console.warn(`skipped: ${title}: ${skipped}`)
      test.skip(skipped, () => {})
      return
    }
    let moto: Moto
    beforeAll(async () => {
      moto = await sharedMoto()
    }, 300_000)
    body(() => moto)
  })
}
