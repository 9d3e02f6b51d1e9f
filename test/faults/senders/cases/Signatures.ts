/** Near misses: signatures, and the webhook ids that select the secrets to verify them. */
import { createHash, createHmac } from "node:crypto"
import { envelope, expiredSecret, secret, signature } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const { delivery } = Case

const misses = Case.kind("signatures")
/** A body with another signature header. It may be stored only if it is answered 2xx. */
const missed = (
  name: string,
  make: (right: string, body: string) => string | undefined,
  expected: Case.Expected = 401,
) => {
  const body = envelope()
  const value = make(signature(body), body)
  return misses(name, delivery(body, { changes: { "x-service-signature": value } }), [body], expected)
}
const alongside = (name: string, lines: (right: string) => ReadonlyArray<string>, expected: Case.Expected = 401) => {
  const body = envelope()
  const request = delivery(body, { changes: { "x-service-signature": undefined }, more: lines(signature(body)) })
  return misses(name, request, [body], expected)
}
/** A body that differs from the signed body. */
const tampered = (name: string, change: (body: string) => string) => {
  const body = envelope()
  const other = change(body)
  return misses(name, delivery(other, { changes: { "x-service-signature": signature(body) } }), [], 401)
}
const by = (body: string, algorithm: string, key = secret): string =>
  createHmac(algorithm, key).update(body).digest("hex").toUpperCase()
const digestOf = (right: string): string => right.slice("sha256=".length)

const ids = Case.kind("webhook ids")
const named = (
  name: string,
  path: string,
  id: string | undefined,
  expected: Case.Expected,
  more: ReadonlyArray<string> = [],
) => {
  const body = envelope()
  const line = `POST ${path} HTTP/1.1`
  return ids(name, delivery(body, { line, changes: { "x-service-webhook-id": id }, more }), [body], expected)
}

