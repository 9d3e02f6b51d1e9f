/** Reasons why a broker closes its connections, by scripted servers. `causes.md` has the behaviour of Apache Kafka. */
import { describe, expect } from "bun:test"
import { createServer, type Socket } from "node:net"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type ClientOptions, closed, kafkaError, saslMissing } from "../../../src/sinks/kafka/KafkaClient.ts"
import { diagnose } from "../../../src/sinks/kafka/KafkaErrors.ts"
import { it } from "../../lib/effect.ts"
import { listening } from "../receiver.ts"

const answer = Buffer.from([0, 0, 0, 6, 0, 0, 0, 1, 0, 0])
const login = { mechanism: "PLAIN", username: "relay", password: "canary-password" } as const

/** The diagnosis of a server, and all bytes sent to it. */
const found = Effect.fnUntraced(function* (
  answers: (socket: Socket, request: number) => void,
  more: Partial<ClientOptions> = {},
) {
  const sent: Array<Buffer> = []
  const server = createServer((socket) => {
    let request = 0
    answers(socket, request)
    socket.on("data", (chunk) => {
      sent.push(Buffer.from(chunk))
      request += 1
      answers(socket, request)
    })
  })
  const { port, sockets } = yield* listening(server)
  const options = {
    clientId: "relay",
    brokers: [`127.0.0.1:${port}`],
    compression: "none",
    requestTimeout: 1_000,
    ...more,
  } as const
  const { code } = yield* Effect.flip(diagnose(kafkaError(closed), options))
  return { code, sent, sockets }
})

describe("a broker that closed a connection", () => {
  it.effect("that answers again was restarted, so no cause is named", function* () {
    const { code } = yield* found((socket, request) => request > 0 && socket.write(answer))
    expect(code).toBe(closed)
  })

  it.effect("requires a login if it answers only the greeting, in pieces or whole", function* () {
    const greets = (socket: Socket, request: number) => {
      if (request === 2) return socket.end()
      if (request === 0) return
      socket.write(answer.subarray(0, 3))
      setImmediate(() => socket.write(answer.subarray(3)))
    }
    expect((yield* found(greets)).code).toBe(saslMissing)
    const { code, sent } = yield* found(greets, { sasl: login })
    expect(code).toBe(closed)
    expect(Buffer.concat(sent).toString("latin1")).not.toContain(login.password)
  })

  it.effect("that closes each new connection, with TLS and without, is reported without a cause", function* () {
    expect((yield* found((socket) => socket.end())).code).toBe(closed)
    expect((yield* found((socket) => socket.end(), { tls: {} })).code).toBe(closed)
  })

  it.effect("that isn't a broker, but sends without an end, is abandoned", function* () {
    const { code, sockets } = yield* found((socket) => socket.write(Buffer.alloc(100_000, 0x7f)))
    expect(code).toBe(closed)
    for (const socket of sockets)
      yield* Effect.callback<void>((resume) => void socket.on("close", () => resume(Effect.void)))
  })

  it.effect("that stays silent is abandoned after two seconds", function* () {
    const asking = yield* Effect.forkChild(found(() => {}))
    yield* TestClock.adjust("10 seconds")
    while (asking.pollUnsafe() === undefined) {
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      yield* TestClock.adjust("2 seconds")
    }
    expect((yield* Fiber.join(asking)).code).toBe(closed)
  })
})
