import { expect, test } from "bun:test"
import { below, closed, makeThrottle } from "../../../src/sinks/kafka/KafkaClient.ts"

test("a throttling that no broker means, of an answer that was garbled, is waited for half a minute at most", () => {
  const throttle = makeThrottle()
  throttle.note(2 ** 31)
  expect(throttle.left()).toBeLessThanOrEqual(30_000)
})

test("a corrupted TLS record isn't reported as an untrusted certificate", () => {
  const garbled = Object.assign(new Error("bad record mac"), { code: "ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC" })
  expect(below(garbled, garbled.code).code).not.toBe(
    below(new Error("unknown"), "UNABLE_TO_VERIFY_LEAF_SIGNATURE").code,
  )
  expect(below(new Error("write EPIPE"), "EPIPE").code).toBe(closed)
})
