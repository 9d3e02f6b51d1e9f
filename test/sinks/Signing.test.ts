/** The relay's own signatures, verified by each scheme's libraries and published examples. */
import { describe, expect, test } from "bun:test"
import { createHmac } from "node:crypto"
import { Result, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { hmacSha256, verify } from "../../src/event/Signature.ts"
import { Http } from "../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../src/sinks/http/HttpConfig.ts"
import { SignatureConfig, signer } from "../../src/sinks/Signing.ts"
import { it } from "../lib/effect.ts"
import { preview } from "./preview.ts"
import { type Received, serve } from "./receiver.ts"
import { bytes, entry, envelope } from "./samples.ts"

const signed = (config: typeof SignatureConfig.Encoded, body: string, id = "evt_1", at = Date.now()) =>
  signer(Schema.decodeUnknownSync(SignatureConfig)(config))(bytes(body), { id, at })

const hmac = (key: string, text: string) => createHmac("sha256", key).update(text).digest("hex")
const standard = (fill: number, length = 24) => `whsec_${Buffer.alloc(length, fill).toString("base64")}`

describe("a signature of the relay's own", () => {
  test("uses the sender's scheme by default", () => {
    const headers = signed({ secret: "one" }, "{}")
    expect(Object.keys(headers)).toEqual(["x-relay-signature"])
    const secrets = [{ name: "ours", hmac: hmacSha256("one") }]
    expect(verify(secrets, headers["x-relay-signature"] ?? "", bytes("{}"), 0)).toEqual({ ok: true, secret: "ours" })
  })

  test("by GitHub's scheme matches the example in its documentation", () => {
    // "Validating webhook deliveries", "Testing the webhook payload validation".
    expect(signed({ scheme: "github", secret: "It's a Secret to Everybody" }, "Hello, World!")).toEqual({
      "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    })
  })

  test("by Stripe's scheme has the time of the attempt, and a signature of both by each secret", () => {
    const config = { scheme: "stripe", secret: ["one", "two"], header: "X-Signature" } as const
    const { "x-signature": header = "" } = signed(config, "{}", "evt_1", 1_614_265_330_999)
    expect(header).toBe(`t=1614265330,v1=${hmac("one", "1614265330.{}")},v1=${hmac("two", "1614265330.{}")}`)
    expect(Object.keys(signed({ scheme: "stripe", secret: "one" }, "{}"))).toEqual(["stripe-signature"])
  })

  test("by Standard Webhooks is verified by its library, with each of the secrets and no other", () => {
    const headers = { ...signed({ scheme: "standardWebhooks", secret: [standard(1), standard(2)] }, '{"a":1}') }
    for (const secret of [standard(1), standard(2)]) {
      expect(new Webhook(secret).verify('{"a":1}', headers)).toEqual({ a: 1 })
      expect(() => new Webhook(secret).verify('{"a":2}', headers)).toThrow("No matching signature")
    }
    expect(() => new Webhook(standard(3)).verify('{"a":1}', headers)).toThrow("No matching signature")
  })

  test("by Standard Webhooks has an id without a full stop, which could be mistaken for the separator", () => {
    const headers = { ...signed({ scheme: "standardWebhooks", secret: standard(1) }, "{}", "a.1.b") }
    expect(headers["webhook-id"]).toBe("a%2E1%2Eb")
    expect(new Webhook(standard(1)).verify("{}", headers)).toEqual({})
  })

  it.effect("is over the body that is sent; of another attempt, the id is the same and the time its own", function* () {
    const requests: Array<Received> = []
    const { url } = yield* serve((request, response) => {
      requests.push(request)
      response.end()
    })
    const config = {
      format: "template",
      body: { id: "{{id}}" },
      sign: { scheme: "standardWebhooks", secret: standard(1) },
    }
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url, ...config }))
    yield* TestClock.adjust("90 seconds")
    yield* sink.send([entry(1)])
    yield* TestClock.adjust("1 minute")
    yield* sink.send([entry(1)])
    const seen = requests.map(({ headers }) => [headers["webhook-id"], headers["webhook-timestamp"]])
    expect(seen).toEqual([
      ["evt_1", "90"],
      ["evt_1", "150"],
    ])
    const [first] = requests
    const text = `evt_1.90.${Buffer.from(first?.body ?? [])}`
    const digest = createHmac("sha256", Buffer.alloc(24, 1)).update(text).digest("base64")
    expect(text).toEndWith('.{"id":"evt_1"}')
    expect(first?.headers["webhook-signature"]).toBe(`v1,${digest}`)
  })

  test("is masked in a preview, the time too, and the id is shown", () => {
    const http = { url: "https://example.com", body: envelope(1), format: "template" }
    const shown = (sign: object) => preview("http", { ...http, sign }).headers
    expect(shown({ scheme: "standardWebhooks", secret: standard(1) })).toMatchObject({
      "webhook-id": "evt_1",
      "webhook-timestamp": "***",
      "webhook-signature": "***",
    })
    expect(shown({ scheme: "stripe", secret: ["a", "b"] })).toMatchObject({ "stripe-signature": "***" })
    expect(shown({ scheme: "github", secret: "a" })).toMatchObject({ "x-hub-signature-256": "***" })
  })
})

describe("a config of signatures", () => {
  const wrong: ReadonlyArray<readonly [config: object, says: string]> = [
    [{ secret: [] }, "one secret at least"],
    [{ secret: ["canary", "canary"] }, '"scheme": "sender" has room for one signature'],
    [{ scheme: "github", secret: ["canary", "canary"] }, '"stripe" and "standardWebhooks" take several'],
    [{ scheme: "standardWebhooks", secret: "canary" }, "base64 of 24 to 64 bytes"],
    [{ scheme: "standardWebhooks", secret: standard(1, 23) }, "base64 of 24 to 64 bytes"],
    [{ scheme: "standardWebhooks", secret: [standard(1), standard(1, 65)] }, "base64 of 24 to 64 bytes"],
    [{ scheme: "standardWebhooks", secret: `${standard(1)}!` }, "base64 of 24 to 64 bytes"],
    [{ scheme: "standardWebhooks", secret: standard(1), header: "x-own" }, "header names of its own"],
    [{ scheme: "stripe", secret: [""] }, "can't be empty"],
    [{ scheme: "none", secret: "canary" }, "standardWebhooks"],
  ]
  test("that signs nothing, or uses a form that no receiver accepts, is refused without showing a secret", () => {
    for (const [config, says] of wrong) {
      const decoded = Schema.decodeUnknownResult(SignatureConfig)(config)
      const message = Result.isFailure(decoded) ? String(decoded.failure) : "it was accepted"
      expect(message).toContain(says)
      expect(message).not.toContain("canary")
    }
    for (const fill of [24, 64]) {
      const config = { scheme: "standardWebhooks", secret: standard(1, fill).replace("whsec_", "") }
      expect(Result.isSuccess(Schema.decodeUnknownResult(SignatureConfig)(config))).toBe(true)
    }
  })
})
