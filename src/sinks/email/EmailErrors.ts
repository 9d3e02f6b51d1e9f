/**
 * Decides how an SMTP server's replies affect the lane, and how an operator can fix
 * the cause.
 *
 * **Guarantee.** Messages show a reply's codes, and its words without addresses,
 * secrets and parts of the mail. The whole reply is kept with the answers of
 * receivers.
 */
import type { Redacted } from "effect"
import { quoting } from "../../event/Quoted.ts"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { untrusted } from "../Certificates.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"
import { noLogin, noLoginWithoutTls, type Refused, type SmtpError } from "./SmtpSession.ts"

/** The facts that a message shows. */
export interface Place {
  /** Host and port. */
  readonly server: string
  readonly security: "starttls" | "tls" | "none"
  readonly hasAuth: boolean
  /** Size of the mail, in bytes; 0 without one. */
  readonly bytes: number
  /** Returns the part of a reply that is kept. */
  readonly keep: (reply: string) => Redacted.Redacted<string> | undefined
  /** Returns the server's words as a message may show them. */
  readonly words: (reply: string) => string
}

/** The enhanced code of a reply without its class (RFC 3463): `1.1` of `550 5.1.1 …`. */
const enhancedOf = (reply: string): string | undefined => /^\d{3}[ -][245]\.(\d{1,3}\.\d{1,3})\b/.exec(reply)?.[1]

/** The codes of a reply, RFC 5321 and RFC 3463, and the server's own words: `550 5.1.1: "No such user"`. */
const replyOf = ({ reply, status }: SmtpError, { words }: Place): string => {
  const enhanced = enhancedOf(reply)
  const code = enhanced === undefined ? String(status) : `${status} ${String(status)[0]}.${enhanced}`
  return code + quoting(words(reply.replace(/^\d{3}(?:[ -]|$)(?:[245]\.\d{1,3}\.\d{1,3}\s?)?/gm, "")))
}

/** The part that a reply concerns. */
type Concern =
  | "recipient"
  /** A recipient's mailbox is full, and may have room later. */
  | "full"
  | "size"
  | "content"
  | "sender"
  | "relaying"
  /** This machine's address, or the checks of the sender's domain. */
  | "origin"
  | "login"
  | "tls"
  /** The rate of mails. */
  | "limit"

/**
 * By enhanced code: RFC 3463 and the registry of RFC 5248, then Gmail's and Exchange Online's codes. The first match
 * counts.
 */
const byCode: ReadonlyArray<readonly [RegExp, Concern]> = [
  [/^1\.[78]$|^2\.252$|^7\.60$/, "sender"],
  [/^1\.\d+$|^2\.[0145]$/, "recipient"],
  [/^2\.2$/, "full"],
  [/^2\.3$|^3\.4$/, "size"],
  [/^4\.5$/, "limit"],
  [/^6\.\d+$/, "content"],
  [/^7\.(10|11|29|30)$/, "tls"],
  [/^7\.(8|9|1[2-5]|57)$/, "login"],
  [/^7\.(2[0-8]|[567]\d\d)$/, "origin"],
]

/** By the words of common servers, if the codes don't decide. */
const byWords: ReadonlyArray<readonly [RegExp, Concern]> = [
  [/\bsender\b.{0,30}\b(rejected|denied|refused|invalid|unknown|verify|not)\b|\bsend as this sender/i, "sender"],
  [/\bSPF\b|\bDKIM\b|\bDMARC\b|reverse (dns|lookup)|\bPTR\b/i, "origin"],
  [/\brelay(ing)?\b.*\b(denied|prohibited|permitted)|unable to relay|authenticat/i, "relaying"],
  [/\b(client|helo|ehlo)\b.*\brejected|\bblocked (using|by)\b|\bblock ?list|\bblacklist|\blisted\b/i, "origin"],
  [/\b(daily|hourly|sending)\b.{0,30}\b(limit|quota)\b/i, "limit"],
  [/\bmailbox\b.{0,20}\bfull\b|over ?quota|quota exceeded/i, "full"],
]

/** Returns `undefined` if neither the code nor the words decide. */
const concernOf = ({ reply, status }: SmtpError): Concern | undefined => {
  const enhanced = enhancedOf(reply) ?? ""
  const coded = byCode.find(([pattern]) => pattern.test(enhanced))?.[1]
  if (coded !== undefined) return coded
  const worded = byWords.find(([pattern]) => pattern.test(reply))?.[1]
  if (worded !== undefined) return worded
  return status === 552 && enhanced === "" ? "size" : undefined
}

