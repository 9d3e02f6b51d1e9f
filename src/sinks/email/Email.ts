/**
 * The email sink: one mail an event or digest, by SMTP.
 *
 * **Guarantee.** A mail is delivered when the server has taken it for every address.
 * A retry goes to the addresses that don't have it yet; the relay knows them until
 * it stops. The retry has the same Message-ID, so mail systems drop the second copy.
 *
 * **Gotcha.** A server that accepts a mail may still return it later. The returned
 * mail goes to `from`, so the relay doesn't notice.
 */
import { createHash } from "node:crypto"
import { domainToASCII } from "node:url"
import { Array as Arr, Clock, Effect, Redacted, type Scope } from "effect"
import * as Address from "../../config/Address.ts"
import { groupKey } from "../../event/IdempotencyKey.ts"
import * as Template from "../../formats/Template.ts"
import * as Alert from "../alerts/Alert.ts"
import { arrange, type Fact, fit } from "../alerts/Alert.ts"
import * as Certificates from "../Certificates.ts"
import * as Connections from "../Connections.ts"
import { asOneMessage, type Entries } from "../Rendered.ts"
import { keeper, ownWords } from "../ServiceWords.ts"
import { allSent, type Failures, type Sink, type SinkError, type SinkType } from "../Sink.ts"
import { doubts, EmailConfig, type Mailbox, mailboxOf } from "./EmailConfig.ts"
import * as EmailErrors from "./EmailErrors.ts"
import * as SmtpSession from "./SmtpSession.ts"

// A mail: its subject, its text and the ids that it is threaded by.
//
// **Guarantee.** No part of an event gets into a header, except into the subject, which is one line
// without control characters. Only the config decides the recipients. Without templates a mail
// shows the same as an alert does (`Alert.ts`).

interface Mail {
  readonly subject: string
  /** Lines end in LF. */
  readonly text: string
  /** It is the same at each attempt, so mail systems drop the second copy. */
  readonly messageId: string
  /** The id that all mails of a thread refer to. No mail has this id. */
  readonly thread: string
}

/** RFC 5322 limits lines to 998 characters. Lists of mails show about 60. */
const longestSubject = 200
/** Code units of a text. A text that was cut ends in an ellipsis. */
const longestText = 256 * 1024

const room = {
  facts: { facts: 60, name: 100, value: 2_000, total: 30_000 },
  samples: { facts: 51, name: 100, value: 2_000, total: 60_000 },
}

const lines = (facts: ReadonlyArray<Fact>): ReadonlyArray<string> => {
  const width = facts.reduce((widest, { name }) => Math.max(widest, name.length), 0)
  return facts.map(({ name, value }) => `${`${name}:`.padEnd(width + 2)}${value}`)
}

const paragraphs = ({ summary, facts, samples }: Alert.Alert): string =>
  [[fit(summary, 3_000)], lines(arrange(facts, room.facts)), lines(arrange(samples, room.samples))]
    .filter((paragraph) => paragraph.length > 0)
    .map((paragraph) => paragraph.join("\n"))
    .join("\n\n")

/** Control characters but for tabs and line feeds, and marks that change the direction of text. */
const steering = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

/** Like {@link fit}, but for a text of several lines. */
const harmless = (text: string): string => {
  const near = text.length <= longestText ? text : `${text.slice(0, longestText - 1)}…`
  return near.toWellFormed().replace(/\r\n?/g, "\n").replace(steering, " ")
}

const hash = (parts: ReadonlyArray<string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 40)

/** Makes a mail of one event, or of a digest: at least one event, oldest first. Throws if a template throws. */
export const composer = (config: EmailConfig): ((entries: Entries) => Mail) => {
  const { from, to, cc, thread, objectId, details, resolve } = config
  const alertOf = Alert.compile({ objectId, details, resolve, ...(thread !== undefined && { dedupKey: thread }) })
  const subject = config.subject && Template.compile(config.subject, "text", "subject")
  const text = config.text && Template.compile(config.text, "text", "text")
  const content = JSON.stringify([config.subject, config.text, objectId, details])
  const domain = mailboxOf(from)?.address.replace(/^.*@/, "") ?? ""
  const host = URL.canParse(`http://${domain}`) ? new URL(`http://${domain}`).hostname : domain
  const id = (kind: string, parts: ReadonlyArray<string>) => `<${kind}.${hash(parts)}@${host}>`
  return (entries) => {
    const last = entries.at(-1) ?? entries[0]
    const alert = alertOf(Alert.groupOf(entries, resolve))
    return {
      subject: fit(subject ? subject.render(last, entries) : alert.summary, longestSubject),
      text: `${text ? harmless(text.render(last, entries)) : paragraphs(alert)}\n`,
      // Ids are unique within a webhook only. Two sinks may also send mails to the same address.
      messageId: id("relay", [last.event.webhook, groupKey(entries), ...to, "", ...cc, "", content]),
      thread: id("thread", [alert.key]),
    }
  }
}

const seconds = 1_000
/** The number of mails whose remaining addresses are remembered. */
const maxPartly = 10_000
/** Writes an address for SMTP: an international domain in its ASCII form. */
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
    // The library's own limits apply only after the limits of the session and the lane.
    connectionTimeout: 2 * 60 * seconds,
    greetingTimeout: 2 * 60 * seconds,
    socketTimeout: 13 * 60 * seconds,
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
        // RFC 3834: programs that answer for absent people don't answer such a mail.
        headers: { "Auto-Submitted": "auto-generated" },
        disableFileAccess: true,
        disableUrlAccess: true,
        xMailer: false,
      })
        .compile()
        .build(),
    )

  /** By Message-ID, the addresses that have received the mail while others have not. */
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
      isOn: ({ resolve }) => resolve,
      key: ({ thread, objectId }) => Alert.keyOf({ objectId, ...(thread !== undefined && { dedupKey: thread }) }),
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
