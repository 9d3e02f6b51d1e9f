/** Email, by the replies of Postfix, Exim and Exchange. */
import { Effect } from "effect"
import { openEmail } from "../email/emailSink.ts"
import { greeting, reply, startSmtp } from "../email/smtpServer.ts"
import { entry, reasonOf } from "../samples.ts"
import type { Part } from "./Cause.ts"

type Options = NonNullable<Parameters<typeof startSmtp>[0]>
type Done = (error?: Error) => void

const atMail = (code: number, text: string): Options => ({
  onMailFrom: (_: unknown, __: unknown, done: Done) => done(reply(code, text)),
})
const atRcpt = (code: number, text: string): Options => ({
  onRcptTo: (_: unknown, __: unknown, done: Done) => done(reply(code, text)),
})
const atData = (code: number, text: string): Options => ({
  onData: (stream, _, done) => {
    stream.on("end", () => done(reply(code, text))).resume()
  },
})
/** Accepts any login, without TLS. */
const login: Options = { allowInsecureAuth: true, onAuth: (_, __, done) => done(null, { user: "relay" }) }
const auth = { username: "relay", password: "a-long-password" }

const wrong: ReadonlyArray<
  readonly [name: string, todo: string, options: Options, config?: Readonly<Record<string, unknown>>]
> = [
  [
    "Postfix: a sender that is not the user's, refused at RCPT",
    'correct "from"',
    { ...login, ...atRcpt(553, "5.7.1 <relay@example.com>: Sender address rejected: not owned by user relay") },
    { auth },
  ],
  [
    "Postfix: a sender whose domain is not there, refused at RCPT",
    'correct "from"',
    atRcpt(550, "5.1.8 <relay@example.com>: Sender address rejected: Domain not found"),
  ],
  ["Exim: a sender that can't be verified, refused at RCPT", 'correct "from"', atRcpt(550, "Sender verify failed")],
  [
    "Exchange: a sender that the user may not send as, refused after the mail",
    'correct "from"',
    { ...login, ...atData(554, "5.2.252 SendAsDenied; relay@example.com not allowed to send as other@example.com") },
    { auth },
  ],
  [
    "Postfix: addresses elsewhere, without a login",
    'set "auth"',
    atRcpt(554, "5.7.1 <oncall@example.com>: Relay access denied"),
  ],
  [
    "Exchange: addresses elsewhere, with a login",
    "allow it there",
    { ...login, ...atRcpt(550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain") },
    { auth },
  ],
  [
    "Postfix: this machine is on a list",
    "allow its address there",
    atRcpt(554, "5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.example.org"),
  ],
  [
    "Postfix: an address that is not there",
    'correct "to" and "cc"',
    atRcpt(550, "5.1.1 <oncall@example.com>: Recipient address rejected: User unknown in local recipient table"),
  ],
  [
    "Postfix: TLS is demanded, none is set, no login",
    '"security" to "starttls"',
    atMail(530, "5.7.0 Must issue a STARTTLS command first"),
    { security: "none" },
  ],
  [
    "a login is refused for want of TLS",
    '"security" to "starttls"',
    {
      allowInsecureAuth: true,
      onAuth: (_, __, done) => done(reply(538, "5.7.11 Encryption required for requested authentication mechanism")),
    },
    { auth },
  ],
  ["no login is offered, one is set", '"server" or "auth"', { disabledCommands: ["STARTTLS", "AUTH"] }, { auth }],
  ["Postfix: a login is wanted, none is set", 'set "auth"', atMail(530, "5.7.0 Authentication required")],
  [
    "a wrong password",
    'correct "auth"',
    { ...login, onAuth: (_, __, done) => done(reply(535, "5.7.8 Error: authentication failed")) },
    { auth },
  ],
  ["a server without TLS, where TLS is set", 'set "security"', {}, { security: "starttls" }],
  ["a mailbox that is full", "", atRcpt(452, "4.2.2 Mailbox full")],
  ["a greylist", "", atRcpt(450, "4.2.0 <oncall@example.com>: Greylisted")],
]

export const email: Part = {
  title: "Email",
  lacking: () => undefined,
  causes: async () => [
    {
      name: "Postfix: TLS is demanded before a login, none is set",
      todo: '"security" to "starttls"',
      reason: Effect.gen(function* () {
        const { server } = yield* greeting("PIPELINING", "STARTTLS", "8BITMIME")
        const sink = yield* openEmail(() => ({ server, auth }))
        return yield* reasonOf(sink.send([entry(1)]))
      }),
    },
    ...wrong.map(([name, todo, options, config = {}]) => ({
      name,
      todo,
      reason: Effect.gen(function* () {
        const { server } = yield* Effect.acquireRelease(
          Effect.promise(() => startSmtp(options)),
          ({ close }) => Effect.promise(close),
        )
        const sink = yield* openEmail(() => ({ server, ...config }))
        return yield* reasonOf(sink.send([entry(1)]))
      }),
    })),
  ],
}
