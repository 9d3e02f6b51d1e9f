/** Decides how an error of NATS affects the lane, and how an operator can fix it. */
import { Schema } from "effect"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { untrusted } from "../Certificates.ts"
import { failed, misconfigured, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"

// Failures of a NATS server. `sinkErrorOf` decides how they affect the lane.

export const Kind = Schema.Literals([
  // No connection.
  "unreachable",
  "silent",
  "silentToTls",
  "closed",
  "turnedAway",
  "foreign",
  "refused",
  "expired",
  "untrusted",
  "tlsMissing",
  "tlsUnwanted",
  // No acknowledgement.
  "publishDenied",
  "inboxDenied",
  "noStream",
  /** The subject's stream has no leader, or no server knows the streams, because a quorum is missing. */
  "noLeader",
  "unacknowledged",
  "foreignAck",
  "noAck",
  "tooLarge",
  /** The stream refused it: `code` says why. */
  "stream",
])
export type Kind = typeof Kind.Type

export class NatsError extends Schema.TaggedError<NatsError>()("NatsError", {
  kind: Kind,
  /** JetStream's `err_code`; 0 without one. */
  code: Schema.Number,
  /** The server's words, or the failure of TLS or the network. May be empty. Contains no payload. */
  detail: Schema.String,
}) {}

/** The facts that a message names. */
interface Place {
  /** The servers of the config. */
  readonly servers: string
  /** The subject; empty if the error isn't about one. */
  readonly subject: string
  /** Whether the subject is a template. If it is, an error about it concerns only this event. */
  readonly isTemplated: boolean
  /** The size of the message, headers included; 0 if the error isn't about one. */
  readonly bytes: number
  /** Advice for an event that is too large. */
  readonly smaller: string
}

const seconds = 1_000

/** Kinds that pass by themselves. */
const passing: Partial<Record<Kind, string>> = {
  silent: "does not answer",
  silentToTls: 'does not answer; if it begins with the handshake of TLS (handshake_first), set "tlsFirst"',
  closed:
    'has closed the connection; if that persists, check which port this is, and whether it wants a client certificate: set "tls"',
  noLeader:
    "answers, but the stream has no leader now: look at the servers of its cluster, of which a majority is needed",
  unacknowledged: "answers, but nothing acknowledges: look at the stream's leader and its disk",
}

/** Kinds that need a person. */
const advice: Partial<Record<Kind, string>> = {
  refused: 'refuses who logs in: correct "auth"',
  expired: 'finds that the credentials have expired: renew those of "auth"',
  foreign: 'what answers there is no NATS server: correct "servers"',
  tlsMissing: 'demands TLS: set "tls"',
  tlsUnwanted: 'offers no TLS at this port: name another, or take "tls" out',
  inboxDenied:
    'the user may not subscribe to where acknowledgements come: grant it what is below "inboxPrefix", or set that',
}

/** Kinds about the subject. If the subject is a template, they may concern this event only. */
const subjectAdvice: Partial<Record<Kind, string>> = {
  noStream: 'no stream takes this subject: make one, or correct "subject"',
  publishDenied: "the user may not publish to this subject: grant it",
  noAck: "the stream acknowledges nothing (no_ack): have it do so",
  foreignAck: 'what answers on this subject is no stream: make one that takes it, or correct "subject"',
}

/** JetStream's codes of messages that no retry helps. */
const refusedForGood = ({ smaller }: Place): Readonly<Record<number, string>> => ({
  10054: `is larger than the stream takes: raise its max_msg_size, or ${smaller}`,
  10097: 'has more headers than a stream takes: take some out of "headers"',
})

/** JetStream's codes that need a person. */
const lasting: Readonly<Record<number, string>> = {
  10039: "JetStream is not enabled for this account: enable it, or log in to another",
  10076: "JetStream is not enabled: enable it",
  10109: "the stream is sealed: nothing is added to it any more",
}

/** JetStream's codes for storage of an account or a server that is used up. */
const usedUp = new Set([10002, 10023, 10028, 10047])

const printable = (words: string): string => words.replace(/[^\x20-\x7e]/g, " ").slice(0, 200)

/** A stream refuses a message. */
const byStream = ({ code, detail }: NatsError, at: string, place: Place): SinkError => {
  const { bytes, isTemplated } = place
  const reply = `${printable(detail)}, ${code}`
  const never = refusedForGood(place)[code]
  if (never !== undefined)
    return unacceptable(`${at}: an event of ${bytes} bytes, headers included, ${never} (${reply})`)
  const todo = lasting[code]
  if (todo !== undefined) return misconfigured(`${at}: ${todo} (${reply})`)
  // 10077: the full stream keeps its messages (`discard: new`) until consumers remove some.
  if (code === 10077 && /exceeded/.test(detail)) {
    const message = `${at}: the stream is full: raise its limits, or see to its consumers (${reply})`
    return isTemplated ? failed(message) : throttled(message, 5 * seconds)
  }
  // Another subject would not help.
  if (usedUp.has(code)) {
    return throttled(
      `${at}: the account, or the server, has no storage left for JetStream: raise its limits, or take messages out of its streams (${reply})`,
      5 * seconds,
    )
  }
  // 10167: more messages wait to be written than the server keeps in memory.
  if (code === 10167) return throttled(`${at}: the stream asks to wait (${reply})`, 1 * seconds)
  // The rest is transient: an election, a store that fails over, resources that are used up.
  return unavailable(`${at} can't take events now (${reply})`)
}

export const sinkErrorOf = (error: NatsError, place: Place): SinkError => {
  const { kind, detail } = error
  const { subject, isTemplated, bytes, smaller } = place
  const server = `NATS ${place.servers}`
  // A template may render any text, so a subject that is too long is cut.
  const at =
    subject === "" ? server : `${server}, subject ${subject.length > 250 ? `${subject.slice(0, 60)}…` : subject}`
  if (kind === "stream") return byStream(error, at, place)
  if (kind === "tooLarge") {
    return unacceptable(
      `${at}: an event of ${bytes} bytes, headers included, is larger than the server takes: raise its max_payload, or ${smaller}`,
    )
  }
  if (kind === "unreachable") {
    const why = HttpTransport.passing[detail as HttpTransport.Failure] ?? detail
    return unavailable(`${server} can't be reached: ${why}`)
  }
  if (kind === "turnedAway") return unavailable(`${server} turns the relay away (${printable(detail)})`)
  if (kind === "untrusted") return misconfigured(`${server}: ${untrusted(detail as HttpTransport.Failure, "servers")}`)
  const waits = passing[kind]
  if (waits !== undefined) return unavailable(`${server} ${waits}`)
  const forSubject = subjectAdvice[kind]
  if (forSubject !== undefined) {
    const message = `${at}: ${forSubject}`
    return isTemplated ? failed(message) : misconfigured(message)
  }
  return misconfigured(`${server}: ${advice[kind] ?? kind}`)
}
