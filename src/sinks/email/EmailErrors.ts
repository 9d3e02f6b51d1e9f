/**
 * Decides what an SMTP server's replies mean for the lane, and what a person should do.
 *
 * **Guarantee.** Of a reply only its codes are shown: its text may repeat
 * addresses and the mail. It is kept where answers of receivers are kept.
 */
import type { Redacted } from "effect"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { untrusted } from "../Certificates.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"
import { noLogin, noLoginWithoutTls, type Refused, type SmtpError } from "./SmtpSession.ts"

/** A message names these. */
export interface Place {
  /** Host and port. */
  readonly server: string
  readonly security: "starttls" | "tls" | "none"
  readonly hasAuth: boolean
  /** Size of the mail, in bytes; 0 without one. */
  readonly bytes: number
  /** Returns the part of a reply that is kept. */
  readonly keep: (reply: string) => Redacted.Redacted<string> | undefined
}

/** The codes of a reply, RFC 5321 and RFC 3463: `550 5.1.1`. */
const codesOf = ({ reply, status }: SmtpError): string => {
  const [, enhanced] = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})\b/.exec(reply) ?? []
  return enhanced === undefined ? String(status) : `${status} ${enhanced}`
}

/** Words of a temporary reply that asks for fewer mails; the codes don't tell. */
const isThrottling = ({ status, reply }: SmtpError): boolean =>
  status >= 400 && status < 500 && /throttl|\btoo (many|fast|quickly)\b|\brate\b|slow down/i.test(reply)

const isSize = ({ status, reply }: SmtpError): boolean => status === 552 || /^5\d\d[ -]5\.(2|3)\.(3|4)\b/.test(reply)

/** A minute: a server that asks for fewer mails does not say for how long. */
const pause = 60_000

const withoutTls = ({ security }: Place): string =>
  security === "starttls"
    ? 'it offers no TLS at this port: correct "server", or set "security"'
    : 'it speaks no TLS at this port: correct "server", or set "security" to "starttls"'

/** Why there was no reply. */
const unanswered = ({ code, command, detail }: SmtpError, at: string, place: Place): SinkError => {
  const failure = HttpTransport.failureOf(new Error(detail))
  const isClosed = /closed|ECONNRESET|EPIPE/.test(detail)
  if (code === "EDNS" || failure === "unknown host") {
    return unavailable(`${at} can't be reached: its host name has no address`)
  }
  if (code === "ETIMEDOUT") {
    const hint =
      place.security === "tls" ? "" : '; if it speaks TLS from the first byte, as at port 465, set "security" to "tls"'
    return unavailable(`${at} does not answer${hint}`)
  }
  if (code === noLoginWithoutTls) return misconfigured(`${at} ${wantsTls}`)
  if (code === "EAUTH" || code === noLogin) {
    return misconfigured(`${at} offers no login that the relay knows: correct "server" or "auth"`)
  }
  if (code === "EPROTOCOL") return misconfigured(`${at}: what answers there is no SMTP server: correct "server"`)
  const tls = HttpTransport.passing[failure] === undefined
  if (tls || (code === "ETLS" && !isClosed)) {
    const why = failure === "failed handshake" || failure === "other" ? withoutTls(place) : untrusted(failure, "server")
    return misconfigured(`${at}: ${why}`)
  }
  const why = failure === "other" ? (HttpTransport.passing.reset ?? "") : HttpTransport.passing[failure]
  return unavailable(`${at} can't be reached: ${why}${command === "DATA" ? ", in the middle of a mail" : ""}`)
}

const wrongSender = 'does not take mails of this sender: correct "from" or "auth"'
const wantsTls = 'wants TLS first: set "security" to "starttls"'

/** A reply that is about the sender, to whichever command: the code of a bad one, or the words of usual servers. */
const isSenders = ({ reply }: SmtpError): boolean =>
  /^5\d\d[ -]5\.(1\.[78]|7\.60|2\.252)\b/.test(reply) ||
  /\bsender\b.{0,30}\b(rejected|denied|refused|invalid|unknown|verify|not)\b|\bsend as this sender/i.test(reply)

