import { describe, expect, test } from "bun:test"
import { parse } from "../../../src/sinks/rabbitmq/RabbitMqConfig.ts"

describe("the url of a broker", () => {
  const place = (isTls: boolean, host: string, port: number, vhost = "/", user?: string, password?: string) => ({
    isTls,
    address: { host, port },
    user,
    password,
    vhost,
  })

  test("is read as RabbitMQ's own clients read it", () => {
    expect(parse("amqp://rabbit.example.com")).toEqual(place(false, "rabbit.example.com", 5672))
    expect(parse("amqps://rabbit.example.com/")).toEqual(place(true, "rabbit.example.com", 5671))
    expect(parse("AMQP://[::1]:1234/%2f")).toEqual(place(false, "::1", 1234))
    expect(parse("amqps://re%40lay:p%3Aa:b%2F@host:5671/a%2Fb")).toEqual(
      place(true, "host", 5671, "a/b", "re@lay", "p:a:b/"),
    )
    expect(parse("amqp://relay@host")).toEqual(place(false, "host", 5672, "/", "relay"))
  })

  test("is refused with its problem, and without its text", () => {
    for (const [text, says] of [
      ["http://canary@host", /a url is/],
      ["canary", /a url is/],
      ["amqp://relay:canary@one,two", /names one host/],
      ["amqp://relay:canary@host/a/b", /%2F/],
      ["amqp://relay:canary@host/?heartbeat=5", /no parameters/],
      ["amqp://relay:canary%@host", /two hexadecimal digits/],
      ["amqp://relay:canary@host:70000", /a url is/],
      ["amqp://relay:canary@", /a url is/],
    ] as const) {
      const said = parse(text)
      expect(said).toMatch(says)
      expect(said).not.toContain("canary")
    }
  })
})
