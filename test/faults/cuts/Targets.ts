/** The sinks whose conversations are cut, each with a real part behind a proxy of its own. */
import { createHash } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { makeAuthority } from "../../lib/authority.ts"
import { freePort } from "../../lib/port.ts"
import { region as bucketRegion, linesIn, makeBucket } from "../../parts/Buckets.ts"
import { CutProxy } from "../../parts/CutProxy.ts"
import { bytesOf, makeBus, makeQueue, makeTopic, type Received, region, type Topic } from "../../parts/Queues.ts"
import { bodyOf, numberOf } from "../relay/Traffic.ts"

export interface Target {
  readonly name: string
  readonly config: object
  readonly proxy: CutProxy
  /** The numbers of the events that it has, in its order, and -1 for any other content. */
  readonly arrived: () => ReadonlyArray<number> | Promise<ReadonlyArray<number>>
}

/** Started targets, and how to stop their part. */
export interface Part {
  readonly targets: ReadonlyArray<Target>
  readonly close: () => Promise<unknown>
}

/** Returns an event's number, or -1 if its bytes are not those that were sent. */
const numberIn = (body: Uint8Array | string): number => {
  const text = typeof body === "string" ? body : Buffer.from(body).toString()
  const number = numberOf(JSON.parse(text).id)
  return text === bodyOf(number) ? number : -1
}

const proxyTo = async (port: () => number): Promise<CutProxy> => {
  const proxy = new CutProxy(port)
  await proxy.listen()
  return proxy
}

/** A receiver that verifies events and refuses garbled ones. */
const receiver = (secured?: typeof pem) => {
  const numbers: Array<number> = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    ...(secured !== undefined && { tls: secured }),
    fetch: async (request) => {
      const number = verified(await request.text())
      if (number === -1) return new Response(null, { status: 500 })
      numbers.push(number)
      return new Response(null, { status: 204 })
    },
  })
  return { port: server.port ?? 0, numbers, close: () => server.stop(true) }
}

const verified = (text: string): number => {
  try {
    return numberIn(text)
  } catch {
    return -1
  }
}

const directory = mkdtempSync(join(tmpdir(), "relay-faults-cuts-"))
process.on("exit", () => rmSync(directory, { recursive: true, force: true }))
const authority = makeAuthority(directory)
const { pem } = authority.issue("server", "IP:127.0.0.1")
const tls = { ca: authority.ca }

const http = async (): Promise<Part> => {
  const receivers = { http: receiver(), https: receiver(pem), oauth: receiver() }
  // A token is fetched for nearly every attempt.
  const tokens = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ access_token: "a-token", token_type: "Bearer", expires_in: 1 }),
  })
  const [plain, secured, token] = await Promise.all([
    proxyTo(() => receivers.http.port),
    proxyTo(() => receivers.https.port),
    proxyTo(() => tokens.port ?? 0),
  ])
  const oauth = { tokenUrl: `http://127.0.0.1:${token.port}/token`, clientId: "relay", clientSecret: "a-secret" }
  return {
    targets: [
      {
        name: "http",
        config: { type: "http", url: `http://127.0.0.1:${plain.port}/` },
        proxy: plain,
        arrived: () => receivers.http.numbers,
      },
      {
        name: "https",
        config: { type: "http", url: `https://127.0.0.1:${secured.port}/`, tls },
        proxy: secured,
        arrived: () => receivers.https.numbers,
      },
      {
        name: "oauth",
        config: { type: "http", url: `http://127.0.0.1:${receivers.oauth.port}/`, oauth },
        proxy: token,
        arrived: () => receivers.oauth.numbers,
      },
    ],
    close: () => Promise.all([...Object.values(receivers).map((one) => one.close()), tokens.stop(true)]),
  }
}