export const cases: ReadonlyArray<Case.Case> = [
  missed("the right one", (right) => right, 202),
  missed("none", () => undefined),
  missed("an empty one", () => ""),
  missed("blanks", () => "   "),
  missed("in lowercase", (right) => `sha256=${digestOf(right).toLowerCase()}`),
  missed("with its first letter in lowercase", (right) => right.replace(/[A-F]/, (letter) => letter.toLowerCase())),
  missed("all in capitals", (right) => right.toUpperCase()),
  missed("with a capital in the prefix", (right) => right.replace("sha", "Sha")),
  missed("without the prefix", (right) => digestOf(right)),
  missed("with the prefix twice", (right) => `sha256=${right}`),
  missed("with a colon for the equals sign", (right) => right.replace("=", ":")),
  missed("with a blank behind the equals sign", (right) => right.replace("=", "= ")),
  missed("with another prefix", (right) => right.replace("sha256", "sha512")),
  missed("of version one", (right) => `v1=${digestOf(right)}`),
  missed("with a time in front", (right) => `t=1,${right}`),
  missed("in quotes", (right) => `"${right}"`),
  missed("with a parameter", (right) => `${right};q=1`),
  missed("without its last digit", (right) => right.slice(0, -1)),
  missed("without its last byte", (right) => right.slice(0, -2)),
  missed("without its first byte", (right) => `sha256=${digestOf(right).slice(2)}`),
  missed("its first half", (right) => right.slice(0, 7 + 32)),
  missed("the prefix alone", () => "sha256="),
  missed("a digit too many", (right) => `${right}0`),
  missed("a byte too many", (right) => `${right}00`),
  missed("twice without a comma", (right) => `${right}${digestOf(right)}`),
  missed("with its last digit changed", (right) => right.slice(0, -1) + (right.endsWith("0") ? "1" : "0")),
  missed("with its first digit changed", (right) => `sha256=${right[7] === "0" ? "1" : "0"}${right.slice(8)}`),
  missed("with a letter that is no digit", (right) => `${right.slice(0, -1)}G`),
  missed("with a NUL's escape at its end", (right) => `${right.slice(0, -2)}%0`),
  missed("with a comma at its end", (right) => `${right},`),
  missed("twice in one header", (right) => `${right}, ${right}`),
  missed("after a wrong one", (right) => `sha256=${"0".repeat(64)}, ${right}`),
  missed("before a wrong one", (right) => `${right}, sha256=${"0".repeat(64)}`),
  missed("in base64", (right) => `sha256=${Buffer.from(digestOf(right), "hex").toString("base64")}`),
  missed("nothing but zeros", () => `sha256=${"0".repeat(64)}`),
  missed("nothing but F", () => `sha256=${"F".repeat(64)}`),
  missed("in full width", (right) => `${right.slice(0, -1)}\xef\xbc\xa1`),
  missed("by another secret", (_, body) => signature(body, "whsec_other")),
  missed("by an empty secret", (_, body) => signature(body, "")),
  missed("by the secret with a line feed", (_, body) => signature(body, `${secret}\n`)),
  missed("by the secret with a blank", (_, body) => signature(body, ` ${secret}`)),
  missed("by the secret in capitals", (_, body) => signature(body, secret.toUpperCase())),
  missed("by the beginning of the secret", (_, body) => signature(body, secret.slice(0, -1))),
  missed("by the secret in base64", (_, body) => signature(body, Buffer.from(secret).toString("base64"))),
  missed("by the name of the secret", (_, body) => signature(body, "suite")),
  missed("by the secret of an expired rotation", (_, body) => signature(body, expiredSecret)),
  missed("by SHA-1", (_, body) => `sha256=${by(body, "sha1")}`),
  missed("by SHA-512", (_, body) => `sha256=${by(body, "sha512")}`),
  missed("by half of SHA-512", (_, body) => `sha256=${by(body, "sha512").slice(0, 64)}`),
  missed(
    "of a hash without a key",
    (_, body) => `sha256=${createHash("sha256").update(body).digest("hex").toUpperCase()}`,
  ),
  missed(
    "of the hash of secret and body",
    (_, body) =>
      `sha256=${createHash("sha256")
        .update(secret + body)
        .digest("hex")
        .toUpperCase()}`,
  ),
  missed("of nothing", () => signature("")),
  missed("of the path", () => signature("/hooks/scheduling")),
  missed("of another delivery", () => signature(envelope())),
  missed("the secret itself", () => secret),
  missed("the name of a property of all objects", () => "__proto__"),
  alongside("blanks around it are none of it", (right) => [`X-Service-Signature: \t ${right} \t`], 202),
  alongside("two headers, both right", (right) => [`X-Service-Signature: ${right}`, `X-Service-Signature: ${right}`]),
  alongside("two headers, the first wrong", (right) => ["X-Service-Signature: a", `X-Service-Signature: ${right}`]),
  alongside("two headers, the second wrong", (right) => [`X-Service-Signature: ${right}`, "X-Service-Signature: a"]),
  alongside("two headers, the second empty", (right) => [`X-Service-Signature: ${right}`, "X-Service-Signature:"]),
  alongside("two headers of other case", (right) => [`X-Service-Signature: ${right}`, `x-SERVICE-signature: ${right}`]),
  alongside("a header with an underscore", (right) => [`X_Service_Signature: ${right}`]),
  alongside("a header of another sender", (right) => [`X-Hub-Signature-256: ${right}`]),
  alongside("the header that the relay signs with", (right) => [`X-Relay-Signature: ${right}`]),
  alongside("a cookie", (right) => [`Cookie: x-service-signature=${right}`]),
  alongside("the name in capitals", (right) => [`X-SERVICE-SIGNATURE: ${right}`], 202),
  tampered("over a body with one byte more", (body) => `${body} `),
  tampered("over a body with one byte less", (body) => body.slice(0, -1)),
  tampered("over a body with a byte in front", (body) => `\n${body}`),
  tampered("over a body with one letter changed", (body) => body.replace("apt_1", "apt_2")),
  tampered("over a body of the same JSON", (body) => JSON.stringify(JSON.parse(body), null, 1)),
  tampered("over a body with its keys in another order", (body) => {
    const { data, ...rest } = JSON.parse(body)
    return JSON.stringify({ data, ...rest })
  }),
  tampered("over a body with an escape for a letter", (body) => body.replace("acct_1", "\\u0061cct_1")),
  tampered("over a body behind a byte order mark", (body) => `\ufeff${body}`),
  tampered("over a body twice", (body) => body + body),
  tampered("over an empty body", () => ""),
  misses(
    "in the query",
    delivery(envelope(), {
      line: `POST /hooks/scheduling?x-service-signature=${signature("")} HTTP/1.1`,
      changes: { "x-service-signature": undefined },
    }),
    [],
    401,
  ),

  named("none, where any will do", "/hooks/scheduling", undefined, 202),
  named("another one, where any will do", "/hooks/scheduling", "wh_other", 202),
  named("the right one, where it must be", "/hooks/strict", "wh_known", 202),
  named("none, where it must be", "/hooks/strict", undefined, 404),
  named("an empty one", "/hooks/strict", "", 404),
  named("another one", "/hooks/strict", "wh_other", 404),
  named("its beginning", "/hooks/strict", "wh_know", 404),
  named("one that goes on", "/hooks/strict", "wh_known1", 404),
  named("in capitals", "/hooks/strict", "WH_KNOWN", 404),
  named("in quotes", "/hooks/strict", '"wh_known"', 404),
  named("twice in one header", "/hooks/strict", "wh_known, wh_known", 404),
  named("twice", "/hooks/strict", "wh_known", 404, ["X-Service-Webhook-Id: wh_known"]),
  named("with another before it", "/hooks/strict", "wh_other", 404, ["X-Service-Webhook-Id: wh_known"]),
  named("blanks around it are none of it", "/hooks/strict", "\t wh_known \t", 202),
  named("the name of a property of all objects", "/hooks/strict", "__proto__", 404),
  named("a name of the prototype", "/hooks/strict", "constructor", 404),
  named("four kilobytes", "/hooks/strict", "a".repeat(4096), 404),
  named("bytes above ASCII", "/hooks/scheduling", "wh_\xe4\xff", 202),
]
