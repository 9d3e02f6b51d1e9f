/**
 * Peers that answer wrong, in the protocol of each sink: another request's answer, the answer to a request that was given
 * up, lengths of 2 GB and of -1, a version that nobody knows, a banner without an end, a byte at a time.
 */
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { createServer as createTlsServer, TLSSocket } from "node:tls"

export const wrongs = ["stranger", "2 GB", "-1", "version", "banner", "drip", "late"] as const
export type Wrong = (typeof wrongs)[number]

/** Data that a peer sends: immediately if the protocol has a greeting, otherwise in answer to each request. */
interface Words {
  readonly greets: boolean
  readonly first: Readonly<Record<Wrong, Buffer>>
}

const int32 = (...values: ReadonlyArray<number>): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  values.forEach((value, at) => {
    bytes.writeInt32BE(value, 4 * at)
  })
  return bytes
}
const frame = (type: number, channel: number, size: number): Buffer =>
  Buffer.concat([Buffer.from([type, channel >> 8, channel & 255]), int32(size)])
const info = (more: object = {}): string =>
  `INFO ${JSON.stringify({ server_id: "x", version: "2.10.0", proto: 1, max_payload: 1_048_576, ...more })}\r\n`
const http = (head: string): Buffer => Buffer.from(`HTTP/1.1 ${head}\r\n\r\n`)

/** By protocol. An endless answer continues with the letter A. */
const words: Readonly<Record<string, Words>> = {
  kafka: {
    greets: false,
    first: {
      stranger: int32(8, 0x7ffffff0, 0),
      "2 GB": int32(0x7fffffff, 1),
      "-1": int32(-1, 1),
      // ApiVersions: UNSUPPORTED_VERSION, and none that it knows.
      version: Buffer.concat([int32(10, 1), Buffer.from([0, 35]), int32(0)]),
      banner: Buffer.alloc(0),
      drip: int32(1_000, 1),
      // ApiVersions: no error, and none that it knows.
      late: Buffer.concat([int32(10, 1), Buffer.from([0, 0]), int32(0)]),
    },
  },
  rabbitmq: {
    greets: false,
    first: {
      stranger: Buffer.concat([frame(1, 7, 4), Buffer.from([0, 20, 0, 11, 0xce])]),
      "2 GB": frame(1, 0, 0x7fffffff),
      "-1": frame(1, 0, -1),
      version: Buffer.from("AMQP\x01\x09\x09\x09"),
      banner: Buffer.alloc(0),
      drip: frame(1, 0, 1_000),
      // It sends no more than an open channel.
      late: Buffer.concat([frame(1, 1, 8), Buffer.from([0, 20, 0, 11, 0, 0, 0, 0, 0xce])]),
    },
  },
  nats: {
    greets: true,
    first: {
      stranger: Buffer.from(`${info()}PONG\r\nMSG nobody 99 2\r\nhi\r\n`),
      "2 GB": Buffer.from(info()),
      "-1": Buffer.from(`${info()}MSG a 1 -1\r\n`),
      version: Buffer.from(info({ version: "99.0", proto: 99, max_payload: -1 })),
      banner: Buffer.from("INFO "),
      drip: Buffer.from(info({ filling: "x".repeat(1_000) })),
      late: Buffer.from(`${info()}PONG\r\n`),
    },
  },
  email: {
    greets: true,
    first: {
      stranger: Buffer.from("354 go on\r\n250 ok\r\n"),
      "2 GB": Buffer.from("220-2147483647\r\n220-"),
      "-1": Buffer.from("-1 hello\r\n"),
      version: Buffer.from("999 ESMTP9\r\n"),
      banner: Buffer.from("220-"),
      drip: Buffer.from(`220 ${"x".repeat(1_000)}`),
      late: Buffer.from("220 relay ESMTP\r\n"),
    },
  },
  http: {
    greets: false,
    first: {
      stranger: http("204 OK\r\nx: 1\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0").subarray(20),
      "2 GB": http("500 No\r\ncontent-length: 2147483647"),
      "-1": http("500 No\r\ncontent-length: -1"),
      version: Buffer.from("HTTP/9.9 204 No Content\r\n\r\n"),
      banner: Buffer.from("HTTP/1.1 500 No\r\nx: "),
      drip: http(`500 ${"x".repeat(1_000)}`),
      late: http("204 No Content"),
    },
  },
}

