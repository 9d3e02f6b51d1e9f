/** SNS sinks to the server of the tests, and the tests that need one. */
import { beforeAll, describe, test } from "bun:test"
import { Effect, Schema, type Scope } from "effect"
import type { Sink, SinkError } from "../../src/sinks/Sink.ts"
import { Sns, SnsConfig } from "../../src/sinks/Sns.ts"
import { type Moto, reasonToSkip, sharedMoto } from "../parts/Moto.ts"
import { openElsewhere, startElsewhere } from "./elsewhereSink.ts"

/** An access key that nobody gave. */
export const credentials = { accessKeyId: "test", secretAccessKey: "canary-3f9a1c" }

export const topicArn = "arn:aws:sns:eu-west-1:123456789012:events"

const under = process.env.RELAY_UNDER

/** Opens a sink from its config as it is written in the file; RELAY_UNDER says under which runtime, or in a binary. */
export const openSns = (more: () => Record<string, unknown>): Effect.Effect<Sink, SinkError, Scope.Scope> =>
  Effect.suspend(() => {
    const config = { topicArn, credentials, ...more() }
    return under === undefined
      ? Sns.open("sns", Schema.decodeUnknownSync(SnsConfig)(config))
      : openElsewhere(under, "sns", config)
  })

/** Before the tests: the runtime that RELAY_UNDER names is there, and the binary is built. */
export const startThere = async (): Promise<void> => {
  if (under !== undefined) await startElsewhere(under)
}

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
      await startThere()
    }, 300_000)
    body(() => moto)
  })
}
