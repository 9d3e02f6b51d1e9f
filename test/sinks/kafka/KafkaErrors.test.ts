import { expect, test } from "bun:test"
import { kafkaError } from "../../../src/sinks/kafka/KafkaClient.ts"
import { sinkErrorOf } from "../../../src/sinks/kafka/KafkaErrors.ts"

const place = { brokers: "b:9092", topic: "events", isTemplated: false, bytes: 0, isKeyless: false }

test("a refusal shows the words of the broker, and concerns the topic if every event gets it", () => {
  const words = "Log record is rejected by the record interceptor Validator"
  for (const [code, isKeyless, tag, says] of [
    ["INVALID_RECORD", false, "DeliveryRejected", `refused the event: INVALID_RECORD (${words})`],
    ["INVALID_RECORD", true, "DeliveryRejected", words],
    ["INVALID_TIMESTAMP", false, "SinkMisconfigured", `correct the clock`],
    ["INVALID_TIMESTAMP", false, "SinkMisconfigured", words],
    ["NOT_ENOUGH_REPLICAS", false, "SinkUnavailable", `can't take events now (NOT_ENOUGH_REPLICAS: ${words})`],
  ] as const) {
    const { reason } = sinkErrorOf(kafkaError(code, words), { ...place, isKeyless })
    expect(reason._tag).toBe(tag)
    expect(reason.message).toContain(says)
  }
})
