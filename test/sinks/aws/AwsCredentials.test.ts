/** Sources of credentials, and the message about a source that fails. */
import { expect } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Schema } from "effect"
import { Sqs } from "../../../src/sinks/sqs/Sqs.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"
import { region } from "../sqs/sqsSink.ts"
import { type AwsServer, awsServer, errorJson } from "./awsServer.ts"

/** The environment of a container, without a credential of this machine's user. */
const container = (more: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = { ...process.env }
      for (const name of Object.keys(before)) if (name.startsWith("AWS_")) delete process.env[name]
      const nowhere = { AWS_CONFIG_FILE: "/no/config", AWS_SHARED_CREDENTIALS_FILE: "/no/credentials" }
      Object.assign(process.env, nowhere, more)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
        Object.assign(process.env, before)
      }),
  )

/** Opens the sink in this process, whose environment it reads. */
const open = (url: string) =>
  Sqs.open(Schema.decodeUnknownSync(Sqs.config)({ region, queueUrl: `${url}/123456789012/events` }))

const given = JSON.stringify({
  AccessKeyId: "AKIA1",
  SecretAccessKey: "canary",
  Token: "canary",
  Expiration: "2100-01-01T00:00:00Z",
})

it.live("a container's endpoint that fails is named with its answer, and used when it gives credentials", function* () {
  let answer: readonly [status: number, body: string] = [500, "no"]
  const endpoint = yield* serve((_, response) => response.writeHead(answer[0]).end(answer[1]))
  yield* container({ AWS_CONTAINER_CREDENTIALS_FULL_URI: `${endpoint.url}/v2/canary-path` })
  const sqs = yield* awsServer()
  const sink = yield* open(sqs.url)
  const at = `the container's endpoint for credentials (${endpoint.url}) gives no credentials:`
  for (const [status, body, tag, said] of [
    [500, "no", "SinkUnavailable", "Server responded with status: 500"],
    [403, JSON.stringify({ Code: "Denied", Message: "no association" }), "SinkMisconfigured", "no association"],
  ] as const) {
    answer = [status, body]
    const reason = yield* reasonOf(sink.check)
    expect(reason?._tag).toBe(tag)
    expect(reason?.message).toContain(at)
    expect(reason?.message).toContain(said)
    expect(reason?.message).not.toContain("canary")
  }
  answer = [200, given]
  expect((yield* sink.send([entry(1)])).size).toBe(0)
  expect(sqs.keys.at(-1)).toBe("AKIA1")
})

it.live("a container's endpoint that can't be reached and an unreadable token file are named", function* () {
  const sqs = yield* awsServer()
  const sink = yield* open(sqs.url)
  yield* container({ AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://127.0.0.1:1/v1" })
  const refused = yield* reasonOf(sink.check)
  expect(refused?._tag).toBe("SinkUnavailable")
  expect(refused?.message).toMatch(/endpoint for credentials \(http:\/\/127\.0\.0\.1:1\) .*ECONNREFUSED/)
  process.env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE = "/no/token"
  const unread = yield* reasonOf(sink.check)
  expect(unread?._tag).toBe("SinkMisconfigured")
  expect(unread?.message).toContain("/no/token")
})

it.live("a key that AWS refuses is looked up again, so a replaced file is used", function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "relay-aws-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true })),
  )
  const file = join(directory, "credentials")
  const write = (key: string) =>
    writeFileSync(file, `[default]\naws_access_key_id = ${key}\naws_secret_access_key = canary\n`)
  write("AKIA1")
  yield* container({ AWS_SHARED_CREDENTIALS_FILE: file })
  let isRevoked = false
  const sqs: AwsServer = yield* awsServer({
    fate: () =>
      isRevoked && sqs.keys.at(-1) === "AKIA1"
        ? { status: 403, body: errorJson("InvalidClientTokenId", "The security token is invalid") }
        : undefined,
  })
  const sink = yield* open(sqs.url)
  expect((yield* sink.send([entry(1)])).size).toBe(0)
  isRevoked = true
  expect((yield* reasonOf(sink.check))?._tag).toBe("SinkMisconfigured")
  write("AKIA2")
  expect((yield* sink.send([entry(2)])).size).toBe(0)
  expect(sqs.keys.at(-1)).toBe("AKIA2")
})
