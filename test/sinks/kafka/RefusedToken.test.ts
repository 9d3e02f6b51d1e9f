/** Advice about a token that a broker refused. The broker gives no cause. */
import { describe, expect, test } from "bun:test"
import { whyRefused } from "../../../src/sinks/kafka/KafkaLogin.ts"

const now = Date.parse("2026-11-29T12:00:00Z")
const second = 1_000

const jwt = (claims: object): string => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`

const claims = {
  iss: "https://idp.example.com",
  aud: ["kafka", "other"],
  scope: "events:write",
  iat: now / second - 10,
  exp: now / second + 290,
}

describe("a refused token", () => {
  for (const [cause, token, asked, says] of [
    ["is not a JWT", "opaque", {}, /which is not a JWT/],
    [
      "is not valid yet by this machine's clock",
      jwt({ ...claims, iat: now / second + 60 }),
      {},
      /valid from 2026-11-29T12:01:00.000Z .*this machine's clock says 2026-11-29T12:00:00.000Z: correct the clock/,
    ],
    ["is never valid", jwt({ ...claims, iat: 1e20 }), {}, /correct the clock/],
    ["is no longer valid by this machine's clock", jwt({ ...claims, exp: now / second - 60 }), {}, /correct the clock/],
    [
      "has another audience than the config's",
      jwt(claims),
      { audience: "lake" },
      /its audience is kafka, other, .*lake/,
    ],
    ["lacks a scope", jwt(claims), { scope: "events:write topics:write" }, /left out the scope topics:write:/],
    [
      "has nothing wrong that the relay knows of",
      jwt(claims),
      { audience: "kafka", scope: "events:write" },
      /audience \(kafka, other\), issuer \(https:\/\/idp.example.com\) and scope \(events:write\)/,
    ],
    ["has no claims", jwt({}), {}, /audience \(none\), issuer \(none\) and scope \(none\)/],
  ] as const) {
    test(`that ${cause} is reported with that cause`, () => {
      const message = whyRefused(token, asked, now)
      expect(message).toStartWith("the broker refused the token")
      expect(message).toMatch(says)
    })
  }
})
