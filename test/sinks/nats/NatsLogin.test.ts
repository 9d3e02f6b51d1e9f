/** Logins to a NATS server, permissions, and the certificates of both sides. */
import { afterAll, beforeAll, describe, expect } from "bun:test"
import { connect, credsAuthenticator, nkeys } from "@nats-io/transport-node"
import { Effect } from "effect"
import { type Authority, makeAuthority } from "../../lib/authority.ts"
import { readPage } from "../../lib/docs.ts"
import { it } from "../../lib/effect.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { isModern, type NatsServer, startNats } from "../../parts/Nats.ts"
import { makeOperator } from "../../parts/natsOperator.ts"
import { entry, reasonOf } from "../samples.ts"
import { openNats, reasons, streamOn, withNats } from "./natsSink.ts"

withNats("the NATS sink's logins and certificates", () => {
  describe("who logs in", () => {
    const user = nkeys.createUser()
    const decoder = new TextDecoder()
    const password = "a password of this test"
    let server: NatsServer
    const admin = () => ({ user: "admin", pass: password })
    const limited = { publish: { allow: ["open.>", "$JS.API.>", "$SYS.REQ.USER.INFO"] }, subscribe: ["_INBOX_relay.>"] }
    const guarded = streamOn(() => server, admin)
    beforeAll(async () => {
      server = await startNats(`
        authorization { users: [
          { user: admin, password: "${password}" }
          { nkey: ${user.getPublicKey()} }
          { user: limited, password: "${password}", permissions: ${JSON.stringify(limited)} }
          { user: silent, password: "${password}", permissions: { publish: "open.>", subscribe: "_INBOX.>" } }
        ] }`)
    })
    afterAll(() => server.stop())
    const as = (username: string, more: object) =>
      openNats(() => ({ servers: [server.server], auth: { username, password }, ...more }))

    it.live("may use the seed of an NKey", function* () {
      const { name, received } = yield* guarded()
      const sink = yield* openNats(() => ({
        servers: [server.server],
        subject: `${name}.events`,
        auth: { nkey: decoder.decode(user.getSeed()) },
      }))
      yield* sink.check
      yield* sink.send([entry(1)])
      expect(yield* Effect.promise(() => received(1))).toHaveLength(1)
    })

    it.live("may use a credentials file, until it expires", function* () {
      const operator = makeOperator()
      const own = yield* Effect.acquireRelease(
        Effect.promise(() => startNats(operator.config)),
        (own) => Effect.promise(own.stop),
      )
      const authenticator = () => credsAuthenticator(new TextEncoder().encode(operator.credentials()))
      const { name, received } = yield* streamOn(
        () => own,
        () => ({ authenticator: authenticator() }),
      )()
      const by = (credentials: string) =>
        openNats(() => ({ servers: [own.server], subject: `${name}.events`, auth: { credentials } }))
      // `file:PATH` also drops the last line break.
      const sink = yield* by(operator.credentials().trimEnd())
      yield* sink.check
      yield* sink.send([entry(1)])
      expect(yield* Effect.promise(() => received(1))).toHaveLength(1)
      const late = yield* by(operator.credentials(-60))
      expect((yield* reasonOf(late.check))?._tag).toBe("SinkMisconfigured")
    })

    it.live("may use a token", function* () {
      const own = yield* Effect.acquireRelease(
        Effect.promise(() => startNats(`authorization { token: "${password}" }`)),
        (own) => Effect.promise(own.stop),
      )
      const { name } = yield* streamOn(
        () => own,
        () => ({ token: password }),
      )()
      const sink = yield* openNats(() => ({
        servers: [own.server],
        subject: `${name}.events`,
        auth: { token: password },
      }))
      expect((yield* sink.send([entry(1)])).size).toBe(0)
    })

    it.live("has enough with the rights of docs/reference/rights.md", function* () {
      const permissions = /^permissions: .*?^}/ms.exec(readPage("docs/reference/rights.md"))?.[0]
      const own = yield* Effect.acquireRelease(
        Effect.promise(() =>
          startNats(`authorization { users: [
              { user: admin, password: "${password}" }
              { user: relay, password: "${password}", ${permissions} }
            ] }`),
        ),
        (own) => Effect.promise(own.stop),
      )
      const { received } = yield* streamOn(() => own, admin)({ subjects: ["appointments.>"] })
      const opened = (subject: string) =>
        openNats(() => ({ servers: [own.server], auth: { username: "relay", password }, subject }))
      const sink = yield* opened("appointments.created")
      yield* sink.check
      expect(yield* sink.advise?.({ maxBody: 10_000 }) ?? Effect.succeed(["none"])).toEqual([])
      expect((yield* sink.send([entry(1)])).size).toBe(0)
      expect(yield* Effect.promise(() => received(1))).toHaveLength(1)
      // Only a user who may query streams learns that a stream is missing.
      expect((yield* reasonOf((yield* opened("others.created")).check))?._tag).toBe("SinkMisconfigured")
    })

    it.live("and may not publish to a subject, gets a failure that names the subject", function* () {
      const [open, closed] = [yield* guarded({ subjects: ["open.>"] }), yield* guarded({ subjects: ["closed.>"] })]
      const inboxPrefix = "_INBOX_relay"
      const fixed = yield* as("limited", { inboxPrefix, subject: "closed.events" })
      const failure = (yield* fixed.send([entry(1)])).get(0)
      expect(failure?.reason._tag).toBe("SinkMisconfigured")
      expect(failure?.message).toContain("subject closed.events: the user may not publish to this subject")
      const templated = yield* as("limited", { inboxPrefix, subject: "{{account_id}}.events" })
      const failures = yield* templated.send([entry(1, { accountId: "closed" }), entry(2, { accountId: "open" })])
      expect(reasons(failures)).toEqual({ 0: "DeliveryFailed" })
      expect(yield* Effect.promise(() => open.received(1))).toHaveLength(1)
      expect(yield* Effect.promise(() => closed.received(0))).toHaveLength(0)
      if (!isModern()) {
        // A server of 2.10 or later answers this request for the user's permissions itself.
        const service = yield* Effect.acquireRelease(
          Effect.promise(() => connect({ servers: server.server, ...admin() })),
          (service) => Effect.promise(() => service.close()),
        )
        const answer = JSON.stringify({ data: { user: "limited", permissions: limited } })
        service.subscribe("$SYS.REQ.USER.INFO", { callback: (_, message) => void message.respond(answer) })
        yield* Effect.promise(() => service.flush())
      }
      expect((yield* reasonOf(fixed.check))?.message).toContain("the user may not publish to this subject")
      const allowed = yield* as("limited", { inboxPrefix, subject: "open.events" })
      expect(yield* reasonOf(allowed.check)).toBeUndefined()
    })

    it.live(
      "and may not subscribe to its inbox, gets a failure that names the subject of acknowledgements",
      function* () {
        const sink = yield* as("limited", { subject: "open.events" })
        const reason = yield* reasonOf(sink.check)
        expect(reason?._tag).toBe("SinkMisconfigured")
        expect(reason?.message).toContain('"inboxPrefix"')
      },
    )

    it.live("and may not query streams, still publishes", function* () {
      const { received } = yield* guarded({ subjects: ["open.>"] })
      const sink = yield* as("silent", { subject: "open.events" })
      yield* sink.check
      expect(yield* sink.advise?.({ maxBody: 10_000 }) ?? Effect.succeed(["none"])).toEqual([])
      yield* sink.send([entry(1)])
      expect(yield* Effect.promise(() => received(1))).toHaveLength(1)
    })
  })

  describe("TLS", () => {
    const home = temporaryDirectory("nats-tls-")
    let authority: Authority
    beforeAll(() => {
      authority = makeAuthority(home)
    })
    const tlsServer = (name: string, names: string, days: number, more: () => string = () => "") =>
      Effect.acquireRelease(
        Effect.promise(() => {
          const { certificate, key } = authority.issue(name, names, days)
          return startNats(`tls { cert_file: "${certificate}", key_file: "${key}", ${more()} }`)
        }),
        (server) => Effect.promise(server.stop),
      )

    it.live("is not spoken with a certificate of another host, by name or by address", function* () {
      const { port } = yield* tlsServer("named", "DNS:localhost", 2)
      const numbered = yield* tlsServer("numbered", "IP:127.0.0.1", 2)
      const to = (server: string) =>
        Effect.flatMap(
          openNats(() => ({ servers: [server], subject: "{{type}}", tls: { ca: authority.ca } })),
          (sink) => reasonOf(sink.check),
        )
      const another = { message: expect.stringContaining("certificate of another host") }
      expect(yield* to(`localhost:${port}`)).toBeUndefined()
      expect(yield* to(`127.0.0.1:${port}`)).toMatchObject(another)
      expect(yield* to(numbered.server)).toBeUndefined()
      expect(yield* to(`localhost:${numbered.port}`)).toMatchObject(another)
    })

    it.live("is not spoken with a certificate that has expired", function* () {
      const { server } = yield* tlsServer("expired", "IP:127.0.0.1", -1)
      const sink = yield* openNats(() => ({ servers: [server], subject: "{{type}}", tls: { ca: authority.ca } }))
      expect(yield* reasonOf(sink.check)).toMatchObject({
        _tag: "SinkMisconfigured",
        message: expect.stringContaining("expired certificate"),
      })
    })

    it.live("uses a client certificate if the server requires one, and reports a missing one", function* () {
      const { server } = yield* tlsServer("mutual", "IP:127.0.0.1", 2, () => `ca_file: "${authority.ca}", verify: true`)
      const { certificate, key } = authority.issue("client", "DNS:client")
      const as = (own: object) =>
        Effect.flatMap(
          openNats(() => ({ servers: [server], subject: "{{type}}", tls: { ca: authority.ca, ...own } })),
          (sink) => reasonOf(sink.check),
        )
      expect(yield* as({ certificate, key })).toBeUndefined()
      expect((yield* as({}))?.message).toMatch(/client certificate|can't be trusted/)
    })
  })
})
