/** `relay trigger` to a listener that uses TLS, and the requests that it can't send. */
import { describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import type { Tls } from "../../../src/config/Config.ts"
import * as Runtime from "../../../src/runtime/Runtime.ts"
import { type Certificate, lacking, makeAuthority } from "../../lib/authority.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()

suiteUnless(lacking, "trigger over TLS", () => {
  const { ca, issue } = makeAuthority(directory)
  const own = issue("localhost", "IP:127.0.0.1")
  const chain = join(directory, "chain.pem")
  writeFileSync(chain, own.pem.cert + readFileSync(ca, "utf8"))
  const config = join(directory, "config.json")
  writeFileSync(
    config,
    JSON.stringify({
      tls: { certificate: chain, key: own.key },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
      sinks: { audit: { type: "console" } },
      routes: [{ name: "everything", match: "**", to: "audit" }],
    }),
  )
  const listening = (tls?: Certificate) => {
    const pem: { readonly tls?: Tls } =
      tls === undefined ? {} : { tls: { certificate: tls.pem.cert, key: Redacted.make(tls.pem.key) } }
    const handler = () => new Response(null, { status: 202 })
    return Effect.map(
      Runtime.serve({ address: { host: "127.0.0.1", port: 0 }, handler, ...pem }),
      ({ address }) => `https://127.0.0.1:${address.port}/hooks`,
    )
  }
  const trigger = (...args: ReadonlyArray<string>) =>
    Effect.promise(() => cli(["trigger", "client.created", "-c", config, ...args]))

  it.live("trusts a given authority, and otherwise says that none is trusted, and what to do", function* () {
    const url = yield* listening(own)
    expect(yield* trigger("--url", url, "--ca", ca)).toMatchObject({ code: 0, stderr: "" })
    const { code, stderr } = yield* trigger("--url", url)
    expect(code).toBe(69)
    expect(stderr).toContain(`no authority that this machine trusts signed the certificate of ${new URL(url).origin}`)
    expect(stderr).toContain("--ca FILE trusts its authority, or the certificate itself where it is self-signed")
  })

  it.live("trusts a self-signed certificate that is named itself", function* () {
    const [certificate, key] = ["localhost.pem", "localhost.key.pem"].map((file) =>
      join(import.meta.dir, "../../e2e/http/tls", file),
    ) as [string, string]
    const pem = { cert: readFileSync(certificate, "utf8"), key: readFileSync(key, "utf8") }
    const url = yield* listening({ certificate, key, pem })
    expect(yield* trigger("--url", url, "--ca", certificate)).toMatchObject({ code: 0, stderr: "" })
  })

  it.live("reports a certificate for another host, an expired certificate, and a missing TLS", function* () {
    for (const [certificate, words] of [
      [
        issue("other", "DNS:other.example"),
        "is for another host\n  Send to the name that it is for: --url https://NAME:",
      ],
      [issue("old", "IP:127.0.0.1", -1), "has expired, or is not valid yet"],
      [undefined, "there is no TLS with"],
    ] as const) {
      const url = yield* listening(certificate)
      const { code, stderr } = yield* trigger("--url", url, "--ca", ca)
      expect([code, stderr]).toEqual([69, expect.stringContaining(words)])
    }
  })

  it.live("refuses a file without an authority", function* () {
    expect(yield* trigger("--ca", "/no/such.pem")).toMatchObject({
      code: 74,
      stderr: expect.stringContaining("/no/such.pem of --ca can't be read"),
    })
    expect(yield* trigger("--ca", config)).toMatchObject({
      code: 74,
      stderr: expect.stringContaining("not a certificate in PEM"),
    })
  })
})

describe("trigger refuses what it can't send for another sender", () => {
  const file = join(directory, "senders.json")
  const of = (value: string) => [{ name: "main", value }]
  const event = { type: "/kind", id: "/id" }
  writeFileSync(
    file,
    JSON.stringify({
      webhooks: {
        public: {
          path: "/a",
          secrets: of("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
          verify: "standard-webhooks",
        },
        none: { path: "/b", secrets: [], verify: "none", event },
        hidden: {
          path: "/c",
          secrets: of("a-secret-of-this-test"),
          verify: "github",
          event: { type: { jmespath: "a" } },
        },
      },
      sinks: { audit: { type: "console" } },
      routes: [{ name: "everything", match: "**", to: "audit" }],
    }),
  )
  const refused = async (...args: ReadonlyArray<string>) => {
    const { code, stderr } = await cli(["trigger", "made", "-c", file, "--webhook", ...args])
    return [code, stderr.split("\n").find((line) => line.startsWith("relay: "))]
  }

  test("a signature for a public key", async () => {
    const message = "relay: the webhook public has only public keys, and only its sender has the private ones"
    expect(await refused("public")).toEqual([1, message])
  })

  test("a changed body from a sender that signs nothing", async () => {
    const message = "relay: the sender of none signs nothing, so the relay can't notice a changed body"
    expect(await refused("none", "--tamper")).toEqual([64, message])
  })

  test("a type that an expression finds", async () => {
    const message = "relay: the webhook has its event type at a JMESPath, for which no sample can be made"
    expect(await refused("hidden")).toEqual([64, message])
  })
})
