import { expect, test } from "bun:test"
import { amqpError, sinkErrorOf } from "../../../src/sinks/rabbitmq/RabbitMqErrors.ts"

test("a broker that could not read the relay's bytes is unavailable, and the message says so", () => {
  const place = { server: "mq:5672", isTls: false, vhost: "/", exchange: "", isTemplated: false, bytes: 0, smaller: "" }
  for (const code of ["501", "502", "503", "505"]) {
    expect(sinkErrorOf(amqpError(code, "FRAME_ERROR"), place).reason).toMatchObject({
      _tag: "SinkUnavailable",
      message: `rabbitmq mq:5672 ended the connection: what reached it was not the protocol that was sent (FRAME_ERROR); if that persists, look at what stands between`,
    })
  }
})

test("a refusal shows the words of the broker", () => {
  const place = {
    server: "mq:5672",
    isTls: false,
    vhost: "/",
    exchange: "events",
    isTemplated: false,
    bytes: 0,
    smaller: "",
  }
  for (const [code, words] of [
    ["320", "CONNECTION_FORCED - Node was put into maintenance mode"],
    ["403", "ACCESS_REFUSED - write access to exchange 'events' in vhost '/' refused for user 'relay'"],
    ["404", "NOT_FOUND - no exchange 'events' in vhost '/'"],
    ["406", "PRECONDITION_FAILED - invalid expiration"],
  ] as const) {
    expect(sinkErrorOf(amqpError(code, words), place).reason.message).toContain(words)
  }
})
