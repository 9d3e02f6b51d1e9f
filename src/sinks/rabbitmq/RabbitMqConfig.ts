/** The config of a RabbitMQ sink. */
import { createHash } from "node:crypto"
import { Redacted, Schema } from "effect"
import * as Address from "../../config/Address.ts"
import type { Doubt } from "../../config/schema/ConfiguredTypes.ts"
import { batch, body, bodyProblem, oneOf, secret, template, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Event.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { SignatureConfig } from "../Signing.ts"

// The broker's address, as RabbitMQ's own clients write it:
// `amqps://user@rabbit.example.com:5671/vhost` (RabbitMQ URI specification).

export interface AmqpUrl {
  readonly isTls: boolean
  readonly address: Address.Address
  readonly user: string | undefined
  readonly password: string | undefined
  /** The virtual host. `/` if the URL names none. */
  readonly vhost: string
}

const form =
  /^(?<scheme>amqps?):\/\/(?:(?<login>[^/?#]*)@)?(?<host>[^/?#@]+)(?:\/(?<vhost>[^/?#]*))?(?<rest>(?:[/?#].*)?)$/isu

/** The message about a text that isn't a URL. It never contains the text. */
const expected = 'a url is "amqps://user@rabbit.example.com:5671/vhost", and "amqp://" without TLS'

/** Returns the URL, or the reason why the text isn't one. */
export const parse = (text: string): AmqpUrl | string => {
  const { scheme = "", login, host = "", vhost = "", rest = "" } = form.exec(text)?.groups ?? {}
  if (scheme === "") return expected
  if (host.includes(",")) return "the url names one host: several brokers share a name, or stand behind a load balancer"
  if (rest.startsWith("/")) return `a "/" in a virtual host's name is written %2F; ${expected}`
  if (rest !== "") return 'the relay knows no parameters here: certificates have the key "tls"'
  const isTls = scheme.toLowerCase() === "amqps"
  const address = Address.parse(/:\d+$/u.test(host) ? host : `${host}:${isTls ? 5671 : 5672}`)
  if (address === undefined || address.port < 1 || address.port > 65_535) return expected
  const name = Address.percentDecoded(vhost)
  const [user, password] = login?.split(/:(.*)/su).map(Address.percentDecoded) ?? []
  if (name === undefined || (login !== undefined && user === undefined)) {
    return `a % begins two hexadecimal digits; ${expected}`
  }
  if (login?.includes(":") === true && password === undefined) return `a % begins two hexadecimal digits; ${expected}`
  return { isTls, address, user, password, vhost: name === "" ? "/" : name }
}

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
      target: "servers",
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
  password: Schema.optionalKey(secret("The user's password, if it isn't in `url`")),
  tls: Schema.optionalKey(
    Certificates.CertificatesConfig.annotate({
      description: "Certificates of one's own; a client certificate is also the login where `url` has no user",
    }),
  ),
  exchange: Schema.optionalKey(
    text("The exchange, which must be there; without it events go to the queue that `routingKey` names", {
      examples: ["events"],
      target: "place",
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
  // The lane reads both keys too. If the lane keeps the order, the sink confirms events one by one.
  order: oneOf("`key`: events of one key in the order they came; `none`: as fast as may be", ["none", "key"], "none"),
  key: MessageKeys.key,
  headers: MessageKeys.headers(),
  format: MessageKeys.format,
  body,
  sign: Schema.optionalKey(SignatureConfig),
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
    Schema.makeFilter(bodyProblem),
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
  // The schema has refused every other text, and a masked text isn't a URL.
  return typeof parsed === "string"
    ? { isTls: false, address: { host: "", port: 0 }, user: undefined, password: undefined, vhost: "/" }
    : parsed
}

// Encodes events as AMQP 0-9-1 messages.

export interface Message {
  readonly routingKey: string
  /** Messages of one key stay in order. Empty for a message without a key. */
  readonly key: string
  readonly messageId: string
  /** Empty if the event has none, or if its type is too long. */
  readonly type: string
  readonly contentType: string
  /** When the event was received, in seconds. */
  readonly timestamp: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const fits = (text: string): boolean => Buffer.byteLength(text) <= longestKey

/** The binary mode of CloudEvents' AMQP binding: RabbitMQ shows headers to readers of AMQP 1.0 as application properties. */
const cloudEvent = (entry: Entry): ReadonlyArray<CloudEvents.Header> =>
  Object.entries(CloudEvents.attributes(entry)).map(([name, value]) => [`cloudEvents:${name}`, value])

/** The idempotency key, or its hash if it is too long for a property. */
const messageIdOf = (entry: Entry): string => {
  const key = idempotencyKey(entry)
  return fits(key) ? key : `sha256-${createHash("sha256").update(key).digest("hex")}`
}

/** Returns a function that makes messages. That function throws if a template throws. `now` is as for `sentHeaders`. */
export const encoder = (config: RabbitMqConfig, now?: () => number): ((entry: Entry) => Message) => {
  const routingKey = Template.compile(config.routingKey ?? "{{type}}", "text")
  const key = Template.compile(config.key, "key")
  // The content type is a property here.
  const headers = MessageKeys.sentHeaders(config, { values: "text", raw: [], cloudEvent }, now)
  const bodyOf = MessageKeys.bodyOf(config)
  return (entry) => {
    const { event } = entry
    const body = bodyOf(entry)
    return {
      routingKey: routingKey.render(entry),
      key: key.render(entry),
      messageId: messageIdOf(entry),
      type: fits(event.type) ? event.type : "",
      contentType: config.format === "cloudevents" ? CloudEvents.contentType(event) : "application/json",
      timestamp: Math.floor(event.receivedAt / 1_000),
      headers: Object.fromEntries(headers(entry, body)),
      body,
    }
  }
}