/** Finds whom a server blames as it refuses a recipient: most servers check everything only then. */
const blamed = (error: SmtpError): "sender" | "relaying" | "machine" | "recipient" => {
  const { reply } = error
  if (/^5\d\d[ -]5\.(1\.[1-6]|2\.\d)\b/.test(reply)) return "recipient"
  if (isSenders(error)) return "sender"
  if (/\brelay(ing)?\b.*\b(denied|prohibited|permitted)|unable to relay|authenticat/i.test(reply)) return "relaying"
  return /\b(client|helo|ehlo)\b.*\brejected|\bblock(ed|list)|\bblacklist|\blisted\b/i.test(reply)
    ? "machine"
    : "recipient"
}

/** Advises what to do about a recipient that is refused for good. */
const whatToDo = (error: SmtpError, { hasAuth }: Place): string => {
  switch (blamed(error)) {
    case "sender":
      return wrongSender
    case "relaying":
      return hasAuth
        ? 'passes no mails on to these addresses for this user: correct "server", or allow it there'
        : 'passes no mails on to these addresses without a login: set "auth", or correct "server"'
    case "machine":
      return 'takes no mails of this machine: allow its address there, or correct "server"'
    case "recipient":
      return `takes mails for none of the addresses: correct "to" and "cc"${hasAuth ? "" : ', or set "auth"'}`
  }
}

/** Decides what a refusal for good means, by the command that was refused. */
const refused = (error: SmtpError, at: string, place: Place): SinkError => {
  const { command, status } = error
  const said = codesOf(error)
  if (isSize(error)) return tooLarge(place)
  const wrong = (todo: string) => misconfigured(`${at} ${todo} (${said})`)
  if (status === 538 || (status === 530 && /tls|ssl|encrypt/i.test(error.reply))) return wrong(wantsTls)
  if (command.startsWith("AUTH")) return wrong('refuses the user or its password: correct "auth"')
  if (command === "STARTTLS") return misconfigured(`${at}: ${withoutTls(place)} (${said})`)
  if (status === 530) return wrong(place.hasAuth ? 'wants another login: correct "auth"' : 'wants a login: set "auth"')
  if (command === "MAIL FROM" || (command === "DATA" && isSenders(error))) return wrong(wrongSender)
  if (command === "RCPT TO") return wrong(whatToDo(error, place))
  if (command === "DATA") return rejected(`${at} refuses the mail (${said})`, kept(error, place))
  return wrong('does not serve the relay: correct "server"')
}

const kept = ({ reply }: SmtpError, { keep }: Place): { readonly answer?: Redacted.Redacted<string> } => {
  const answer = reply === "" ? undefined : keep(reply)
  return answer === undefined ? {} : { answer }
}

const tooLarge = ({ server, bytes }: Place): SinkError =>
  unacceptable(
    `SMTP server ${server}: a mail of ${bytes} bytes is larger than it takes: shorten "text", or let a digest have fewer events`,
  )

export const sinkErrorOf = (error: SmtpError, place: Place): SinkError => {
  const at = `SMTP server ${place.server}`
  const { code, command, status } = error
  if (code === "EMESSAGE" && status === 0) return tooLarge(place)
  if (status === 0) return unanswered(error, at, place)
  const said = codesOf(error)
  if (isThrottling(error)) return throttled(`${at} asks for fewer mails (${said}): see "rateLimit"`, pause)
  // These concern one mail: a list that is looked at first, a mailbox that is full. Anything else concerns every mail.
  const isMails = command === "RCPT TO" || command === "DATA"
  if (status >= 500 && status !== 503) return refused(error, at, place)
  return isMails && status !== 421
    ? failed(`${at} does not take the mail now (${said})`, kept(error, place))
    : unavailable(`${at} can't take mails now (${said})`)
}

/** The mail was taken for some addresses only. They are told by their place: an address is personal data. */
export const partly = (
  all: ReadonlyArray<Refused>,
  { to, cc }: { readonly to: ReadonlyArray<string>; readonly cc: ReadonlyArray<string> },
  { server }: Pick<Place, "server">,
): SinkError => {
  const placeOf = (address: string): string => {
    const index = to.indexOf(address)
    return index === -1 ? `"cc"[${cc.indexOf(address)}]` : `"to"[${index}]`
  }
  const which = all.map(({ address, status }) => `${placeOf(address)} (${status})`).join(", ")
  const message = `SMTP server ${server} did not take the mail for ${which}`
  return all.some(({ status }) => status < 500)
    ? failed(`${message}; the other addresses have it, and get it again with the same Message-ID`)
    : rejected(`${message}; the other addresses have it: correct these`)
}
