import { describe, expect } from "bun:test"
import { inspect } from "node:util"
import { Effect, Redacted, Result } from "effect"
import { render, toJson } from "../../src/config/diagnostics/Diagnostic.ts"
import { parse } from "../../src/config/diagnostics/Source.ts"
import type { Path } from "../../src/config/Fields.ts"
import { load } from "../../src/config/load/Load.ts"
import { mayBeShown } from "../../src/config/schema/ConfiguredTypes.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { it } from "../lib/effect.ts"
import { config, loadText, options, sinkTypes } from "./fixture.ts"

const canary = "CANARY-7f3a"

/** Returns all printed forms of a value. */
const printed = (value: unknown): string =>
  [String(value), JSON.stringify(value), inspect(value, { depth: 20 }), Bun.inspect(value, { depth: 20 })].join("\n")

const webhooks = (secret: unknown) => ({ w: { path: "/", secrets: [secret] } })
const http = (rest: object) => ({ audit: { type: "http", url: `https://example.com/${canary}`, ...rest } })

/** Configs with the canary in every place of a secret, right and wrong. */
const holding: ReadonlyArray<readonly [where: string, text: string]> = [
  ["a secret", config({ webhooks: webhooks({ name: "a", value: canary }) })],
  ["a secret from a variable", config({ webhooks: webhooks({ name: "a", value: "${SECRET}" }) })],
  ["a secret from a file", config({ webhooks: webhooks({ name: "a", value: "file:secret" }) })],
  [
    "a secret from a file that is part of a wrong text",
    config({
      sinks: { audit: { type: "Bearer ${file:secret}" } },
      listen: "${file:secret} x",
      journal: { maxSize: "${file:secret}B" },
    }),
  ],
  ["the admin token", config({ admin: { token: canary } })],
  ["a sink's own keys", config({ sinks: http({ headers: { authorization: canary } }) })],
  ["a secret beside an unknown key", config({ webhooks: webhooks({ name: "a", value: canary, expirs: "x" }) })],
  ["a secret under a key that is misspelled", config({ webhooks: webhooks({ name: "a", valu: canary }) })],
  ["a token under a key that is misspelled", config({ admin: { tokn: canary } })],
  ["a secret with a bad time", config({ webhooks: webhooks({ name: "a", value: canary, expires: canary }) })],
  ["a secret that stands where none belongs", config({ listen: "${SECRET}", journal: { maxSize: "${SECRET}" } })],
  ["a secret instead of a choice", config({ journal: { type: "${SECRET}" }, admin: { listen: "${SECRET}" } })],
  ["a secret as a sink's type", config({ sinks: { audit: { type: "${SECRET}" } } })],
  ["a secret as a whole sink", config({ sinks: { audit: "${SECRET}" } })],
  ["a secret in a sink that is wrong", config({ sinks: http({ method: canary, url: canary }) })],
  ["a secret in a sink with an unknown key", config({ sinks: http({ pasword: canary }) })],
  ["a default of a variable", config({ webhooks: webhooks({ name: "a", value: `\${A b:-${canary}}` }) })],
  ["a default that is a file", config({ webhooks: webhooks({ name: "a", value: `\${A:-file:/${canary}}` }) })],
  ["a secret of a test or a route", config({ routes: [{ name: "${SECRET}", match: "${SECRET}", to: "${SECRET}" }] })],
  ["one line of everything", JSON.stringify(JSON.parse(config({ admin: { token: canary }, lisen: canary })))],
  ["a text that is not closed", `{ "admin": { "token": "${canary} } }`],
  ["a text that is not opened", `{ "admin": { "token": ${canary}" } }`],
  ["a value without quotes", `{ "admin": { "token": ${canary} } }`],
  ["a text in single quotes", `{ 'admin': { 'token': 'Bearer ${canary}: x, ${canary}: y' } }`],
  ["a text in backticks", `{ "admin": { "token": \`Bearer ${canary}: x\` } }`],
  ["a text in typographic quotes", `{ “admin”: { “token”: “Bearer ${canary}: x” } }`],
  ["a text over two lines", `{ "admin": { "token": "one\n${canary}: two" } }`],
  ["a text over two lines in single quotes", `{ "admin": { "token": 'one\n  ${canary}: x' } }`],
  ["a text in single quotes with a quote", `{ "admin": { "token": '"${canary}": x' } }`],
  ...["admin", "clients", "sinks", "webhooks", "journal", "routes", "telemetry"].map(
    (key) => [`a secret in place of ${key}`, config({ [key]: canary })] as const,
  ),
  ["a secret in place of a sink", config({ sinks: { audit: canary } })],
  ["a secret in place of a webhook", config({ webhooks: { w: canary } })],
  ["a secret in place of a list of secrets", config({ webhooks: { w: { path: "/", secrets: canary } } })],
  ["a secret in place of an object of secrets", config({ webhooks: webhooks(canary) })],
  ["a secret in place of headers", config({ sinks: http({ headers: canary }) })],
  ["a secret in place of certificates", config({ sinks: http({ tls: canary }) })],
  ["a missing comma", `{ "admin": { "token": "${canary}" "listen": "x" } }`],
  ["a missing colon", `{ "admin": { "token" "${canary}" } }`],
  ["a value that looks like a key", `{ "admin": { "token": "${canary}": 1 } }`],
  ["a comment", `{ "lisen": 1, // it was ${canary}\n "admn": 1 /* or ${canary} */ }`],
  ["a comment over lines", `{ /* ${canary}\n ${canary} */ "lisen": 1 }`],
]