const mail = { from: "relay@example.com", to: ["oncall@example.com"] }
const credentials = { accessKeyId: "faults", secretAccessKey: "faults" }
const sasl = { mechanism: "PLAIN", username: "u", password: "p" }

/** The sinks of AWS, by where their service is. */
const aws: Readonly<Record<string, (url: string) => object>> = {
  sqs: (url) => ({ type: "sqs", queueUrl: `${url}/123456789012/q`, region: "eu-west-1", credentials }),
  sns: (url) => ({ type: "sns", topicArn: "arn:aws:sns:eu-west-1:123456789012:t", endpoint: url, credentials }),
  eventbridge: (url) => ({
    type: "eventbridge",
    eventBusArn: "arn:aws:events:eu-west-1:123456789012:event-bus/b",
    endpoint: url,
    credentials,
  }),
  s3: (url) => ({
    type: "s3",
    bucket: "events",
    region: "us-east-1",
    endpoint: url,
    credentials,
    batch: { linger: "20 millis" },
  }),
}

interface Kind {
  readonly protocol: string
  readonly config: (port: number) => object
}

/** The sinks whose peer answers wrong, by name. */
export const plain: Readonly<Record<string, Kind>> = {
  platformatic: {
    protocol: "kafka",
    config: (port) => ({ type: "kafka", brokers: [`127.0.0.1:${port}`], topic: "t", requestTimeout: "1 second" }),
  },
  kafkajs: {
    protocol: "kafka",
    config: (port) => ({ ...plain.platformatic?.config(port), client: "kafkajs" }),
  },
  "platformatic-sasl": {
    protocol: "kafka",
    config: (port) => ({ ...plain.platformatic?.config(port), sasl }),
  },
  "kafkajs-sasl": {
    protocol: "kafka",
    config: (port) => ({ ...plain.kafkajs?.config(port), sasl }),
  },
  rabbitmq: {
    protocol: "rabbitmq",
    config: (port) => ({
      type: "rabbitmq",
      url: `amqp://127.0.0.1:${port}`,
      routingKey: "q",
      requestTimeout: "1 second",
    }),
  },
  nats: { protocol: "nats", config: (port) => ({ type: "nats", servers: [`127.0.0.1:${port}`], subject: "s" }) },
  email: {
    protocol: "email",
    config: (port) => ({ type: "email", server: `127.0.0.1:${port}`, security: "none", ...mail }),
  },
  http: { protocol: "http", config: (port) => ({ type: "http", url: `http://127.0.0.1:${port}/` }) },
  ...Object.fromEntries(
    Object.entries(aws).map(([name, at]) => [
      name,
      { protocol: "http", config: (port) => at(`http://127.0.0.1:${port}`) } satisfies Kind,
    ]),
  ),
  oauth: {
    protocol: "http",
    config: (port) => ({
      type: "http",
      url: "http://127.0.0.1:9/",
      oauth: { tokenUrl: `http://127.0.0.1:${port}/token`, clientId: "relay", clientSecret: "s" },
    }),
  },
}

/** By a certificate of `ca`. The sinks of AWS trust those whom the process trusts. */
export const encrypted = (ca: string): Readonly<Record<string, (port: number) => object>> => {
  const tls = { ca }
  return {
    ...Object.fromEntries(
      Object.entries(aws).map(([name, at]) => [name, (port: number) => at(`https://127.0.0.1:${port}`)]),
    ),
    platformatic: (port) => ({ ...plain.platformatic?.config(port), tls }),
    kafkajs: (port) => ({ ...plain.kafkajs?.config(port), tls }),
    rabbitmq: (port) => ({ ...plain.rabbitmq?.config(port), url: `amqps://127.0.0.1:${port}`, tls }),
    nats: (port) => ({ ...plain.nats?.config(port), tls }),
    email: (port) => ({ ...plain.email?.config(port), security: "tls", tls }),
    http: (port) => ({ type: "http", url: `https://127.0.0.1:${port}/`, tls }),
    oauth: (port) => ({
      type: "http",
      url: "http://127.0.0.1:9/",
      oauth: { tokenUrl: `https://127.0.0.1:${port}/token`, clientId: "relay", clientSecret: "s", tls },
    }),
  }
}

