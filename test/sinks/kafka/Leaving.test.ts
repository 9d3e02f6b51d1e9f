/** A client that is abandoned while it connects to a server that accepts and never answers. */
import { describe, expect } from "bun:test"
import { createServer } from "node:net"
import { Effect, Exit, Fiber, Scope } from "effect"
import { it } from "../../lib/effect.ts"
import { listening } from "../receiver.ts"
import { entry } from "../samples.ts"
import { clients, openKafka } from "./kafkaSink.ts"

describe("a Kafka client that is given up while it connects", () => {
  for (const client of clients) {
    it.live(`${client}: takes its connections with it`, function* () {
      const { port, sockets, connections } = yield* listening(createServer((socket) => socket.resume()))
      const scope = yield* Scope.make()
      const sink = yield* Scope.provide(
        openKafka(() => ({ client, brokers: [`127.0.0.1:${port}`], topic: "events", requestTimeout: "10 minutes" })),
        scope,
      )
      const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
      while (connections() === 0) yield* Effect.promise(() => Bun.sleep(1))
      yield* Fiber.interrupt(sending)
      yield* Scope.close(scope, Exit.void)
      // A leaked connection would stay open for the whole request timeout.
      while (sockets.size > 0) yield* Effect.promise(() => Bun.sleep(1))
      expect(sockets.size).toBe(0)
    })
  }
})