describe("a secret", () => {
  for (const [where, text] of holding) {
    it.effect(`is never shown by anything made from a config with ${where}`, function* () {
      const result = yield* Effect.result(loadText(text, { SECRET: canary }, { secret: canary }))
      if (Result.isFailure(result)) {
        const { diagnostics, message } = result.failure
        expect(message + printed(result.failure) + render(diagnostics) + printed(toJson(diagnostics))).not.toContain(
          canary,
        )
      } else {
        // A URL may be plain in the type's own config, because the type decides which keys are `Redacted`.
        expect(printed(result.success)).not.toContain(canary)
      }
    })
  }

  it.effect("isn't shown either if it is a number", function* () {
    for (const text of [
      `{ "admin": { "token": 8675309 } }`,
      `{ "lisen": 1, "admin": { "token": 8675309 } }`,
      `{ "admin": { "token": 8675309 "listen": 1 } }`,
      `{ "admin": { "token": 8675309abc } }`,
    ]) {
      expect((yield* Effect.flip(loadText(text))).message).not.toContain("8675309")
    }
  })

  it.effect("is revealed only on request", function* () {
    const { config: loaded } = yield* loadText(config({ webhooks: webhooks({ name: "a", value: canary }) }))
    const value = loaded.webhooks[0]?.secrets[0]?.value
    expect(value === undefined ? "" : Redacted.value(value)).toBe(canary)
  })

  it.effect("is masked in the excerpt of every place of a config", () =>
    Effect.sync(() => {
      const text = config({
        admin: { token: canary },
        webhooks: webhooks({ name: "a", value: canary }),
        sinks: http({ headers: { authorization: canary } }),
      }).replaceAll("\n", " ")
      const { locate, value } = parse("x", text, mayBeShown({ sinkTypes, journalTypes }))
      const paths = (node: unknown, path: Path): ReadonlyArray<Path> =>
        typeof node === "object" && node !== null
          ? [
              path,
              ...Object.entries(node).flatMap(([key, item]) =>
                paths(item, [...path, Array.isArray(node) ? Number(key) : key]),
              ),
            ]
          : [path]
      for (const path of paths(value, [])) {
        for (const at of ["key", "value"] as const) {
          expect(JSON.stringify(locate({ severity: "error", path, at, message: "" }))).not.toContain(canary)
        }
      }
    }),
  )
})

describe("the development secret", () => {
  const development = webhooks({ name: "a", value: "relay-development-secret" })

  it.effect("is accepted on every loopback address and refused on any other, wherever it is set", function* () {
    for (const host of ["127.0.0.1", "127.8.8.8", "[::1]", "localhost"]) {
      yield* loadText(config({ listen: `${host}:80`, webhooks: development }))
    }
    for (const host of ["0.0.0.0", "[::]", "192.168.1.4", "relay.example.com", "127.0.0.1.example.com"]) {
      const { diagnostics } = yield* Effect.flip(loadText(config({ listen: `${host}:80`, webhooks: development })))
      expect(diagnostics.map(({ key }) => key)).toContain("webhooks.w.secrets[0].value")
    }
    const hidden = config({ listen: "0.0.0.0:80", webhooks: webhooks({ name: "a", value: "file:s" }) })
    const files = { "relay.config.json": hidden, s: "relay-development-secret\n" }
    const refused = yield* Effect.flip(load("relay.config.json", { ...options(files), sinkTypes }))
    expect(refused.diagnostics.map(({ key }) => key)).toContain("webhooks.w.secrets[0].value")
  })
})
