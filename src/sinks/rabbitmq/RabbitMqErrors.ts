/** Decides how a broker's replies affect the lane, and how an operator can fix the cause. */
import { Schema } from "effect"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { untrusted } from "../Certificates.ts"
import { oneLine } from "../ServiceWords.ts"
import { failed, misconfigured, rejected, type SinkError, throttled, unacceptable, unavailable } from "../Sink.ts"

// Failures between the relay and a broker.

export class AmqpError extends Schema.TaggedError<AmqpError>()("AmqpError", {
  /** The broker's reply code (AMQP 0-9-1, "constants"), or a code of ours below. */
  code: Schema.String,
  /** The words of the broker, the client or the system; it may hold names of the broker and no payload. */
  detail: Schema.String,
}) {}

export const amqpError = (code: string, detail = "") => new AmqpError({ code, detail })

/** Our codes, for failures without a reply code. */
export const unreachable = "UNREACHABLE"
export const timedOut = "TIMED_OUT"
/** The broker closed the connection before the login succeeded, without an error. */
export const hungUp = "HUNG_UP"
/** The code of a server that speaks another protocol. */
export const noBroker = "NO_BROKER"
export const loginRefused = "LOGIN_REFUSED"
export const noLogin = "NO_LOGIN"
export const vhostRefused = "VHOST_REFUSED"
/** The broker has an alarm, so it reads nothing from publishers. */
export const blocked = "BLOCKED"
/** A queue did not accept the message. */
export const nacked = "NACKED"
/** No queue is bound for the message. */
export const returned = "RETURNED"
/** The client can't write the message: it has a property or a header that is too long. */
export const unwritable = "UNWRITABLE"

const accessRefused = "403"
const notFound = "404"
export const preconditionFailed = "406"
/** Another connection owns the queue. Publishing to it is allowed. */
export const resourceLocked = "405"

/** The right to write depends on the routing key ("topic authorisation"). */
export const isForKey = ({ code, detail }: AmqpError): boolean =>
  code === accessRefused && detail.includes("access to topic")

/** The names that a message shows. */
interface Place {
  /** Host and port. */
  readonly server: string
  readonly isTls: boolean
  readonly vhost: string
  /** Empty for the default exchange. */
  readonly exchange: string
  /** A property of the event; `undefined` if the error isn't about one. */
  readonly routingKey?: string
  /** Whether the routing key is a template. If it is, an error about it may concern only this event. */
  readonly isTemplated: boolean
  /** The size of the body; 0 if the error isn't about one. */
  readonly bytes: number
  /** Advice for an event that is too large. */
  readonly smaller: string
}

/** Whether one message may be the reason for the closed channel. If so, the others can be accepted when sent alone. */
export const isOneMessages = (error: AmqpError): boolean => error.code === preconditionFailed || isForKey(error)

/** Whether nothing more can be sent now. */
export const isConnections = ({ code }: AmqpError): boolean =>
  code !== nacked && code !== returned && code !== unwritable

/** Errors of frames, syntax, commands and their order (AMQP 0-9-1, section 1.4). */
const garbled = new Set(["501", "502", "503", "505"])

/** Memory and disk are not freed in a moment, in milliseconds. */
const pause = 5_000

/** Codes that need a person, each with advice. */
const advice: Readonly<Record<string, string>> = {
  [noBroker]: 'what answers there is no RabbitMQ: correct "url"',
  [loginRefused]: 'it refuses the user or its password: correct "url" or "password"',
  [noLogin]:
    'it knows no such login: name a user in "url", or enable rabbitmq_auth_mechanism_ssl for client certificates',
}

const unreached = ({ detail }: AmqpError, at: string, { isTls }: Place): SinkError => {
  const failure = HttpTransport.failureOf(new Error(detail))
  const why = HttpTransport.passing[failure]
  if (why !== undefined) {
    const cause = failure === "other" ? detail : why
    return unavailable(`${at} can't be reached: ${cause}`)
  }
  if (failure === "failed handshake") {
    const todo = isTls
      ? 'it speaks no TLS at this port, or wants a client certificate: correct the port, write "amqp://", or set "tls"'
      : "it ended the connection"
    return misconfigured(`${at}: ${todo}`)
  }
  return misconfigured(`${at}: ${untrusted(failure, "url")}`)
}

/** The broker's own words, or else its code. */
const saidBy = ({ code, detail }: AmqpError): string => (detail === "" ? code : oneLine(detail))