/** Reports whether a temporary reply asks for fewer mails. The codes don't show it. */
const isThrottling = ({ status, reply }: SmtpError): boolean =>
  status >= 400 &&
  status < 500 &&
  /throttl|\btoo (many|fast|quickly)\b|\brate\b|slow down|\blimit exceeded\b|queue quota/i.test(reply)

/** Whether the reply may concern only this connection, which has carried mails. Another connection may be accepted. */
export const isOfConnection = ({ status, reply }: SmtpError): boolean =>
  status === 421 || (status >= 400 && /\b(per|this|in one|single) (connection|session)\b/i.test(reply))

/** A minute, because a server that asks for fewer mails doesn't say how long to wait. */
const pause = 60_000

const withoutTls = ({ security }: Place): string =>
  security === "starttls"
    ? 'it offers no TLS at this port: correct "server", or set "security"'
    : 'it speaks no TLS at this port: correct "server", or set "security" to "starttls"'

/** The server agreed to TLS, but the handshake failed. */
const brokenTls = (detail: string): string => {
  const [, alert = ""] = /alert[ _]([a-z_ ]+)/i.exec(detail) ?? []
  const named = alert === "" ? "" : ` (${alert.replaceAll("_", " ").trim().toLowerCase()})`
  return `the TLS handshake failed${named}: probably it wants another version of TLS, or a client certificate ("tls")`
}

/** The cause of a missing reply. */
const unanswered = ({ code, command, detail }: SmtpError, at: string, place: Place): SinkError => {
  const failure = HttpTransport.failureOf(new Error(detail))
  const isClosed = /closed|ECONNRESET|EPIPE/.test(detail)
  if (code === "EDNS" || failure === "unknown host") {
    return unavailable(`${at} can't be reached: its host name has no address`)
  }
  if (code === "ETIMEDOUT") {
    if (command !== "CONN") return unavailable(`${at} does not answer ${command}`)
    const hint =
      place.security === "tls" ? "" : '; if it speaks TLS from the first byte, as at port 465, set "security" to "tls"'
    return unavailable(`${at} does not answer${hint}`)
  }
  if (code === noLoginWithoutTls) return misconfigured(`${at} ${wantsTls}`)
  if (code === "EAUTH" || code === noLogin) {
    return misconfigured(`${at} offers no login that the relay knows: correct "server" or "auth"`)
  }
  if (code === "EPROTOCOL") return misconfigured(`${at}: what answers there is no SMTP server: correct "server"`)
  if (code === "ESTREAM") {
    return misconfigured(
      `${at}: it answered DATA without 354, so the mail was not sent; probably no mail server is there`,
    )
  }
  const tls = HttpTransport.passing[failure] === undefined
  if (tls || (code === "ETLS" && !isClosed)) {
    const isHandshake = failure === "failed handshake" || failure === "other"
    const isBroken = place.security === "starttls" || /alert/i.test(detail)
    const why = isHandshake ? (isBroken ? brokenTls(detail) : withoutTls(place)) : untrusted(failure, "server")
    return misconfigured(`${at}: ${why}`)
  }
  const why = failure === "other" ? (HttpTransport.passing.reset ?? "") : HttpTransport.passing[failure]
  return unavailable(`${at} can't be reached: ${why}${command === "DATA" ? ", in the middle of a mail" : ""}`)
}

const wrongSender = 'does not take mails of this sender: correct "from" or "auth"'
const wantsTls = 'wants TLS first: set "security" to "starttls"'

/** Returns advice about a refusal that concerns every mail, or `undefined` if it concerns this mail. */
const whatToDo = (concern: Concern | undefined, command: string, place: Place): string | undefined => {
  const { hasAuth } = place
  switch (concern) {
    case "sender":
      return wrongSender
    case "relaying":
      return hasAuth
        ? 'passes no mails on to these addresses for this user: correct "server", or allow it there'
        : 'passes no mails on to these addresses without a login: set "auth", or correct "server"'
    case "origin":
      return 'takes no mails of this machine or of the domain of "from": allow its address there, correct the domain\'s SPF, DKIM, DMARC or reverse DNS, or correct "server"'
    case "login":
      return hasAuth ? 'refuses the login: correct "auth"' : 'wants a login: set "auth"'
    case "tls":
      return wantsTls
    case "recipient":
      return `takes mails for none of the addresses: correct "to" and "cc"${hasAuth ? "" : ', or set "auth"'}`
    case undefined:
      if (command === "MAIL FROM") return wrongSender
      return command === "RCPT TO" ? whatToDo("recipient", command, place) : undefined
    default:
      return undefined
  }
}

