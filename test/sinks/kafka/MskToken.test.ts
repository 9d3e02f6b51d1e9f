/** Tokens for the IAM of Amazon MSK, compared with the tokens of AWS's own signer. */
import { describe, expect, test } from "bun:test"
import { Effect, Schema } from "effect"
import { KafkaError } from "../../../src/sinks/kafka/KafkaClient.ts"
import { mskToken, open, SaslConfig } from "../../../src/sinks/kafka/KafkaLogin.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../receiver.ts"
import tokens from "./mskTokens.json" with { type: "json" }

const urlOf = (token: string): URL => {
  const url = new URL(Buffer.from(token, "base64url").toString())
  url.searchParams.delete("User-Agent")
  url.searchParams.sort()
  return url
}

/** The time of a token, in epoch milliseconds. */
const timeOf = (url: URL): number =>
  Date.parse((url.searchParams.get("X-Amz-Date") ?? "").replace(/^(....)(..)(..T..)(..)(..)Z$/, "$1-$2-$3:$4:$5Z"))

const credentials = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" }

describe("a token for MSK", () => {
  // Made by aws-msk-iam-sasl-signer-js 1.0.3. It isn't installed, because its dependencies conflict with the versions
  // that the AWS sinks use.
  for (const { region, sessionToken, token } of tokens) {
    const name = sessionToken === undefined ? "an access key" : "a session"
    test(`is the token of AWS's own signer, with ${name} in ${region}`, () => {
      const own = { ...credentials, ...(sessionToken !== undefined && { sessionToken }) }
      const theirs = urlOf(token)
      const ours = mskToken(own, region, timeOf(theirs))
      expect(ours).toMatch(/^[A-Za-z0-9_-]+$/)
      expect(urlOf(ours).href).toBe(theirs.href)
    })
  }

  const tokenOf = (sasl: object) =>
    Effect.flatMap(open(Schema.decodeUnknownSync(SaslConfig)({ mechanism: "AWS_MSK_IAM", ...sasl })), (login) => {
      if (login.mechanism !== "OAUTHBEARER") throw new Error("this is a login by a password")
      return Effect.tryPromise({ try: login.token, catch: (error) => error as KafkaError })
    })
  const signerOf = (token: string) => urlOf(token).searchParams.get("X-Amz-Credential")

  it.live("is signed by the credentials of the config", function* () {
    const token = yield* tokenOf({ region: "eu-central-1", credentials })
    expect(signerOf(token)).toMatch(/^AKIAIOSFODNN7EXAMPLE\/\d{8}\/eu-central-1\/kafka-cluster\/aws4_request$/)
  })

  it.live(
    "is signed by the role that the credentials may assume, and a refusal is reported with its cause",
    function* () {
      let status = 200
      const sts = yield* serve((_, response) =>
        response.writeHead(status, { "content-type": "text/xml" }).end(status === 200 ? assumed : denied),
      )
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          process.env.AWS_ENDPOINT_URL_STS = sts.url
        }),
        () => Effect.sync(() => delete process.env.AWS_ENDPOINT_URL_STS),
      )
      const sasl = { region: "eu-central-1", credentials, role: { arn: "arn:aws:iam::123456789012:role/relay" } }
      const token = yield* tokenOf(sasl)
      expect(signerOf(token)).toStartWith("ASIAROLE/")
      expect(urlOf(token).searchParams.get("X-Amz-Security-Token")).toBe("role-session")
      status = 403
      const error = yield* Effect.flip(tokenOf(sasl))
      const failure = error instanceof KafkaError ? error.failure : error
      expect(failure?.reason._tag).toBe("SinkMisconfigured")
      expect(failure?.message).toContain("role arn:aws:iam::123456789012:role/relay")
      expect(failure?.message).not.toContain("wJalrXUtnFEMI")
    },
  )
})

const assumed = `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey><SessionToken>role-session</SessionToken>
<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`

const denied = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>`
