import { expect, test } from "bun:test"
import { makeThrottle } from "../../../src/sinks/kafka/KafkaClient.ts"

test("a throttling that no broker means, of an answer that was garbled, is waited for half a minute at most", () => {
  const throttle = makeThrottle()
  throttle.note(2 ** 31)
  expect(throttle.left()).toBeLessThanOrEqual(30_000)
})
