/**
 * The broker's address, as RabbitMQ's own clients write it:
 * `amqps://user@rabbit.example.com:5671/vhost` (RabbitMQ URI specification).
 */
import * as Address from "../../config/Address.ts"

export interface AmqpUrl {
  readonly isTls: boolean
  readonly address: Address.Address
  readonly user: string | undefined
  readonly password: string | undefined
  /** The virtual host; `/` where the URL names none. */
  readonly vhost: string
}

const form =
  /^(?<scheme>amqps?):\/\/(?:(?<login>[^/?#]*)@)?(?<host>[^/?#@]+)(?:\/(?<vhost>[^/?#]*))?(?<rest>(?:[/?#].*)?)$/isu

/** The message about a text that is no URL; it never holds the text. */
export const expected = 'a url is "amqps://user@rabbit.example.com:5671/vhost", and "amqp://" without TLS'

const decode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** The URL, or what is wrong with it. */
export const parse = (text: string): AmqpUrl | string => {
  const { scheme = "", login, host = "", vhost = "", rest = "" } = form.exec(text)?.groups ?? {}
  if (scheme === "") return expected
  if (host.includes(",")) return "the url names one host: several brokers share a name, or stand behind a load balancer"
  if (rest.startsWith("/")) return `a "/" in a virtual host's name is written %2F; ${expected}`
  if (rest !== "") return 'the relay knows no parameters here: certificates have the key "tls"'
  const isTls = scheme.toLowerCase() === "amqps"
  const address = Address.parse(/:\d+$/u.test(host) ? host : `${host}:${isTls ? 5671 : 5672}`)
  if (address === undefined || address.port < 1 || address.port > 65_535) return expected
  const name = decode(vhost)
  const [user, password] = login?.split(/:(.*)/su).map(decode) ?? []
  if (name === undefined || (login !== undefined && user === undefined)) {
    return `a % begins two hexadecimal digits; ${expected}`
  }
  if (login?.includes(":") === true && password === undefined) return `a % begins two hexadecimal digits; ${expected}`
  return { isTls, address, user, password, vhost: name === "" ? "/" : name }
}
