/** Connections that a NAT or a firewall has silently dropped. */
import { expect } from "bun:test"
import { createServer, request } from "node:http"
import type { Socket } from "node:net"
import { Effect, Fiber } from "effect"
import { makeConnections } from "../../../src/sinks/aws/AwsClient.ts"
import { it } from "../../lib/effect.ts"
import { listening, serve } from "../receiver.ts"
import { entry } from "../samples.ts"
import { openSqs } from "../sqs/sqsSink.ts"
import { errorJson } from "./awsServer.ts"

it.live("after one attempt without an answer no connection that was idle then is used", function* () {
  const dropped = new Set<Socket>()
  const waiting: Array<() => void> = []
  let held = 4
  const { url, sockets } = yield* serve((_, response, { socket }) => {
    if (dropped.has(socket)) return
    waiting.push(() => response.end(JSON.stringify({ Successful: [{ Id: "0" }] })))
    // The first requests are answered together, so that each opens a connection.
    if (waiting.length >= held) for (const answer of waiting.splice(0)) answer()
  })
  const sink = yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` }))
  const send = (sequence: number) => sink.send([entry(sequence)])
  yield* Effect.forEach([1, 2, 3, 4], send, { concurrency: "unbounded" })
  expect(sockets.size).toBe(4)
  for (const socket of sockets) dropped.add(socket)
  held = 1
  expect((yield* Effect.timeoutOption(send(5), "200 millis"))._tag).toBe("None")
  expect((yield* send(6)).size).toBe(0)
})

it.live("after a refusal by the service no idle connection is used: the name may lead elsewhere", function* () {
  const { url, connections } = yield* serve((_, response) => response.writeHead(503).end())
  const sink = yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` }))
  for (const times of [1, 2]) {
    expect((yield* Effect.flip(sink.check)).reason._tag).toBe("SinkUnavailable")
    expect(connections()).toBe(times)
  }
})

it.live("a sink whose credentials were refused leaves no connection open when it closes", function* () {
  const waiting: Array<() => void> = []
  const server = createServer((_, response) => {
    waiting.push(() => response.end(JSON.stringify({ Attributes: {} })))
    if (waiting.length === 2) response.writeHead(403).end(errorJson("ExpiredToken", "The token is expired"))
  })
  // The server never closes an idle connection.
  server.keepAliveTimeout = 0
  const { url, sockets } = yield* listening(server)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const sink = yield* openSqs(() => ({ queueUrl: `${url}/123456789012/events` }))
      const first = yield* Effect.forkChild(sink.check, { startImmediately: true })
      while (waiting.length === 0) yield* Effect.sleep("1 millis")
      expect((yield* Effect.flip(sink.check)).reason._tag).toBe("SinkMisconfigured")
      // The connection of the first check is idle from now on.
      waiting[0]?.()
      yield* Fiber.join(first)
    }),
  )
  // An idle connection would end after 15 seconds.
  for (let turn = 0; turn < 500 && sockets.size > 0; turn++) yield* Effect.sleep("10 millis")
  expect(sockets.size).toBe(0)
})

it.live("a connection that is idle for long is closed before it is used again", function* () {
  const closed = Promise.withResolvers<void>()
  const { port, connections } = yield* serve((_, response, { socket }) => {
    socket.once("close", () => closed.resolve())
    response.end()
  })
  const { requestHandler } = makeConnections(50)
  const ask = Effect.promise(
    () =>
      new Promise<void>((resolve) =>
        request({ port, agent: requestHandler.httpAgent }, (response) => response.resume().on("end", resolve)).end(),
      ),
  )
  yield* ask
  yield* Effect.promise(() => closed.promise)
  yield* ask
  expect(connections()).toBe(2)
})
