import { expect, test } from "bun:test"
import { amqpError } from "../../../src/sinks/rabbitmq/AmqpError.ts"
import { sinkErrorOf } from "../../../src/sinks/rabbitmq/RabbitMqErrors.ts"

test("a broker that could not read what reached it is away, and says so", () => {
  const place = { server: "mq:5672", isTls: false, vhost: "/", exchange: "", isTemplated: false, bytes: 0 }
  for (const code of ["501", "502", "503", "505"]) {
    expect(sinkErrorOf(amqpError(code, "FRAME_ERROR"), place).reason).toMatchObject({
      _tag: "SinkUnavailable",
      message: `rabbitmq mq:5672 ended the connection: what reached it was not the protocol that was sent (${code}); if that persists, look at what stands between`,
    })
  }
})
