/** The whole program with SNS sinks. */
import { afterAll, expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { connect, createServer } from "node:net"
import { join } from "node:path"
import { Effect } from "effect"
import { it } from "../../lib/effect.ts"
import { bodies, deliver, writeConfig } from "../../lib/kit.ts"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { seeded } from "../../lib/seeded.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { makeTopic } from "../../parts/Queues.ts"
import { bodiesOf, dataOf, nothing, typesOf } from "../aws/awsProgram.ts"
import { programContract } from "../programContract.ts"
import { errorXml, snsServer } from "./snsServer.ts"
import { credentials, topicArn, withMoto } from "./snsSink.ts"

const role = { arn: "arn:aws:iam::123456789012:role/relay" }

withMoto("the whole program with SNS sinks", (shared) => {
  const cwd = temporaryDirectory("sns-run-")
  const sns = (arn: string, more: object = {}) => ({
    type: "sns",
    topicArn: arn,
    endpoint: shared().url,
    credentials,
    ...more,
  })

  /** Accepts connections at a port, and passes them on to moto. */
  const passOn = (port: number) =>
    createServer((socket) => {
      const there = connect(Number(new URL(shared().url).port), "127.0.0.1")
      socket.on("error", () => there.destroy()).pipe(there)
      there.on("error", () => socket.destroy()).pipe(socket)
    }).listen(port, "127.0.0.1")

  // An STS that refuses every role.
  const sts = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(errorXml("AccessDenied"), { status: 403 }),
  })
  afterAll(() => sts.stop(true))

  programContract({
    service: "SNS",
    env: nothing,
    delivers: {
      how: "topics, standard and FIFO, as text and as CloudEvents",
      make: async () => {
        const plain = await makeTopic(shared().url)
        const ordered = await makeTopic(shared().url, { fifo: true })
        const events = await makeTopic(shared().url)
        return {
          sinks: {
            plain: sns(plain.arn),
            ordered: sns(ordered.arn, { order: "key" }),
            events: sns(events.arn, { format: "cloudevents" }),
          },
          advises: "sink plain: SNS takes 262144 bytes",
          received: { plain: bodiesOf(plain), ordered: bodiesOf(ordered), events: dataOf(events) },
          ordered: ["ordered"],
          secrets: [credentials.secretAccessKey],
        }
      },
    },
    refuses: {
      what: "that credentials are missing, who may not assume a role, or that the topic is not there",
      make: async () => {
        const { arn } = await makeTopic(shared().url)
        const keyless = { type: "sns", topicArn: arn, endpoint: shared().url }
        return {
          sinks: {
            keyless,
            profiled: { ...keyless, profile: "nobody" },
            distrusted: sns(arn, { role }),
            nowhere: sns(`${arn}-nowhere`),
          },
          env: { AWS_ENDPOINT_URL_STS: sts.url.origin },
          says: {
            keyless: 'no credentials were found: set "credentials" or "profile"',
            profiled: "the profile nobody gives no credentials",
            distrusted: `AWS STS (for the role ${role.arn}): the credentials may not assume it`,
            nowhere: 'there is no such topic: make it, or correct "topicArn"',
          },
        }
      },
    },
    waits: async () => {
      const topic = await makeTopic(shared().url)
      const port = await freePort()
      let way: ReturnType<typeof passOn> | undefined
      const endpoint = `http://127.0.0.1:${port}`
      return {
        sink: sns(topic.arn, { endpoint }),
        failure: `SNS topic ${topic.arn} at ${endpoint} can't be reached`,
        start: async () => {
          way = passOn(port)
        },
        received: bodiesOf(topic),
        stop: async () => way?.close(),
      }
    },
    example: {
      file: "sns",
      sends: "failures",
      make: async () => {
        const topic = await makeTopic(shared().url)
        return {
          env: { SNS_ENDPOINT: shared().url, SNS_TOPIC: topic.arn },
          types: ["appointment.created", "appointment.meeting.create_failed", "connected_account.refresh_failed"],
          check: async () =>
            expect(await typesOf(topic, 2)).toEqual([
              "appointment.meeting.create_failed",
              "connected_account.refresh_failed",
            ]),
        }
      },
    },
  })

  it.live(
    "keeps the order of each key on a FIFO topic that fails one message in four",
    function* () {
      const random = seeded(4)
      const refuse = () => (random() < 0.25 ? (["InternalError", false] as const) : undefined)
      const server = yield* snsServer({ refuse })
      const retry = { initial: "10 millis", max: "50 millis" }
      const { config, url } = yield* Effect.promise(() =>
        writeConfig(cwd, {
          ordered: sns(`${topicArn}.fifo`, { endpoint: server.url, order: "key", delivery: { retry } }),
        }),
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
    },
    60_000,
  )

  it.live(
    "signs by the key of the config, of a profile, of the environment, or of a role that it assumes",
    function* () {
      const profile = "[profile relay]\naws_access_key_id = OFTHEPROFILE\naws_secret_access_key = x\n"
      writeFileSync(join(cwd, "aws.ini"), profile)
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
        // Access keys from STS have this prefix.
        role: /^ASIA/,
      }
      const env = {
        ...nothing,
        AWS_CONFIG_FILE: "aws.ini",
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
    },
    60_000,
  )
})
