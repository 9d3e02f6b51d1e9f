import { afterAll, beforeAll } from "bun:test"
import { Effect } from "effect"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { type Authorities, makeCertificates } from "../../parts/certificates.ts"
import { type NatsServer, startNats } from "../../parts/Nats.ts"
import { makeStream } from "../../parts/Streams.ts"
import { openNats, withNats } from "./natsSink.ts"

sinkTypeContract({
  type: "nats",
  carriesTrace: true,
  config: {
    servers: ["nats.example.com:4222"],
    subject: "events.{{type}}",
    auth: { username: "relay", password: canary },
    tls: { certificate: "client.pem", key: canary },
  },
})

withNats("the NATS sink's contract against a real server", (plain) => {
  const home = temporaryDirectory("nats-contract-")
  const user = { username: "relay", password: `a password ${canary}` }
  let certificates: Authorities
  /** TLS, and a login. */
  let guarded: NatsServer
  const admin = () => ({ user: user.username, pass: user.password, tls: { caFile: certificates.ca } })

  beforeAll(async () => {
    certificates = makeCertificates(home)
    guarded = await startNats(`
      tls { cert_file: "${certificates.serverChain}", key_file: "${certificates.serverChain}" }
      authorization { users: [ { user: "${user.username}", password: "${user.password}" } ] }`)
  })
  afterAll(() => guarded.stop())

  const base = () => ({ servers: [guarded.server], auth: user, tls: { ca: certificates.ca } })
  const nowhere = () => ({ servers: [plain().server], subject: "nowhere.at.all" })

  sinkContract("the NATS sink, over TLS and with a login", {
    maxBody: 1024 * 1024,
    dropsRepeats: true,
    make: Effect.gen(function* () {
      const stream = yield* Effect.acquireRelease(
        Effect.promise(() => makeStream(guarded.server, {}, admin())),
        ({ remove }) => Effect.promise(remove),
      )
      return {
        open: openNats(() => ({ ...base(), subject: `${stream.name}.events` })),
        received: (count) =>
          Effect.map(
            Effect.promise(() => stream.received(count)),
            (all) => all.map(({ body }) => body),
          ),
        held: Effect.sync(() => connectionsTo(guarded.port)),
      }
    }),
    wrong: {
      "a server that is not there": [
        openNats(() => ({ servers: ["127.0.0.1:1"], subject: "events" })),
        "SinkUnavailable",
        ["127.0.0.1:1", /can't be reached/, /refused/],
      ],
      "a wrong password": [
        openNats(() => ({ ...base(), subject: "events", auth: { ...user, password: canary } })),
        "SinkMisconfigured",
        [/127\.0\.0\.1:\d+/, /refuses who logs in/, '"auth"'],
      ],
      "a login that is missing": [
        openNats(() => ({ servers: [guarded.server], tls: { ca: certificates.ca }, subject: "events" })),
        "SinkMisconfigured",
        [/refuses who logs in/, '"auth"'],
      ],
      "an authority that is not trusted": [
        openNats(() => ({ ...base(), subject: "events", tls: { ca: certificates.strangerCa } })),
        "SinkMisconfigured",
        [/certificate can't be trusted/, '"tls": { "ca"'],
      ],
      "a certificate file that is not there": [
        openNats(() => ({ ...base(), subject: "events", tls: { ca: "no-such.pem" } })),
        "SinkMisconfigured",
        ["tls.ca", "no-such.pem"],
      ],
      "a server that demands TLS": [
        openNats(() => ({ servers: [guarded.server], auth: user, subject: "events" })),
        "SinkMisconfigured",
        [/demands TLS/, '"tls"'],
      ],
      "a server that offers no TLS": [
        openNats(() => ({ ...nowhere(), tls: {} })),
        "SinkMisconfigured",
        [/offers no TLS/, '"tls"'],
      ],
      "a subject that no stream takes": [
        openNats(nowhere),
        "SinkMisconfigured",
        ["subject nowhere.at.all", /no stream takes/, '"subject"'],
      ],
      "a subject out of a template that no stream takes": [
        openNats(() => ({ ...nowhere(), subject: "nowhere.{{resource}}" })),
        "DeliveryFailed",
        ["subject nowhere.appointment", /no stream takes/],
      ],
      "a subject that is too long once the event has filled it in": [
        openNats(() => ({ ...nowhere(), subject: `${"n".repeat(995)}.{{type}}` })),
        "DeliveryRejected",
        [/no message can have the subject/, /1,000 characters/],
      ],
    },
  })
})
