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
    ["THROTTLING_QUOTA_EXCEEDED", false, "SinkThrottled", words],
  ] as const) {
    const { reason } = sinkErrorOf(kafkaError(code, words), { ...place, isKeyless })
    expect(reason._tag).toBe(tag)
    expect(reason.message).toContain(says)
  }
})

test("an error about too few replicas in sync gives advice if the broker doesn't", () => {
  for (const code of ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"]) {
    const { reason } = sinkErrorOf(kafkaError(code), place)
    expect(reason).toMatchObject({ _tag: "SinkUnavailable", message: expect.stringContaining("min.insync.replicas") })
  }
})

test("a record that a broker calls corrupt waits for a key if it has none, and is sent again otherwise", () => {
  const corrupt = kafkaError("CORRUPT_MESSAGE")
  const { reason } = sinkErrorOf(corrupt, { ...place, isKeyless: true })
  expect(reason._tag).toBe("SinkMisconfigured")
  expect(reason.message).toMatch(/probably compacted .*set "key" .*\(CORRUPT_MESSAGE\)$/)
  expect(sinkErrorOf(corrupt, place).reason._tag).toBe("SinkUnavailable")
})
