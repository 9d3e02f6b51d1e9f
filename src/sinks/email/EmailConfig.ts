/** The config of an email sink. */
import { Effect, Schema } from "effect"
import * as Address from "../../config/Address.ts"
import type { Doubt } from "../../config/schema/ConfiguredTypes.ts"
import { oneOf, secret, template, text, textOrShape } from "../../config/schema/Keys.ts"
import { keys } from "../alerts/AlertService.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"

const example = "smtp.example.com:587"

const serverProblem = (server: string): string | undefined =>
  (Address.parse(server)?.port ?? 0) > 65_535
    ? "a port is a number up to 65535"
    : MessageKeys.hostProblem("server", example)(server)

/**
 * `local@domain` by RFC 5321, without quotes and comments, because programs read
 * those differently. A name before it in `<>` may be any text.
 */
const mailbox = /^(?:([^<>\p{Cc}]*?)\s*<([^<>]+)>|([^<>]+))$/u
const address = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?!\.)[\p{L}\p{N}.-]{1,253}(?<!\.)$/u

export interface Mailbox {
  readonly name: string
  readonly address: string
}

/** Returns `undefined` if the text is not a mailbox. */
export const mailboxOf = (written: string): Mailbox | undefined => {
  const [, name = "", inside, alone] = mailbox.exec(written.trim()) ?? []
  const found = inside ?? alone ?? ""
  return address.test(found) ? { name: name.replace(/^"(.*)"$/, "$1"), address: found } : undefined
}

const mailboxKey = (description: string, examples = ["oncall@example.com"]) =>
  // An address is personal data.
  Schema.String.annotate({ description, shown: false, examples }).check(
    Schema.makeFilter(
      (written: string) => {
        if (mailboxOf(written) !== undefined) return true
        return /@.*[,;].*@/.test(written)
          ? 'each address stands in its own quotes: ["one@example.com", "two@example.com"]'
          : 'this is not an address: write "oncall@example.com", or "On call <oncall@example.com>"'
      },
      { expected: "an address", toJsonSchema: () => ({ pattern: "@" }) },
    ),
  )

export const EmailConfig = Schema.Struct({
  server: MessageKeys.host(serverProblem, {
    description: "The SMTP server that takes the mails: host and port",
    examples: [example],
  }),
  security: oneOf(
    "`starttls`: TLS starts before the login and the mail, usual at port 587. `tls`: TLS from the first byte, usual at 465. `none`: no TLS",
    ["starttls", "tls", "none"],
    "starttls",
  ),
  tls: Schema.optionalKey(Certificates.CertificatesConfig.annotate({ description: "Certificates of one's own" })),
  auth: Schema.optionalKey(
    Schema.Struct({
      username: text("The user that the relay logs in as"),
      password: secret("Its password, or the token that stands for one"),
    }).annotate({ description: "Log in to the server" }),
  ),
  from: mailboxKey("Sender of the mails; undeliverable mails are returned there", ["Relay <relay@example.com>"]),
  to: Schema.Array(mailboxKey("An address"))
    .check(Schema.isMinLength(1, { message: "a mail needs somebody to go to" }))
    .annotate({ description: "Recipients", examples: [["oncall@example.com"]] }),
  cc: Schema.Array(mailboxKey("An address"))
    .annotate({ description: "Recipients of a copy" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  replyTo: Schema.optionalKey(mailboxKey("Address for answers, when not `from`")),
  subject: Schema.optionalKey(
    textOrShape("The subject; may hold placeholders. By default the failure in words, or the type, and the account"),
  ),
  text: Schema.optionalKey(
    textOrShape("The mail's text; may hold placeholders. By default type, account, object, event and time"),
  ),
  thread: Schema.optionalKey(
    template("Mails of the same text here are one thread. By default the type, the account and the object"),
  ),
  objectId: keys.objectId,
  details: keys.details,
  resolve: keys.resolve,
})
  .annotate({
    otherNames: [
      ["smarthost smtp_smarthost host smtp_host", "server"],
      ["port smtp_port", "server", 'it belongs in "server": "smtp.example.com:587"'],
      [
        "require_tls smtp_require_tls use_tls starttls ssl secure implicit_tls",
        "security",
        'here it is called "security": "starttls", "tls" or "none"',
      ],
      ["username user password auth_username auth_password login", "auth", 'it belongs in "auth"'],
      ["recipients recipient", "to"],
      ["sender", "from"],
      ["bcc", "to", "every recipient sees the others: for one to be hidden, add a sink of its own"],
      ["body message template html", "text", 'here it is called "text": mails are plain text'],
      ["send_resolved", "resolve"],
    ],
  })
  .check(
    Schema.makeFilter(({ server, security, tls, auth }) => {
      if (security === "none" && tls !== undefined) {
        return { path: ["tls"], issue: '"security": "none" speaks no TLS: take one of the two out' }
      }
      const host = Address.parse(server)
      if (security === "none" && auth !== undefined && host !== undefined && !Address.isLoopback(host)) {
        return { path: ["security"], issue: "a password is not sent over a network without TLS: take this key out" }
      }
      return undefined
    }),
  )
export type EmailConfig = typeof EmailConfig.Type

/** The ports for reading mails. */
const reading: ReadonlyMap<number, string> = new Map([
  [110, "POP3"],
  [143, "IMAP"],
  [993, "IMAP"],
  [995, "POP3"],
])

/** Ports that speak another protocol than the config says. */
export const doubts = ({ server, security }: EmailConfig): ReadonlyArray<Doubt> => {
  const port = Address.parse(server)?.port ?? 0
  const protocol = reading.get(port)
  if (protocol !== undefined) {
    const message = `${port} is the port of ${protocol}, by which mails are read`
    return [{ path: ["server"], message, hint: "mails are sent by SMTP: 587, or 465" }]
  }
  if (port === 465 && security !== "tls") {
    const message = "465 is the port of TLS from the first byte, so the relay would wait there for a greeting"
    return [{ path: ["server"], message, hint: 'add "security": "tls", or use 587' }]
  }
  if ((port === 587 || port === 25) && security === "tls") {
    const message = `TLS does not begin with the first byte at port ${port}: the server greets without it`
    return [{ path: ["security"], message, hint: "take this key out, or use port 465" }]
  }
  return []
}
