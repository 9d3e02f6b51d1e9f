/** Failures between the relay and a broker. */
import { Schema } from "effect"

export class AmqpError extends Schema.TaggedError<AmqpError>()("AmqpError", {
  /** The broker's reply code (AMQP 0-9-1, "constants"), or one of ours below. */
  code: Schema.String,
  /** The words of the broker, the client or the system; it may hold names of the broker and no payload. */
  detail: Schema.String,
}) {}

export const amqpError = (code: string, detail = "") => new AmqpError({ code, detail })

/** Our codes, for what has no reply code. */
export const unreachable = "UNREACHABLE"
export const timedOut = "TIMED_OUT"
/** The broker closed the connection before it let the relay in, without a word. */
export const hungUp = "HUNG_UP"
/** The code of a server that speaks another protocol. */
export const noBroker = "NO_BROKER"
export const loginRefused = "LOGIN_REFUSED"
export const noLogin = "NO_LOGIN"
export const vhostRefused = "VHOST_REFUSED"
/** An alarm of the broker: it reads nothing from those who publish. */
export const blocked = "BLOCKED"
/** A queue did not take the message. */
export const nacked = "NACKED"
/** No queue is bound for the message. */
export const returned = "RETURNED"
/** The client can't write the message: it has a property or a header that is too long. */
export const unwritable = "UNWRITABLE"

export const accessRefused = "403"
export const notFound = "404"
export const preconditionFailed = "406"
/** Another connection owns the queue. Publishing to it is allowed. */
export const resourceLocked = "405"

/** The right to write is by the routing key ("topic authorisation"). */
export const isForKey = ({ code, detail }: AmqpError): boolean =>
  code === accessRefused && detail.includes("access to topic")