/** Decides whether a refusal concerns the event alone or the exchange. */
const refusal = (error: AmqpError, at: string, place: Place): SinkError => {
  const { exchange, routingKey, isTemplated, bytes, smaller } = place
  const where = exchange === "" ? at : `${at}, exchange ${exchange}`
  const key = routingKey === undefined ? "" : ` "${shortened(routingKey)}"`
  if (error.code === accessRefused) {
    if (isForKey(error)) {
      const message = `${where}: the user may not write with the routing key${key}: grant it with set_topic_permissions (${saidBy(error)})`
      return isTemplated ? failed(message) : misconfigured(message)
    }
    if (/internal exchange/.test(error.detail)) {
      return misconfigured(
        `${where}: the exchange is internal, so nobody may publish to it: name another in "exchange" (${saidBy(error)})`,
      )
    }
    const thing = exchange === "" ? "the default exchange (amq.default)" : "the exchange"
    return misconfigured(
      `${where}: the user may not write to ${thing}: grant it with set_permissions (${saidBy(error)})`,
    )
  }
  if (error.code === notFound) {
    const todo = exchange === "" ? `there is no queue${key}: make it, or correct "routingKey"` : noExchange
    return misconfigured(`${where}: ${todo} (${saidBy(error)})`)
  }
  const [, limit] = /message size \d+ .*?larger than .*?(\d+)/.exec(error.detail) ?? []
  if (limit === undefined) return rejected(`${where} refuses the event (${saidBy(error)})`)
  return unacceptable(
    `${where}: an event of ${bytes} bytes is larger than the ${limit} that the broker takes: raise max_message_size, or ${smaller}`,
  )
}

const noExchange = 'there is no such exchange: make it, or correct "exchange"'

/** A template may render any text. */
const shortened = (text: string): string => (text.length > 60 ? `${text.slice(0, 60).toWellFormed()}…` : text)

/** No queue is bound for the routing key. A constant key is the same for every event, so the target is at fault. */
const unroutable = (at: string, { exchange, routingKey = "", isTemplated }: Place): SinkError => {
  const key = shortened(routingKey)
  const message =
    exchange === ""
      ? `${at}: there is no queue "${key}": make it, or correct "routingKey"`
      : `${at}, exchange ${exchange}: no queue is bound for the routing key "${key}": bind one, give the exchange an alternate one, or correct "routingKey"`
  return isTemplated ? rejected(message) : misconfigured(message)
}

/** Decides, from the broker's words if it sent any, why it doesn't open a virtual host. */
const ofVhost = (words: string, at: string, vhost: string): SinkError => {
  const named = `${at}: the virtual host ${vhost}`
  const suffix = words === "" ? "" : ` (${oneLine(words)})`
  if (/connection limit \(\d+\) is reached/.test(words))
    return unavailable(`${at} has no connection left for the relay: raise the limit${suffix}`)
  if (/ is down$/.test(words)) return unavailable(`${named} is down${suffix}`)
  if (/ not found$/.test(words)) return misconfigured(`${named} is not there: make it, or correct "url"${suffix}`)
  return misconfigured(
    /refused for user/.test(words)
      ? `${named} does not let the user in: grant it (set_permissions)${suffix}`
      : `${named} is not there, does not let the user in, or has no connection left: make it, correct "url", or grant it (set_permissions)${suffix}`,
  )
}

/** A queue is full or has failed. A constant key leads every event to the same queues, so all events wait. */
const refusedByQueue = (at: string, { isTemplated }: Place): SinkError => {
  const message = `${at}: a queue did not take the event (nack): it is full and refuses more ("x-overflow": "reject-publish"), or failed`
  return isTemplated ? failed(message) : throttled(message, pause)
}

export const sinkErrorOf = (error: AmqpError, place: Place): SinkError => {
  const at = `rabbitmq ${place.server}`
  const { code, detail } = error
  switch (code) {
    case unreachable:
      return unreached(error, at, place)
    case timedOut:
      return unavailable(`${at} does not answer`)
    case hungUp: {
      const hint = place.isTls ? "which port this is" : 'which port this is, and whether it wants "amqps://"'
      return unavailable(`${at} closes the connection at once; if that persists, check ${hint}`)
    }
    case blocked:
      return throttled(
        `${at} takes no messages, of anybody: ${detail === "" ? "an alarm" : detail}; free some of it, or change the watermark`,
        pause,
      )
    case nacked:
      return refusedByQueue(at, place)
    case returned:
      return unroutable(at, place)
    case unwritable:
      return unacceptable(
        `${at}: the event's headers or routing key are larger than a message can have: shorten "headers" or "routingKey"`,
      )
    case vhostRefused:
      return ofVhost(detail, at, place.vhost)
    case accessRefused:
    case notFound:
    case preconditionFailed:
      return refusal(error, at, place)
    default: {
      const todo = advice[code]
      if (todo !== undefined) return misconfigured(`${at}: ${todo}`)
      if (garbled.has(code)) {
        return unavailable(
          `${at} ended the connection: what reached it was not the protocol that was sent (${saidBy(error)}); if that persists, look at what stands between`,
        )
      }
      // The rest is transient: a shutdown, a node that fails over, an internal error.
      return unavailable(`${at} can't take messages now (${saidBy(error)})`)
    }
  }
}
