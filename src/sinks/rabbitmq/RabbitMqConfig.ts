/** The config of a RabbitMQ sink. */
import { Redacted, Schema } from "effect"
import { batch } from "../../config/schema/BatchKeys.ts"
import type { Doubt } from "../../config/schema/ConfiguredTypes.ts"
import { oneOf, secret, template, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { type AmqpUrl, expected, parse } from "./AmqpUrl.ts"

/** The longest name and routing key, in bytes (AMQP 0-9-1, "short string"). */
export const longestKey = 255

const exchangeProblem = (exchange: string): string | undefined => {
  if (Template.hasPlaceholder(exchange)) {
    return 'every event goes to the same exchange: placeholders stand in "routingKey"'
  }
  return Buffer.byteLength(exchange) > longestKey ? "an exchange's name has 255 bytes at most" : undefined
}

const keyProblem = (key: string): string | undefined =>
  !Template.hasPlaceholder(key) && Buffer.byteLength(key) > longestKey
    ? "a routing key has 255 bytes at most"
    : undefined

export const RabbitMqConfig = Schema.Struct({
  // It may hold a password.
  url: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "Address of the broker: `amqps://` with TLS, `amqp://` without, the user, the virtual host",
      examples: ["amqps://relay@rabbit.example.com:5671/events"],
      shown: false,
    }).check(
      Schema.makeFilter(
        (url: string) => {
          const parsed = parse(url)
          return typeof parsed === "string" ? parsed : undefined
        },
        { expected, toJsonSchema: () => ({ minLength: 1 }) },
      ),
    ),
  ),
  password: Schema.optionalKey(secret("The user's password, where it does not stand in `url`")),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Certificates of one's own; a client certificate is also the login where `url` has no user",
    }),
  ),
  exchange: Schema.optionalKey(
    text("The exchange, which must be there; without it events go to the queue that `routingKey` names", {
      examples: ["events"],
    }).check(Schema.makeFilter(exchangeProblem)),
  ),
  routingKey: Schema.optionalKey(
    template("By it the exchange chooses the queues; may hold placeholders. By default the type", {
      examples: ["{{type}}"],
    }).check(Schema.makeFilter(keyProblem)),
  ),
  mandatory: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Whether the broker returns a message that no queue is bound for. With `false` such a message is lost; an exchange of type x-delayed-message needs it",
      default: true,
    }),
  ),
  // The lane reads both too: what it keeps in order, the sink confirms one by one.
  order: oneOf("`key`: events of one key in the order they came; `none`: as fast as may be", ["none", "key"], "none"),
  key: MessageKeys.key,
  headers: MessageKeys.headers(),
  format: MessageKeys.format,
  batch: batch("Events that wait for their confirms at most", 100),
  requestTimeout: Units.duration.or("8 seconds", "How long the broker may take to let the relay in, and for a batch"),
})
  .annotate({
    otherNames: [
      ["urls uri address addresses host hosts servers", "url"],
      ["vhost virtual_host username user", "url", `it belongs in "url": ${expected}`],
      ["key_template binding_key topic", "routingKey"],
      ["exchange_name", "exchange"],
      ["queue queue_name", "routingKey", 'without "exchange", "routingKey" names the queue'],
      ["encoding codec", "format"],
    ],
  })
  .check(
    Schema.makeFilter(({ url, password, tls, exchange, routingKey, mandatory, headers }) => {
      const { isTls, ...login } = urlOf({ url })
      if (password !== undefined && login.user === undefined) {
        return { path: ["password"], issue: 'it is nobody\'s: name the user in "url", as in "amqps://user@host/vhost"' }
      }
      if (password !== undefined && login.password !== undefined) {
        return { path: ["password"], issue: 'the password stands in "url" as well: take it out there' }
      }
      if (!isTls && tls !== undefined) {
        return { path: ["tls"], issue: '"amqp://" speaks no TLS: write "amqps://" in "url", or take this key out' }
      }
      if (exchange === undefined && routingKey === undefined) {
        return {
          path: ["exchange"],
          issue: 'nothing says where events go: add "exchange", or "routingKey" with a queue\'s name',
        }
      }
      if (exchange === undefined && mandatory === false) {
        return { path: ["mandatory"], issue: "a message for a queue that is missing would be lost: take this key out" }
      }
      if (mandatory === undefined && "x-delay" in headers) {
        return {
          path: ["headers", "x-delay"],
          issue: 'an exchange of type x-delayed-message returns each message that it delays: add "mandatory": false',
        }
      }
      const routing = Object.keys(headers).find((name) => name === "CC" || name === "BCC")
      return routing === undefined
        ? undefined
        : { path: ["headers", routing], issue: "RabbitMQ routes by this header: bind the other queues to the exchange" }
    }),
  )
export type RabbitMqConfig = typeof RabbitMqConfig.Type

/** Ports of another protocol than the URL says. */
export const doubts = (config: RabbitMqConfig): ReadonlyArray<Doubt> => {
  const { isTls, address } = urlOf(config)
  if (address.port === 15_672 || address.port === 15_671) {
    const message = `${address.port} is the port of the management page`
    return [{ path: ["url"], message, hint: "clients connect to 5672, or with TLS to 5671" }]
  }
  if (address.port !== (isTls ? 5672 : 5671)) return []
  const [scheme, other] = isTls ? ["amqps://", "without TLS"] : ["amqp://", "with TLS"]
  const hint = isTls ? "take port 5671, or amqp://" : "write amqps://, or take port 5672"
  return [{ path: ["url"], message: `${address.port} is the port ${other}, and the URL begins with ${scheme}`, hint }]
}

export const urlOf = ({ url }: Pick<RabbitMqConfig, "url">): AmqpUrl => {
  const parsed = parse(Redacted.value(url))
  // The schema has refused every other; a masked one is none.
  return typeof parsed === "string"
    ? { isTls: false, address: { host: "", port: 0 }, user: undefined, password: undefined, vhost: "/" }
    : parsed
}
