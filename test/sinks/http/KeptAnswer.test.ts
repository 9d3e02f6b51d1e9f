/** A failed attempt keeps the receiver's answer. */
import { describe, expect, test } from "bun:test"
import { Effect, Redacted, Schema } from "effect"
import { PagerDuty, PagerDutyConfig } from "../../../src/sinks/alerts/pagerduty/PagerDuty.ts"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { keeper, longestKept } from "../../../src/sinks/ServiceWords.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"

const canary = "canary-71c0ffee"

const kept = (config: object, text: string): string | undefined => {
  const answer = keeper(config)(text)
  return answer && Redacted.value(answer)
}

/** The reason of a failed attempt at a sink of this config, and the answer that it keeps. */
const answered = Effect.fnUntraced(function* (
  status: number,
  headers: Readonly<Record<string, string>>,
  config: Partial<typeof HttpConfig.Encoded> = {},
) {
  const { url } = yield* serve((request, response) => {
    const { authorization } = request.headers
    response.writeHead(status, headers).end(`of ${request.url} with ${authorization}: ${Buffer.from(request.body)}`)
  })
  const sink = yield* Http.open(
    Schema.decodeUnknownSync(HttpConfig)({
      url: `${url}/hooks/${canary}?key=${canary}`,
      headers: { authorization: `Bearer ${canary}` },
      ...config,
    }),
  )
  const reason = yield* reasonOf(sink.send([entry(1)]))
  return { reason, answer: reason?.answer && Redacted.value(reason.answer) }
})

describe("a failed attempt", () => {
  it.live("keeps the answer, whatever it leads to, without the sink's own secrets", function* () {
    for (const status of [400, 401, 429, 500]) {
      const { reason, answer } = yield* answered(status, {})
      expect(answer).toMatch(/^of \*\*\* with \*\*\*: {"id":"evt_1".*}$/)
      // The answer may contain the payload, so printing the failure must not show it.
      expect(`${reason?.message} ${JSON.stringify(reason)} ${Bun.inspect(reason)}`).not.toContain("evt_1")
    }
  })

  it.live("of an alert service keeps the answer too, without the key in the body", function* () {
    const { url } = yield* serve((request, response) => response.writeHead(400).end(request.body))
    const config = { routingKey: canary, url }
    const sink = yield* PagerDuty.open(Schema.decodeUnknownSync(PagerDutyConfig)(config))
    const reason = yield* reasonOf(sink.send([entry(1)]))
    expect(reason?.answer && Redacted.value(reason.answer)).toMatch(/^{"routing_key":"\*\*\*".*"evt_1"/)
    const none = yield* PagerDuty.open(Schema.decodeUnknownSync(PagerDutyConfig)({ ...config, keepAnswers: false }))
    expect((yield* reasonOf(none.send([entry(1)])))?.answer).toBeUndefined()
  })

  it.live("keeps no answer that is compressed, of a sink that keeps none, or of a successful attempt", function* () {
    expect((yield* answered(400, { "content-encoding": "x-own" })).answer).toBeUndefined()
    expect((yield* answered(400, {}, { keepAnswers: false })).answer).toBeUndefined()
    expect((yield* answered(200, {})).reason).toBeUndefined()
  })
})

describe("an answer that is kept", () => {
  test("has at most 2 KiB, cut between characters and marked", () => {
    expect(longestKept).toBe(2_048)
    expect(kept({}, "x".repeat(longestKept))).toBe("x".repeat(longestKept))
    expect(kept({}, "x".repeat(longestKept + 1))).toBe(`${"x".repeat(longestKept - 3)}…`)
    for (const pad of ["", "x", "xx", "xxx"]) {
      const text = kept({}, pad + "🙂".repeat(longestKept)) ?? ""
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(longestKept)
      expect(text).toMatch(/^x*(🙂)+…$/u)
    }
  })

  test("is absent without text, and has no NUL", () => {
    expect(kept({}, "")).toBeUndefined()
    expect(kept({}, " \r\n ")).toBeUndefined()
    expect(kept({}, "a\u0000b")).toBe("a\ufffdb")
  })

  test("contains no secret of the config, whole or in parts, from anywhere in the config", () => {
    const config = {
      url: Redacted.make(
        "https://hooks.example.com/services/T0123456789/{{account_id}}/B0123456789abc?token=0123456789abcdef",
      ),
      headers: { "x-key": Redacted.make("key-0123"), "x-who": Redacted.make("for {{id}}") },
      nested: [{ routingKey: Redacted.make("routing-0123") }],
      shown: "shown-0123456789",
    }
    const text = "T0123456789abc? B0123456789abc 0123456789abcdef key-0123 routing-0123 services for shown-0123456789"
    expect(kept(config, text)).toBe("T0123456789abc? *** *** *** *** services for shown-0123456789")
  })

  test("is cut after its secrets were removed, so that no part of one is left", () => {
    const text = `${"x".repeat(longestKept - 4)}secret-0123456789`
    expect(kept([Redacted.make("secret-0123456789")], text)).toBe(`${"x".repeat(longestKept - 4)}***`)
  })
})