const endless: ReadonlySet<Wrong> = new Set(["2 GB", "banner"])
const filling = Buffer.alloc(64 * 1_024, "A")
/** Milliseconds between two fillings: 16 MB a second. */
const fillEvery = 4
const dripEvery = 50
/** Milliseconds, longer than any of these clients waits. The NATS client waits for three seconds. */
const lateness = 4_000
/** Sent to a NATS client that was let in. */
const endlessMessage = Buffer.from("PONG\r\nMSG a 1 2147483647\r\n")

/** The answer to a request of Kafka names it. */
const answering = (request: Buffer, answer: Buffer): Buffer => {
  const named = Buffer.from(answer)
  request.copy(named, 4, 8, 12)
  return named
}

const say = (socket: Socket, first: Buffer, wrong: Wrong): void => {
  let at = 0
  const timer = setInterval(
    () => {
      if (wrong === "drip") socket.write(first.subarray(at, ++at))
      else if (!socket.writableNeedDrain) socket.write(filling)
    },
    wrong === "drip" ? dripEvery : fillEvery,
  )
  if (wrong !== "drip") socket.write(first)
  if (wrong !== "drip" && !endless.has(wrong)) clearInterval(timer)
  socket.on("close", () => clearInterval(timer))
}

const later = (socket: Socket, answer: Buffer): void => {
  const timer = setTimeout(() => socket.write(answer), lateness)
  socket.on("close", () => clearTimeout(timer))
}

export interface Peer {
  readonly port: number
  /** Changes the behaviour from now on, with fresh connections. */
  readonly become: (next: Wrong) => void
  /** The most bytes that a client took of one answer. */
  readonly taken: () => number
  readonly close: () => void
}

export const wrongPeer = async (protocol: string): Promise<Peer> => {
  let wrong: Wrong = "stranger"
  let most = 0
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on("error", () => {})
    socket.on("close", () => {
      open.delete(socket)
      most = Math.max(most, socket.bytesWritten - socket.writableLength)
    })
    const { greets, first } = words[protocol] as Words
    const now = wrong
    if (now === "late") {
      socket.once("data", (request: Buffer) => {
        if (!greets) later(socket, protocol === "kafka" ? answering(request, first.late) : first.late)
      })
      if (greets) later(socket, first.late)
    } else if (now === "2 GB" && protocol === "nats") {
      socket.write(first[now])
      socket.once("data", () => say(socket, endlessMessage, now))
    } else if (greets) say(socket, first[now], now)
    else socket.once("data", () => say(socket, first[now], now))
    socket.on("data", () => {})
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    port: (server.address() as AddressInfo).port,
    become: (next) => {
      wrong = next
      for (const socket of open) socket.resetAndDestroy()
    },
    taken: () => most,
    close: () => {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}

/** A peer with an untrusted certificate. It sends nothing else, except the greeting that NATS sends before TLS. */
export const untrusted = async (pem: { readonly cert: string; readonly key: string }, protocol: string) => {
  const secured = createTlsServer(pem, (socket) => socket.on("error", () => {}))
  // A client that does not trust it ends the handshake.
  secured.on("tlsClientError", () => {})
  const server =
    protocol !== "nats"
      ? secured
      : createServer((socket) => {
          socket.on("error", () => {})
          socket.write(info({ tls_required: true }), () =>
            new TLSSocket(socket, { isServer: true, ...pem }).on("error", () => {}),
          )
        })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { port: (server.address() as AddressInfo).port, close: () => server.close() }
}
