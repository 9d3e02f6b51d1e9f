import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { protocolErrors } from "@platformatic/kafka"
import { kafkaError } from "../../../src/sinks/kafka/KafkaClient.ts"
import { sinkErrorOf } from "../../../src/sinks/kafka/KafkaErrors.ts"

const smaller = "lower the webhook's maxBody"
const place = { brokers: "b:9092", topic: "events", isTemplated: false, bytes: 0, smaller, isKeyless: false }

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

/** The consequence of an error in the words of the docs' table. */
const consequences = {
  SinkUnavailable: "wait",
  SinkThrottled: "wait",
  SinkMisconfigured: "wait for a person",
  DeliveryFailed: "are retried",
  DeliveryRejected: "dead letter",
}

test("the docs state the consequence of each error of Kafka's protocol", () => {
  const docs = readFileSync(join(import.meta.dir, "../../../src/sinks/kafka/kafka.md"), "utf8")
  const [, section = ""] = /### Answers of a broker\n(.*?)\n###/s.exec(docs) ?? []
  const [, ...rows] = section.split("\n").filter((line) => line.startsWith("| "))
  const cells = rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  const documented = new Map(
    cells.flatMap(([answers = "", ...effects]) =>
      [...answers.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => [code, effects]),
    ),
  )
  const others = cells.at(-1)?.slice(1) ?? []
  expect([...documented.keys()].filter((code) => !(String(code) in protocolErrors) || code === "createTopics")).toEqual(
    [],
  )
  for (const code of Object.keys(protocolErrors)) {
    const [usual = "", keyless = "", templated = ""] = documented.get(code) ?? others
    const of = (more: object) => consequences[sinkErrorOf(kafkaError(code), { ...place, ...more }).reason._tag]
    expect([code, of({}), of({ isKeyless: true }), of({ isTemplated: true })]).toEqual([
      code,
      usual,
      keyless || usual,
      templated || usual,
    ])
  }
})
