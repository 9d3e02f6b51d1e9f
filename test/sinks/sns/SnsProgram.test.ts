/**
 * The whole program with SNS sinks, as a process: RELAY_UNDER chooses the
 * runtime, or the binary, which must find the AWS SDK inside itself.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { it } from "../../lib/effect.ts"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { seeded } from "../../lib/seeded.ts"
import { makeTopic } from "../../parts/Queues.ts"
import { bodies, deliver, writeConfig } from "../program.ts"
import { errorXml, snsServer } from "./snsServer.ts"
import { credentials, topicArn, withMoto } from "./snsSink.ts"

const role = { arn: "arn:aws:iam::123456789012:role/relay" }

withMoto("relay run with SNS sinks", (shared) => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-sns-run-"))
  beforeAll(() => {
    writeFileSync(
      join(cwd, "aws.ini"),
      "[profile relay]\naws_access_key_id = OFTHEPROFILE\naws_secret_access_key = x\n",
    )
  })
  afterAll(() => rmSync(cwd, { recursive: true }))

  /** Nothing of the machine that the tests run on: no metadata service, no files of a user. */
  const nothing = { AWS_EC2_METADATA_DISABLED: "true", AWS_CONFIG_FILE: "aws.ini", AWS_SHARED_CREDENTIALS_FILE: "none" }

  const bodiesOf = async (topic: {
    readonly received: (count: number) => Effect.Effect<ReadonlyArray<{ body: string }>>
  }) => (await Effect.runPromise(topic.received(20))).map(({ body }) => body)

  test("delivers to topics, standard and FIFO, as text and as CloudEvents", async () => {
    const [plain, ordered, events] = [
      await makeTopic(shared().url),
      await makeTopic(shared().url, { fifo: true }),
      await makeTopic(shared().url),
    ]
    const sns = (arn: string, more: object = {}) => ({
      type: "sns",
      topicArn: arn,
      endpoint: shared().url,
      credentials,
      ...more,
    })
    const sinks = {
      plain: sns(plain.arn),
      ordered: sns(ordered.arn, { order: "key" }),
      events: sns(events.arn, { format: "cloudevents" }),
    }
    const { config, url } = await writeConfig(cwd, sinks)
    const validated = await relay(["validate", "-c", config], { cwd, env: nothing })
    expect([validated.code, validated.stderr]).toEqual([
      0,
      expect.stringContaining("sink plain: SNS takes 262144 bytes"),
    ])
    const running = await startRelay(config, { cwd, env: nothing })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    expect((await bodiesOf(plain)).toSorted()).toEqual(sent.toSorted())
    expect(await bodiesOf(ordered)).toEqual([...sent])
    expect((await bodiesOf(events)).map((body) => JSON.stringify(JSON.parse(body).data)).toSorted()).toEqual(
      sent.toSorted(),
    )
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(credentials.secretAccessKey)
  }, 60_000)

  it.live(
    "keeps the order of each key on a FIFO topic that fails one message in four",
    () =>
      Effect.gen(function* () {
        const random = seeded(4)
        const refuse = () => (random() < 0.25 ? (["InternalError", false] as const) : undefined)
        const server = yield* snsServer({ refuse })
        const sns = { type: "sns", topicArn: `${topicArn}.fifo`, endpoint: server.url, credentials }
        const retry = { initial: "10 millis", max: "50 millis" }
        const { config, url } = yield* Effect.promise(() =>
          writeConfig(cwd, { ordered: { ...sns, order: "key", delivery: { retry } } }),
        )
        const running = yield* Effect.promise(() => startRelay(config, { cwd }))
        const sent = bodies(100, 4)
        for (const one of sent) yield* Effect.promise(() => deliver(url, one))
        while (server.passed().length < sent.length) yield* server.asked(server.requests.length + 1)
        expect(yield* Effect.promise(() => running.kill())).toBe(0)
        expect(server.requests.flat().length).toBeGreaterThan(sent.length)
        expect(
          server
            .passed()
            .map(({ text }) => text)
            .toSorted(),
        ).toEqual(sent.toSorted())
      }),
    60_000,
  )

  it.live(
    "signs by the key of the config, of a profile, of the environment, or of a role that it assumes",
    () =>
      Effect.gen(function* () {
        const sources = {
          own: { credentials },
          profile: { profile: "relay" },
          environment: {},
          role: { credentials, role: { ...role, externalId: "x" } },
        }
        const keys: Record<string, RegExp> = {
          own: /^test$/,
          profile: /^OFTHEPROFILE$/,
          environment: /^OFTHEENVIRONMENT$/,
          // What STS gives begins so.
          role: /^ASIA/,
        }
        const env = {
          ...nothing,
          AWS_ACCESS_KEY_ID: "OFTHEENVIRONMENT",
          AWS_SECRET_ACCESS_KEY: "x",
          AWS_ENDPOINT_URL_STS: shared().url,
        }
        for (const [name, source] of Object.entries(sources)) {
          const server = yield* snsServer()
          const sink = { type: "sns", topicArn, endpoint: server.url, ...source }
          const { config } = yield* Effect.promise(() => writeConfig(cwd, { [name]: sink }))
          const { stdout } = yield* Effect.promise(() => relay(["validate", "-c", config], { cwd, env }))
          expect(stdout).toContain("all reached")
          expect(server.keys).toEqual([expect.stringMatching(keys[name] ?? /never/)])
        }
      }),
    60_000,
  )

  it.live(
    "validate says where credentials are missing, who may not have a role, and which topic is not there",
    () =>
      Effect.gen(function* () {
        const { arn } = yield* Effect.promise(() => makeTopic(shared().url))
        const sts = yield* snsServer({ fate: () => ({ status: 403, body: errorXml("AccessDenied") }) })
        const sns = (more: object) => ({ type: "sns", topicArn: arn, endpoint: shared().url, ...more })
        const sinks = {
          keyless: sns({}),
          profiled: sns({ profile: "nobody" }),
          distrusted: sns({ credentials, role }),
          nowhere: sns({ credentials, topicArn: `${arn}-nowhere` }),
        }
        const { config } = yield* Effect.promise(() => writeConfig(cwd, sinks))
        const env = { ...nothing, AWS_ENDPOINT_URL_STS: sts.url }
        const { code, stdout } = yield* Effect.promise(() => relay(["validate", "-c", config], { cwd, env }))
        expect(code).toBe(1)
        const line = (sink: string) => stdout.split("\n").find((line) => line.trimStart().startsWith(sink))
        expect(line("keyless")).toContain('no credentials were found: set "credentials" or "profile"')
        expect(line("profiled")).toContain("the profile nobody gives no credentials")
        expect(line("distrusted")).toContain(`AWS STS (for the role ${role.arn}): the credentials may not assume it`)
        expect(line("nowhere")).toContain('there is no such topic: make it, or correct "topicArn"')
      }),
    60_000,
  )

  test("config/examples/sns.json sends failures, as it is but for its addresses", async () => {
    const topic = await makeTopic(shared().url)
    const example = readFileSync(join(import.meta.dir, "../../../config/examples/sns.json"), "utf8")
    const config = "example.json"
    const [deliveries, admin] = [await freePort(), await freePort()]
    const listens = `"listen": "127.0.0.1:${deliveries}", "admin": { "listen": "127.0.0.1:${admin}" },`
    writeFileSync(join(cwd, config), example.replace(/^\{/m, `{ ${listens}`))
    const env = { SNS_ENDPOINT: shared().url, SNS_TOPIC: topic.arn }
    expect((await relay(["validate", "-c", config], { cwd, env })).stdout).toContain("all reached")
    const running = await startRelay(config, { cwd, env })
    for (const type of [
      "appointment.created",
      "appointment.meeting.create_failed",
      "connected_account.refresh_failed",
    ]) {
      expect((await relay(["trigger", type, "-c", config], { cwd, env })).code).toBe(0)
    }
    const sent = await Effect.runPromise(topic.received(2))
    expect(sent.map(({ attributes }) => attributes.type).toSorted()).toEqual([
      "appointment.meeting.create_failed",
      "connected_account.refresh_failed",
    ])
    expect(await running.kill()).toBe(0)
  }, 60_000)

  test("starts while SNS is away, accepts, says that it waits, and delivers when it comes", async () => {
    const topic = await makeTopic(shared().url)
    const port = await freePort()
    const { config, url } = await writeConfig(cwd, {
      fanout: {
        type: "sns",
        topicArn: topic.arn,
        endpoint: `http://127.0.0.1:${port}`,
        credentials,
        delivery: { retry: { initial: "200 millis", max: "1 second" } },
      },
    })
    const running = await startRelay(config, { cwd })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    await running.prints(/sink fanout does not deliver: SNS topic .* can't be reached/)
    const way = createServer((socket) => {
      const there = connect(Number(new URL(shared().url).port), "127.0.0.1")
      socket.on("error", () => there.destroy()).pipe(there)
      there.on("error", () => socket.destroy()).pipe(socket)
    }).listen(port, "127.0.0.1")
    await running.prints("sink fanout is resumed")
    expect((await bodiesOf(topic)).toSorted()).toEqual(sent.toSorted())
    expect(await running.kill()).toBe(0)
    way.close()
  }, 60_000)
})
