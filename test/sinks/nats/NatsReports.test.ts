/** Cases from public reports about NATS (`test/reports/sinks.md`), with a real server. */
import { describe, expect } from "bun:test"
import { mkdtempSync } from "node:fs"
import { type AddressInfo, connect as connectTo, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createServer } from "node:tls"
import { connect } from "@nats-io/transport-node"
import { Effect } from "effect"
import { makeAuthority } from "../../lib/authority.ts"
import { it } from "../../lib/effect.ts"
import { type NatsServer, startNats } from "../../parts/Nats.ts"
import { makeOperator } from "../../parts/natsOperator.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { openNats, reasons, streamOn, withNats } from "./natsSink.ts"

const started = (config: string) =>
  Effect.acquireRelease(
    Effect.promise(() => startNats(config)),
    (own) => Effect.promise(own.stop),
  )

/** A server in front of `behind` that starts with the TLS handshake, as NATS can since 2.10.4. */
const tlsFirst = (behind: NatsServer) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { ca, issue } = makeAuthority(mkdtempSync(join(tmpdir(), "relay-nats-first-")))
      const sockets = new Set<Socket>()
      const server = createServer(issue("nats", "IP:127.0.0.1").pem, (socket) => {
        const inner = connectTo(behind.port, "127.0.0.1")
        for (const one of [socket, inner]) sockets.add(one.on("error", () => {}))
        socket.pipe(inner)
        inner.once("data", (greeting) => {
          socket.write(greeting.toString().replace("INFO {", 'INFO {"tls_required":true,'))
          inner.pipe(socket)
        })
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return { ca, server, sockets, address: `127.0.0.1:${(server.address() as AddressInfo).port}` }
    }),
    ({ server, sockets }) =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      }),
  )

withNats("NATS as reported", (plain) => {
  describe("a server", () => {
    it.live("that takes no more connections is reported in the server's own words", function* () {
      const own = yield* started("max_connections: 1")
      yield* Effect.acquireRelease(
        Effect.promise(() => connect({ servers: own.server })),
        (only) => Effect.promise(() => only.close()),
      )
      const sink = yield* openNats(() => ({ servers: [own.server], subject: "events" }))
      // The order of the refusal, the end of the connection and the login varies.
      for (let time = 0; time < 20; time++) {
        expect(yield* reasonOf(sink.check)).toMatchObject({
          _tag: "SinkUnavailable",
          message: `NATS ${own.server} turns the relay away (maximum connections exceeded)`,
        })
      }
    })

    it.live(
      "that begins with TLS can be used if the config says so, and otherwise the status names the key",
      function* () {
        const { name, received } = yield* streamOn(plain)()
        const { ca, address } = yield* tlsFirst(plain())
        const opened = (more: object) =>
          openNats(() => ({ servers: [address], subject: `${name}.events`, tls: { ca }, ...more }))
        expect(yield* reasonOf((yield* opened({})).check)).toMatchObject({
          _tag: "SinkUnavailable",
          message: expect.stringMatching(/does not answer; .*\(handshake_first\), set "tlsFirst"$/),
        })
        expect((yield* (yield* opened({ tlsFirst: true })).send([entry(1)])).size).toBe(0)
        expect(yield* Effect.promise(() => received(1))).toHaveLength(1)
      },
    )

    it.live("that begins with TLS and never ends its greeting isn't a NATS server", function* () {
      const { ca, issue } = makeAuthority(mkdtempSync(join(tmpdir(), "relay-nats-endless-")))
      const server = createServer(issue("nats", "IP:127.0.0.1").pem, (socket) => {
        socket.on("error", () => {})
        const write = (): void => {
          while (socket.write("A".repeat(65_536)));
        }
        socket.on("drain", write)
        write()
      })
      yield* Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
      const sink = yield* openNats(() => ({ servers: [address], subject: "s", tls: { ca }, tlsFirst: true }))
      expect((yield* reasonOf(sink.check))?.message).toContain("no NATS server")
    })

    it.live("that refuses expired credentials is distinguished from a server that refuses the login", function* () {
      const operator = makeOperator()
      const own = yield* started(operator.config)
      const credentials = operator.credentials(-60)
      const sink = yield* openNats(() => ({ servers: [own.server], subject: "events", auth: { credentials } }))
      expect((yield* reasonOf(sink.check))?.message).toMatch(/the credentials have expired: renew those of "auth"$/)
    })
  })

  describe("an account", () => {
    it.live("without storage left makes the lane wait, whatever the subject is", function* () {
      const login = { user: "relay", pass: "relay" }
      const own = yield* started(
        `accounts { A { jetstream { max_file: 100K, max_mem: 100K }, users: [${JSON.stringify(login)}] } }`,
      )
      const { name } = yield* streamOn(
        () => own,
        () => login,
      )()
      const auth = { username: "relay", password: "relay" }
      const sink = yield* openNats(() => ({ servers: [own.server], subject: `${name}.{{type}}`, auth }))
      const large = (sequence: number) =>
        entry(sequence, { body: bytes(JSON.stringify(envelope(sequence, { text: "x".repeat(40_000) }))) })
      const failures = yield* sink.send([1, 2, 3, 4].map(large))
      expect(new Set(Object.values(reasons(failures)))).toEqual(new Set(["SinkThrottled"]))
      expect([...failures.values()][0]?.message).toMatch(
        /no storage left for JetStream: raise its limits, .*\(resource limits exceeded for account, 10002\)$/,
      )
    })
  })
})
