import { afterAll, beforeAll, describe } from "bun:test"
import { Effect, Schema } from "effect"
import { composer } from "../../../src/sinks/email/Email.ts"
import { EmailConfig } from "../../../src/sinks/email/EmailConfig.ts"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { startThere } from "../thereSink.ts"
import { mailConfig, openEmail } from "./emailSink.ts"
import { reply, startSmtp } from "./smtpServer.ts"

const compose = composer(Schema.decodeUnknownSync(EmailConfig)({ server: "127.0.0.1:1", ...mailConfig }))

describe("the email sink against an SMTP server", () => {
  beforeAll(startThere, 60_000)
  const other = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: { open: (socket) => void socket.write("SSH-2.0-OpenSSH_9.9\r\n"), data: () => {} },
  })
  afterAll(() => other.stop(true))

  const refusing = Effect.fnUntraced(function* (
    options: Parameters<typeof startSmtp>[0],
    more: Record<string, unknown> = {},
  ) {
    const smtp = yield* Effect.acquireRelease(
      Effect.promise(() => startSmtp(options)),
      (smtp) => Effect.promise(smtp.close),
    )
    return yield* openEmail(() => ({ server: smtp.server, ...more }))
  })

  sinkContract("the email sink", {
    ofType: {
      type: "email",
      config: {
        server: "smtp.example.com:587",
        auth: { username: "relay", password: canary },
        tls: { certificate: "client.pem", key: canary },
        ...mailConfig,
      },
    },
    ordered: false,
    bytesOf: (entry) => Buffer.from(compose([entry]).text),
    make: Effect.gen(function* () {
      const smtp = yield* Effect.acquireRelease(
        Effect.promise(() => startSmtp()),
        (smtp) => Effect.promise(smtp.close),
      )
      return {
        open: openEmail(() => ({ server: smtp.server })),
        received: (count) =>
          Effect.promise(async () => {
            while (smtp.taken.length < count) await Bun.sleep(5)
            return smtp.taken.map(({ mail }) => Buffer.from(mail.text ?? ""))
          }),
        held: Effect.sync(() => connectionsTo(smtp.port)),
      }
    }),
    wrong: {
      "a server that is not there": [
        openEmail(() => ({ server: "127.0.0.1:1" })),
        "SinkUnavailable",
        ["127.0.0.1:1", /can't be reached/, /refused/],
      ],
      "what is no SMTP server": [
        openEmail(() => ({ server: `127.0.0.1:${other.port}` })),
        "SinkMisconfigured",
        [/no SMTP server/, '"server"'],
      ],
      "a server without STARTTLS": [
        refusing({}, { security: "starttls" }),
        "SinkMisconfigured",
        [/offers no TLS/, '"security"'],
      ],
      "a server that speaks no TLS": [
        refusing({}, { security: "tls" }),
        "SinkMisconfigured",
        [/speaks no TLS/, '"starttls"'],
      ],
      "a wrong password": [
        refusing(
          {
            allowInsecureAuth: true,
            onAuth: (_, __, done) => done(reply(535, `5.7.8 ${canary}`)),
          },
          { auth: { username: "relay", password: canary } },
        ),
        "SinkMisconfigured",
        [/refuses the user or its password/, '"auth"', "535 5.7.8"],
      ],
      "a login that is missing": [
        refusing({ authOptional: false, allowInsecureAuth: true }),
        "SinkMisconfigured",
        [/wants a login/, '"auth"'],
      ],
      "a sender that is not taken": [
        refusing({ onMailFrom: (_, __, done) => done(reply(550, "5.7.1 <relay@example.com>: no")) }),
        "SinkMisconfigured",
        [/this sender/, '"from"', "550 5.7.1"],
      ],
      "addresses that are not taken": [
        refusing({ onRcptTo: (_, __, done) => done(reply(550, "5.1.1 <oncall@example.com>: no")) }),
        "SinkMisconfigured",
        [/none of the addresses/, '"to"', "550 5.1.1"],
      ],
    },
  })
})
