/** Texts that can't be the secret that was meant, and secrets that look odd. */
import { expect, test } from "bun:test"
import { mistakeOf, mistakeOfKey } from "../../src/config/rules/SecretText.ts"

/** Secrets as services make them, and as people choose them. */
const good = [
  "a5f3c0ffee00a5f3c0ffee00",
  "dGhpcyBpcyBhIHNlY3JldCB0ZXh0==",
  "ABCDEFGH234567======",
  "ABCDEF+/12=",
  "whsec_dGhpcyBpcyBhIHNlY3JldCB0ZXh0",
  "secret-abcdef-123",
  "correct horse battery staple",
  "pässword with ümläuts",
  "{not json",
  "aB3=xyz+9",
]

for (const text of good) {
  test(`a text that may be a secret is accepted: ${text}`, () => {
    expect([mistakeOf(text), mistakeOfKey(text)]).toEqual([undefined, undefined])
  })
}

const [letters, digits] = ["canaryletters", "0123456789"]
const bad: ReadonlyArray<readonly [text: string, what: string]> = [
  [`${letters}\u200b${digits}`, "a character that can't be seen (U+200B)"],
  [`\ufeff${letters}`, "a character that can't be seen (U+FEFF)"],
  [`${letters}\u00a0${digits}`, "a character that can't be seen (U+00A0)"],
  [`${letters}\u00ad`, "a character that can't be seen (U+00AD)"],
  [`${letters}\u0000${digits}`, "a character that can't be seen (U+0000)"],
  [`HMAC_SECRET=${letters}`, "KEY=value"],
  [`HMAC_SECRET: ${letters}`, "KEY=value"],
  [`export HMAC_SECRET="${letters}"`, "KEY=value"],
  [`signing-secret = ${letters}`, "KEY=value"],
  [`$env:HMAC = "${letters}"`, "KEY=value"],
  [`{"secret":"${letters}"}`, "JSON"],
  [`["${letters}"]`, "JSON"],
  [`arn:aws:secretsmanager:eu-west-1:1:secret:${letters}`, "a secret store"],
  [`vault:secret/data/${letters}#hmac`, "a secret store"],
  [`secret/data/${letters}#hmac`, "a secret store"],
  [`op://prod/${letters}/hmac`, "a secret store"],
  [`projects/p/secrets/${letters}/versions/latest`, "a secret store"],
  [`https://kv.vault.azure.net/secrets/${letters}`, "a secret store"],
  [`@Microsoft.KeyVault(SecretUri=${letters})`, "a secret store"],
  [`ENC[AES256_GCM,data:${letters}]`, "a secret store"],
  [`sha256=${letters}`, "a signature"],
  [`Bearer ${letters}`, "a scheme"],
  [`-----BEGIN PRIVATE KEY-----\n${letters}\n-----END PRIVATE KEY-----`, "a PEM file"],
  [`https://example.com/${letters}`, "a URL"],
  [`${letters}\n${digits}`, "several lines"],
  [` ${letters}`, "begins with a blank"],
  [`"${letters}"`, "in quotes"],
]

for (const [text, what] of bad) {
  test(`a text that can't be a secret is refused: ${JSON.stringify(text)}`, () => {
    const found = mistakeOfKey(text)
    expect(found?.message).toContain(what)
    expect(`${found?.message} ${found?.hint}`).not.toMatch(/canary|0123/)
  })
}

test("a password of another service may be JSON, a PEM file, or have several lines", () => {
  for (const text of [`{"a":1}`, "-----BEGIN X-----\nabc\n-----END X-----", "HOST=a", "https://example.com/"]) {
    expect(mistakeOf(text)).toBeUndefined()
  }
})