const email = async (): Promise<Part> => {
  const { startSmtp } = await import("../../sinks/email/smtpServer.ts")
  const auth = { username: "relay", password: "a-password" }
  const smtp = await startSmtp({
    ...pem,
    authOptional: false,
    onAuth: ({ username = "" }, _, done) => done(null, { user: username }),
  })
  const proxy = await proxyTo(() => smtp.port)
  const mail = { from: "relay@example.com", to: ["oncall@example.com"], subject: "{{id}}" }
  return {
    targets: [
      {
        name: "email",
        config: { type: "email", server: `127.0.0.1:${proxy.port}`, security: "starttls", tls, auth, ...mail },
        proxy,
        arrived: () => smtp.taken.map(({ mail: { subject } }) => numberOf(subject)),
      },
    ],
    close: smtp.close,
  }
}

const nats = async (): Promise<Part> => {
  const { lacking, startNats } = await import("../../parts/Nats.ts")
  if (lacking() !== undefined) return { targets: [], close: async () => {} }
  const { makeStream } = await import("../../parts/Streams.ts")
  const server = await startNats()
  const stream = await makeStream(server.server)
  const proxy = await proxyTo(() => server.port)
  const numbers: Array<number> = []
  return {
    targets: [
      {
        name: "nats",
        config: { type: "nats", servers: [`127.0.0.1:${proxy.port}`], subject: `${stream.name}.events` },
        proxy,
        arrived: async () => {
          for (const { body } of await stream.received(0, numbers.length + 1)) numbers.push(numberIn(body))
          return numbers
        },
      },
    ],
    close: server.stop,
  }
}

const rabbitMq = async (): Promise<Part> => {
  const { lacking, makeRabbit } = await import("../../parts/RabbitMq.ts")
  if (lacking() !== undefined) return { targets: [], close: async () => {} }
  const { drain, makeQueue } = await import("../../parts/RabbitQueues.ts")
  const rabbit = await makeRabbit()
  await rabbit.start()
  const queue = await Effect.runPromise(makeQueue(rabbit.url(), { exchange: "" }))
  const proxy = await proxyTo(() => Number(rabbit.address.split(":")[1]))
  const url = new URL(rabbit.url())
  url.port = String(proxy.port)
  const numbers: Array<number> = []
  return {
    targets: [
      {
        name: "rabbitmq",
        config: { type: "rabbitmq", url: String(url), routingKey: queue, requestTimeout: "1 second" },
        proxy,
        arrived: async () => {
          for (const body of await drain(rabbit.url(), queue)) numbers.push(numberIn(body))
          return numbers
        },
      },
    ],
    close: rabbit.stop,
  }
}

/** moto accepts altered requests, so this first compares the body with the hash that was signed, as AWS does. */
const verifying = (moto: string) =>
  Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const body = await request.bytes()
      const hash = createHash("sha256").update(body).digest("hex")
      if (request.headers.get("x-amz-content-sha256") !== hash) return new Response(null, { status: 500 })
      const { pathname } = new URL(request.url)
      return fetch(`${moto}${pathname}`, { method: request.method, headers: request.headers, body })
    },
  })

/** Reads the numbers of all events that a queue has received. `bodyIn` returns the event's bytes in a message. */
const taken = (queue: { readonly received: Topic["received"] }, bodyIn: (message: Received) => Uint8Array | string) => {
  const next = async (before: number): Promise<ReadonlyArray<number>> => {
    const all = await Effect.runPromise(queue.received(before))
    return all.length > before ? next(all.length) : all.map((message) => numberIn(bodyIn(message)))
  }
  return () => next(0)
}