/** Decides the effect of a permanent refusal. */
const refused = (error: SmtpError, at: string, place: Place): SinkError => {
  const { command, status } = error
  const reply = replyOf(error, place)
  const wrong = (todo: string) => misconfigured(`${at} ${todo} (${reply})`, kept(error, place))
  if (status === 538 || (status === 530 && /tls|ssl|encrypt/i.test(error.reply))) return wrong(wantsTls)
  if (command.startsWith("AUTH")) return wrong('refuses the user or its password: correct "auth"')
  if (command === "STARTTLS") return misconfigured(`${at}: ${withoutTls(place)} (${reply})`)
  if (status === 530) return wrong(place.hasAuth ? 'wants another login: correct "auth"' : 'wants a login: set "auth"')
  const concern = concernOf(error)
  const todo = whatToDo(concern, command, place)
  if (todo !== undefined) return wrong(todo)
  switch (concern) {
    case "size":
      return tooLarge(place, reply)
    case "content":
      return unacceptable(`${at} refuses the mail for its content (${reply})`, kept(error, place))
    case "full":
      return failed(`${at}: a mailbox is full (${reply})`, kept(error, place))
    case "limit":
      return throttled(`${at} takes no more mails for some time (${reply}): see "rateLimit"`, pause)
    default:
      return command === "DATA"
        ? rejected(`${at} refuses the mail (${reply})`, kept(error, place))
        : wrong('does not serve the relay: correct "server"')
  }
}

const kept = ({ reply }: SmtpError, { keep }: Place): { readonly answer?: Redacted.Redacted<string> } => {
  const answer = reply === "" ? undefined : keep(reply)
  return answer === undefined ? {} : { answer }
}

const tooLarge = ({ server, bytes }: Place, reply = ""): SinkError =>
  unacceptable(
    `SMTP server ${server}: a mail of ${bytes} bytes is larger than it takes${reply === "" ? "" : ` (${reply})`}: shorten "text", or let a digest have fewer events`,
  )

/** Refusals of these concern every mail, also while they are temporary. */
const ofEvery: ReadonlySet<Concern | undefined> = new Set(["sender", "relaying", "origin", "login", "tls"])

export const sinkErrorOf = (error: SmtpError, place: Place): SinkError => {
  const at = `SMTP server ${place.server}`
  const { code, command, status } = error
  if (code === "EMESSAGE" && status === 0) return tooLarge(place)
  if (status === 0) return unanswered(error, at, place)
  const reply = replyOf(error, place)
  if (isThrottling(error)) return throttled(`${at} asks for fewer mails (${reply}): see "rateLimit"`, pause)
  if (status >= 500 && status !== 503) return refused(error, at, place)
  // These concern one mail: a greylist, a full mailbox. Anything else concerns every mail.
  const isMails = (command === "RCPT TO" || command === "DATA") && status !== 421 && !ofEvery.has(concernOf(error))
  return isMails
    ? failed(`${at} does not take the mail now (${reply})`, kept(error, place))
    : unavailable(`${at} can't take mails now (${reply})`, kept(error, place))
}

/** The server took the mail for some addresses only. They are named by their index: an address is personal data. */
export const partly = (
  all: ReadonlyArray<Refused>,
  { to, cc }: { readonly to: ReadonlyArray<string>; readonly cc: ReadonlyArray<string> },
  place: Place,
): SinkError => {
  const placeOf = (address: string): string => {
    const index = to.indexOf(address)
    return index === -1 ? `"cc"[${cc.indexOf(address)}]` : `"to"[${index}]`
  }
  const which = all.map(({ address, error }) => `${placeOf(address)} (${replyOf(error, place)})`).join(", ")
  const message = `SMTP server ${place.server} did not take the mail for ${which}`
  return all.some(({ error }) => error.status < 500 || concernOf(error) === "full")
    ? failed(`${message}; the other addresses have it, and it is sent again to these alone`)
    : rejected(`${message}; the other addresses have it: correct these`)
}
