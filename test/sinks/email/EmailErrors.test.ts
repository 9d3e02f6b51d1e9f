/**
 * Real replies of mail providers, from their public documentation and from collections of bounces, and their meaning.
 */
import { expect, test } from "bun:test"
import { Redacted } from "effect"
import { sinkErrorOf } from "../../../src/sinks/email/EmailErrors.ts"
import { SmtpError } from "../../../src/sinks/email/SmtpSession.ts"
import type { Reason } from "../../../src/sinks/Sink.ts"

type Row = readonly [
  provider: string,
  command: "MAIL FROM" | "RCPT TO" | "DATA",
  reply: string,
  reason: Reason["_tag"],
  says: RegExp,
]

const nobody = /takes mails for none of the addresses/
const origin = /SPF, DKIM, DMARC or reverse DNS/
const larger = /larger than it takes/
const full = /a mailbox is full|does not take the mail now/
const fewer = /asks for fewer mails|takes no more mails for some time/

const replies: ReadonlyArray<Row> = [
  // The address.
  [
    "Gmail",
    "RCPT TO",
    "550-5.1.1 The email account that you tried to reach does not exist. Please try\r\n550 5.1.1 double-checking the recipient's email address for typos.",
    "SinkMisconfigured",
    nobody,
  ],
  [
    "Exchange Online",
    "RCPT TO",
    "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup",
    "SinkMisconfigured",
    nobody,
  ],
  ["Exchange Online", "RCPT TO", "550 5.4.1 Recipient address rejected: Access denied.", "SinkMisconfigured", nobody],
  [
    "Postfix",
    "RCPT TO",
    "550 5.1.1 <x>: Recipient address rejected: User unknown in local recipient table",
    "SinkMisconfigured",
    nobody,
  ],
  ["Yahoo", "DATA", "552 5.1.1 This user doesn't have an account here", "SinkMisconfigured", nobody],
  ["Gmail", "RCPT TO", "550 5.2.1 The email account that you tried to reach is disabled.", "SinkMisconfigured", nobody],
  // A mailbox that is full.
  ["Gmail", "RCPT TO", "552 5.2.2 The email account that you tried to reach is over quota.", "DeliveryFailed", full],
  ["Dovecot", "DATA", "552 5.2.2 Quota exceeded (mailbox for user is full)", "DeliveryFailed", full],
  ["Gmail", "RCPT TO", "452 4.2.2 The email account that you tried to reach is over quota.", "DeliveryFailed", full],
  ["an old server", "RCPT TO", "552 Mailbox full", "DeliveryFailed", full],
  // The size.
  ["Postfix", "MAIL FROM", "552 5.3.4 Message size exceeds fixed limit", "DeliveryRejected", larger],
  ["Gmail", "DATA", "552 5.3.4 Your message exceeded Google's message size limits.", "DeliveryRejected", larger],
  ["Exim", "DATA", "552 Message size exceeds maximum permitted", "DeliveryRejected", larger],
  ["Exchange", "DATA", "552 5.2.3 Message size exceeds recipient limit", "DeliveryRejected", larger],
  // The content.
  [
    "Gmail",
    "DATA",
    "552 5.7.0 This message was blocked because its content presents a potential security issue.",
    "DeliveryRejected",
    /refuses the mail/,
  ],
  ["SpamAssassin", "DATA", "554 5.7.1 Message contained unsafe content", "DeliveryRejected", /refuses the mail/],
  ["Postfix", "DATA", "550 5.6.0 Lone CR or LF in body", "DeliveryRejected", /refuses the mail for its content/],
  // The sender.
  [
    "Exchange Online",
    "DATA",
    "550 5.7.60 SMTP; Client does not have permissions to send as this sender",
    "SinkMisconfigured",
    /does not take mails of this sender/,
  ],
  [
    "Postfix",
    "RCPT TO",
    "553 5.7.1 <x>: Sender address rejected: not owned by user relay",
    "SinkMisconfigured",
    /does not take mails of this sender/,
  ],
  [
    "Amazon SES",
    "DATA",
    "554 Message rejected: Email address is not verified. The following identities failed: sender not verified",
    "SinkMisconfigured",
    /does not take mails of this sender/,
  ],
  [
    "Postfix",
    "MAIL FROM",
    "450 4.1.8 <x>: Sender address rejected: Domain not found",
    "SinkUnavailable",
    /can't take mails now/,
  ],
  // This machine, and the domain's checks.
  [
    "Gmail",
    "DATA",
    "550-5.7.26 Your email has been blocked because the sender is unauthenticated.\r\n550 5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM.",
    "SinkMisconfigured",
    origin,
  ],
  [
    "Exchange",
    "DATA",
    "550 5.7.23 The message was rejected because of Sender Policy Framework violation",
    "SinkMisconfigured",
    origin,
  ],
  [
    "Gmail",
    "DATA",
    "550 5.7.25 The IP address sending this message does not have a PTR record setup",
    "SinkMisconfigured",
    origin,
  ],
  ["Outlook.com", "RCPT TO", "550 5.7.606 Access denied, banned sending IP [192.0.2.1]", "SinkMisconfigured", origin],
  [
    "Exchange Online",
    "DATA",
    "550 5.7.509 Access denied, sending domain does not pass DMARC verification",
    "SinkMisconfigured",
    origin,
  ],
  [
    "Spamhaus",
    "RCPT TO",
    "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
    "SinkMisconfigured",
    origin,
  ],
  [
    "Gmail",
    "DATA",
    "421 4.7.26 This mail has been rate limited because it is unauthenticated.",
    "SinkThrottled",
    fewer,
  ],
  [
    "Gmail",
    "DATA",
    "550-5.7.1 Unauthenticated email from example.com is not accepted due to\r\n550 5.7.1 domain's DMARC policy.",
    "SinkMisconfigured",
    origin,
  ],
  [
    "Gmail",
    "DATA",
    "550-5.7.1 Our system has detected that this message is\r\n550 5.7.1 likely unsolicited mail.",
    "DeliveryRejected",
    /refuses the mail/,
  ],
  ["Exchange Online", "RCPT TO", "450 4.7.3 Organization queue quota exceeded.", "SinkThrottled", fewer],
  // The login, and TLS.
  [
    "Exchange Online",
    "MAIL FROM",
    "530 5.7.57 Client not authenticated to send mail",
    "SinkMisconfigured",
    /wants a login/,
  ],
  ["Postfix", "RCPT TO", "554 5.7.1 <x>: Relay access denied", "SinkMisconfigured", /passes no mails on/],
  ["Gmail", "MAIL FROM", "530 5.7.0 Must issue a STARTTLS command first", "SinkMisconfigured", /wants TLS first/],
  // Too many.
  ["Gmail", "RCPT TO", "550 5.4.5 Daily user sending limit exceeded.", "SinkThrottled", fewer],
  ["Amazon SES", "DATA", "454 Throttling failure: Maximum sending rate exceeded.", "SinkThrottled", fewer],
  ["Exchange Online", "DATA", "432 4.3.2 Concurrent connections limit exceeded.", "SinkThrottled", fewer],
  // Later.
  [
    "Postgrey",
    "RCPT TO",
    "450 4.2.0 <x>: Recipient address rejected: Greylisted, see https://postgrey.example",
    "DeliveryFailed",
    /does not take the mail now/,
  ],
  ["Postfix", "DATA", "451 4.3.0 Temporary lookup failure", "DeliveryFailed", /does not take the mail now/],
  [
    "Exchange Online",
    "RCPT TO",
    "451 4.7.500 Server busy. Please try again later",
    "SinkUnavailable",
    /can't take mails now/,
  ],
]

for (const [provider, command, reply, reason, says] of replies) {
  test(`${provider} answers ${command} with ${reply.slice(0, 60)}`, () => {
    const status = Number(reply.slice(0, 3))
    const error = sinkErrorOf(new SmtpError({ code: "EENVELOPE", command, reply, status, detail: "" }), {
      server: "smtp.example.com:587",
      security: "starttls",
      hasAuth: false,
      bytes: 625,
      keep: Redacted.make,
      words: (said) => said.slice(0, 40),
    })
    expect(error.reason._tag).toBe(reason)
    expect(error.message).toMatch(says)
  })
}