const aws = async (): Promise<Part> => {
  const { hasPython } = await import("../../parts/venv.ts")
  if (!hasPython()) return { targets: [], close: async () => {} }
  const { makeMoto } = await import("../../parts/Moto.ts")
  const moto = await makeMoto()
  await moto.start()
  const front = verifying(moto.url)
  const [queue, topic, bus, bucket] = await Promise.all([
    makeQueue(moto.url),
    makeTopic(moto.url),
    makeBus(moto.url),
    makeBucket(moto.url),
  ])
  const proxies = await Promise.all([1, 2, 3, 4].map(() => proxyTo(() => front.port ?? 0)))
  const [bySqs, bySns, byEvents, byS3] = proxies as [CutProxy, CutProxy, CutProxy, CutProxy]
  const by = (proxy: CutProxy) => `http://127.0.0.1:${proxy.port}`
  const credentials = { accessKeyId: "faults", secretAccessKey: "faults" }
  return {
    targets: [
      {
        name: "sqs",
        config: { type: "sqs", queueUrl: `${by(bySqs)}${new URL(queue.url).pathname}`, region, credentials },
        proxy: bySqs,
        arrived: taken(queue, bytesOf),
      },
      {
        name: "sns",
        config: { type: "sns", topicArn: topic.arn, endpoint: by(bySns), credentials },
        proxy: bySns,
        arrived: taken(topic, bytesOf),
      },
      {
        name: "eventbridge",
        config: { type: "eventbridge", eventBusArn: bus.arn, endpoint: by(byEvents), credentials },
        proxy: byEvents,
        arrived: taken(bus, ({ body }) => JSON.stringify(JSON.parse(body).detail)),
      },
      {
        name: "s3",
        config: {
          type: "s3",
          bucket: bucket.name,
          region: bucketRegion,
          endpoint: by(byS3),
          credentials,
          batch: { linger: "20 millis" },
        },
        proxy: byS3,
        arrived: async () => (await Effect.runPromise(linesIn(bucket)(0))).map(numberIn),
      },
    ],
    close: () => Promise.all([front.stop(true), moto.stop()]),
  }
}

/** By both clients: plain, by TLS, and with a login. Each has a listener that names its proxy. */
const kafka = async (): Promise<Part> => {
  const { makeBroker, unavailable, user } = await import("../../parts/Kafka.ts")
  if (unavailable() !== undefined) return { targets: [], close: async () => {} }
  const { Exit, Scope } = await import("effect")
  const { follow, makeTopic } = await import("../../parts/Topics.ts")
  const login = { mechanism: "SCRAM-SHA-256", username: user.name, password: user.password }
  const ways = { plain: "PLAINTEXT", tls: "SSL", sasl: "SASL_PLAINTEXT" } as const
  const listeners = await Promise.all(
    ["platformatic", "kafkajs"].flatMap((client) =>
      Object.entries(ways).map(async ([way, protocol]) => {
        const port = await freePort()
        const proxy = await proxyTo(() => port)
        return { client, way, name: `${client}${way}`.toUpperCase(), protocol, port, proxy, advertised: proxy.port }
      }),
    ),
  )
  const broker = await makeBroker({}, listeners)
  await broker.start()
  const topics = await Promise.all(listeners.map(() => makeTopic(broker.plain)))
  const scope = await Effect.runPromise(Scope.make())
  const received = await Effect.runPromise(Scope.provide(follow(broker.plain, topics), scope))
  return {
    targets: listeners.map(({ client, way, proxy }, index) => ({
      name: `kafka-${client}-${way}`,
      config: {
        type: "kafka",
        client,
        brokers: [`127.0.0.1:${proxy.port}`],
        topic: topics[index],
        requestTimeout: "1 second",
        ...(way === "tls" && { tls: { ca: broker.certificates.ca } }),
        ...(way === "sasl" && { sasl: login }),
      },
      proxy,
      arrived: async () =>
        (await received(0)).flatMap(({ topic, value }) => (topic === topics[index] ? [numberIn(value)] : [])),
    })),
    close: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      await broker.stop()
    },
  }
}

/** Starts every part that this machine supports. */
export const startParts = (): Promise<ReadonlyArray<Part>> =>
  Promise.all([http(), email(), nats(), rabbitMq(), aws(), kafka()])
