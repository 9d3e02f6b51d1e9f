/**
 * The email sink: one mail an event or digest, by SMTP.
 *
 * **Guarantee.** A mail is delivered when the server has taken it for every
 * address. A retry goes to the addresses that have not got it; which have is
 * known until the relay stops. It has the same Message-ID, by which mail systems
 * drop the second of two.
 *
 * **Gotcha.** A server that takes a mail may still return it later: that goes to
 * `from`, and the relay hears nothing of it.
 */
import { domainToASCII } from "node:url"
import { Array as Arr, Clock, Effect, Redacted, type Scope } from "effect"
import * as Address from "../../config/Address.ts"
import * as Alert from "../alerts/Alert.ts"
import * as Certificates from "../Certificates.ts"
import * as Connections from "../Connections.ts"
import { keeper } from "../http/KeptAnswer.ts"
import { asOneMessage } from "../Rendered.ts"
import { ownWords } from "../ServiceWords.ts"
import { allSent, type Failures, type Sink, type SinkError, type SinkType } from "../Sink.ts"
import { doubts, EmailConfig, type Mailbox, mailboxOf } from "./EmailConfig.ts"
import * as EmailErrors from "./EmailErrors.ts"
import { composer, type Mail } from "./EmailMessage.ts"
import * as SmtpSession from "./SmtpSession.ts"

const seconds = 1_000
/** The number of mails whose remaining addresses are remembered. */
const maxPartly = 10_000
/** Writes an address as SMTP has it: a domain of other letters is in ASCII. */
const mailbox = (written: string): Mailbox => {
  const { name, address } = mailboxOf(written) ?? { name: "", address: "" }
  const at = address.lastIndexOf("@") + 1
  return { name, address: address.slice(0, at) + (domainToASCII(address.slice(at)) || address.slice(at)) }
}

const make = Effect.fnUntraced(function* (config: EmailConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const { server, security, auth, replyTo } = config
  const tls = config.tls && (yield* Certificates.read(config.tls))
  const { default: Composer } = yield* Effect.promise(() => import("nodemailer/lib/mail-composer"))
  const clock = yield* Clock.Clock
  const compose = composer(config)
  const [from, to, cc] = [mailbox(config.from), config.to.map(mailbox), config.cc.map(mailbox)]
  const addresses = { to: to.map(({ address }) => address), cc: cc.map(({ address }) => address) }
  const envelope = { from: from.address, to: [...new Set([...addresses.to, ...addresses.cc])] }

  const keep = keeper([config])
  const placeOf = (mail: Mail | undefined, bytes: number): EmailErrors.Place => {
    const sent =
      mail === undefined ? [] : [mail.subject, ...mail.text.split("\n").map((line) => line.replace(/^\w+: +/, ""))]
    const words = (reply: string) => ownWords(keep, reply, sent)
    return { server, security, hasAuth: auth !== undefined, bytes, keep, words }
  }

  const options = {
    ...Address.parse(server),
    secure: security === "tls",
    requireTLS: security === "starttls",
    ignoreTLS: security === "none",
    connectionTimeout: 8 * seconds,
    greetingTimeout: 8 * seconds,
    socketTimeout: 11 * 60 * seconds,
    socketCloseTimeout: 1 * seconds,
    ...(tls !== undefined && { tls }),
  }
  const login = auth && { user: auth.username, pass: Redacted.value(auth.password) }
  // Servers end a connection that is idle for a minute or more.
  const use = yield* Connections.pooled(SmtpSession.open(options, login), "20 seconds")

  const encode = ({ subject, text, messageId, thread }: Mail): Effect.Effect<Buffer> =>
    Effect.promise(() =>
      new Composer({
        from,
        to,
        cc,
        ...(replyTo !== undefined && { replyTo: mailbox(replyTo) }),
        subject,
        text,
        messageId,
        inReplyTo: thread,
        references: thread,
        date: new Date(clock.currentTimeMillisUnsafe()),
        // RFC 3834: nobody's absence is told to a program.
        headers: { "Auto-Submitted": "auto-generated" },
        disableFileAccess: true,
        disableUrlAccess: true,
        xMailer: false,
      })
        .compile()
        .build(),
    )

  /** By Message-ID, the addresses that have got the mail while others have not. */
  const partly = new Map<string, ReadonlySet<string>>()
  /** Forgets the oldest beyond the bound: those addresses get the mail again. */
  const remember = (messageId: string, got: ReadonlySet<string>) => {
    partly.delete(messageId)
    partly.set(messageId, got)
    const [oldest] = partly.size > maxPartly ? partly.keys() : []
    if (oldest !== undefined) partly.delete(oldest)
  }

  const deliver = Effect.fnUntraced(function* (mail: Mail): Effect.fn.Return<Failures, SinkError> {
    const message = yield* encode(mail)
    const place = placeOf(mail, message.length)
    const got = partly.get(mail.messageId)
    const to = envelope.to.filter((address) => got?.has(address) !== true)
    let wasUsed = false
    const once = use((session) => {
      wasUsed = session.isUsed()
      return session.send({ ...envelope, to }, message)
    })
    const refused = yield* once.pipe(
      Effect.catch((error) => (wasUsed && EmailErrors.isOfConnection(error) ? once : Effect.fail(error))),
      Effect.mapError((error) => EmailErrors.sinkErrorOf(error, place)),
    )
    if (refused.length === 0) {
      partly.delete(mail.messageId)
      return allSent
    }
    const missing = new Set(refused.map(({ address }) => address))
    remember(mail.messageId, new Set(envelope.to.filter((address) => !missing.has(address))))
    return yield* EmailErrors.partly(refused, addresses, place)
  })

  return {
    batch: { maxEvents: 1, maxBytes: Number.POSITIVE_INFINITY },
    send: asOneMessage(compose, deliver),
    check: Effect.mapError(
      use((session) => session.ping),
      (error) => EmailErrors.sinkErrorOf(error, placeOf(undefined, 0)),
    ),
  }
})

export const Email: SinkType<EmailConfig> = {
  config: EmailConfig,
  doubts,
  libraries: ["nodemailer"],
  // Mail servers count connections, and mails a minute.
  concurrency: 1,
  timeout: {
    value: "12 minutes",
    because: "the 10 minutes that RFC 5321 (section 4.5.3.2) gives a server to confirm a mail",
  },
  messages: {
    recoveries: {
      askedBy: "resolve",
      ownKey: "thread",
      key: ({ resolve, thread, objectId }) =>
        resolve ? Alert.keyOf({ objectId, ...(thread !== undefined && { dedupKey: thread }) }) : undefined,
    },
    // The digests of one key are one thread.
    ofDigests: (config, key) => ({ ...config, thread: config.thread ?? key }),
  },
  open: make,
  preview: (config, entries) => {
    if (!Arr.isReadonlyArrayNonEmpty(entries)) return []
    const { from, to, cc, replyTo } = config
    return [
      {
        from,
        to,
        ...(cc.length > 0 && { cc }),
        ...(replyTo !== undefined && { replyTo }),
        ...composer(config)(entries),
      },
    ]
  },
}
