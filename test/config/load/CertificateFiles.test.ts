/** The PEM files of a config, made by openssl. */
import { expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Result } from "effect"
import type { LaneConfig } from "../../../src/config/Config.ts"
import { load, requireCertificates, warningsOf } from "../../../src/config/load/Load.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { config, type Files, journalTypes, readFile } from "../fixture.ts"

const directory = temporaryDirectory("certificates-")

const sinkWith = (tls: object) => ({ lake: { type: "http", url: "https://lake.example", tls } })

suiteUnless(lacking, "certificates of a config", () => {
  const { ca, issue, intermediate } = makeAuthority(directory)
  const [between, another] = [intermediate("between"), intermediate("another")]
  const leaf = between.issue("leaf", "DNS:a")
  const linked = between.issue("linked", "DNS:a", 2, "authorityInfoAccess=caIssuers;URI:http://ca.example/between.crt")
  const [good, other, old] = [issue("good", "DNS:a"), issue("other", "DNS:b"), issue("old", "DNS:c", -1)]
  const openssl = (...args: ReadonlyArray<string>) => spawnSync("openssl", args).stdout
  const text = (file: string) => readFileSync(file, "utf8")
  const damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
  const files: Files = {
    "ca.pem": text(ca),
    "good.pem": `${good.pem.cert}${text(ca)}`,
    "good.key": good.pem.key,
    "other.key": other.pem.key,
    "old.pem": old.pem.cert,
    "old.key": old.pem.key,
    "chain.key": leaf.pem.key,
    "alone.pem": leaf.pem.cert,
    "alone+uri.pem": linked.pem.cert,
    "linked.key": linked.pem.key,
    "wrong.pem": `${leaf.pem.cert}${text(another.ca)}`,
    "chain.pem": `${leaf.pem.cert}${text(between.ca)}${text(ca)}`,
    "mixed.pem": `${leaf.pem.cert}${text(ca)}${text(between.ca)}`,
    "self.pem": text(ca),
    "self.key": text(join(directory, "authority.key")),
    "old+new.pem": `${old.pem.cert}${text(ca)}`,
    "der.pem": openssl("x509", "-in", good.certificate, "-outform", "der"),
    "damaged.pem": damaged,
    "damaged.key": damaged.replaceAll("CERTIFICATE", "PRIVATE KEY"),
    "joined.pem": text(ca).replaceAll("\n", " "),
    "escaped.key": good.pem.key.replaceAll("\n", "\\n"),
    "crlf.pem": `${good.pem.cert}${text(ca)}`.replaceAll("\n", "\r\n"),
    "unended.pem": `\ufeff${good.pem.cert}${text(ca)}`.trimEnd(),
    "encrypted.key": String(openssl("pkey", "-in", good.key, "-aes-128-cbc", "-passout", "pass:horse")),
    folder: "directory",
  }
  const loadWith = (parts: object, { mayLack = false, env = {} } = {}) =>
    Effect.runPromise(
      load("c.json", {
        sinkTypes,
        journalTypes,
        env,
        mayLack,
        readFile: readFile({ ...files, "c.json": config({ ...parts }) }),
      }),
    )
  /** Returns the diagnostics of `validate` for this config. */
  const told = async (parts: object): Promise<ReadonlyArray<string>> => {
    const strictly = Effect.flatMap(
      Effect.tryPromise({ try: () => loadWith(parts), catch: (error) => error as { diagnostics: [] } }),
      requireCertificates,
    )
    const result = await Effect.runPromise(Effect.result(strictly))
    if (Result.isSuccess(result)) return []
    return result.failure.diagnostics.map(({ severity, key, line, message, hint }: Record<string, unknown>) => {
      expect([severity, typeof hint, Number(line) > 1]).toEqual(["error", "string", true])
      return `${key}: ${message}`
    })
  }

  const mistakes: ReadonlyArray<readonly [name: string, tls: object, key: string, message: RegExp]> = [
    [
      "is missing",
      { certificate: "no.pem", key: "good.key" },
      "certificate",
      /the file no.pem can't be read: there is no/,
    ],
    ["is a directory", { certificate: "folder", key: "good.key" }, "certificate", /it is not a file/],
    ["is something else", { certificate: "c.json", key: "good.key" }, "certificate", /not a certificate in PEM/],
    ["is DER", { certificate: "der.pem", key: "good.key" }, "certificate", /not a certificate in PEM/],
    ["is damaged", { certificate: "damaged.pem", key: "good.key" }, "certificate", /certificate is damaged/],
    ["is the key", { certificate: "good.key", key: "good.key" }, "certificate", /a private key, not a certificate/],
    ["has expired", { certificate: "old+new.pem", key: "old.key" }, "certificate", /has expired, at 20/],
    [
      "has no key",
      { certificate: "good.pem", key: "no.key" },
      "key",
      /^the file can't be read: there is no such file$/,
    ],
    ["has the key of another", { certificate: "good.pem", key: "other.key" }, "key", /not the key of "certificate"/],
    ["stands at its key", { certificate: "good.pem", key: "ca.pem" }, "key", /not a private key in PEM/],
    ["has a damaged key", { certificate: "good.pem", key: "damaged.key" }, "key", /private key is damaged/],
    ["has lost its line breaks", { certificate: "joined.pem", key: "good.key" }, "certificate", /lost its line breaks/],
    ["has a key with escapes for line breaks", { certificate: "good.pem", key: "escaped.key" }, "key", /lost its line/],
    ["has an encrypted key", { certificate: "good.pem", key: "encrypted.key" }, "key", /encrypted/],
  ]

  test.each(mistakes.map(([name, ...rest]) => [name, rest] as const))(
    "one that %s is an error to a check, with key, line and hint, for a listener and a sink",
    async (_, [tls, key, message]) => {
      for (const [parts, path] of [
        [{ tls }, `tls.${key}`],
        [{ sinks: sinkWith(tls), routes: [{ name: "all", match: "**", to: "lake" }] }, `sinks.lake.tls.${key}`],
      ] as const) {
        const [first, ...others] = await told(parts)
        expect(first).toStartWith(`${path}: `)
        expect(first?.slice(path.length + 2)).toMatch(message)
        expect(others).toEqual([])
      }
    },
  )

  test("reads a certificate with line breaks of Windows, a byte order mark, or no line break at its end", async () => {
    for (const certificate of ["crlf.pem", "unended.pem"]) {
      expect(await told({ tls: { certificate, key: "good.key" } })).toEqual([])
    }
  })

  const incomplete: ReadonlyArray<readonly [certificate: string, key: string, sure: boolean, message: string]> = [
    [
      "alone.pem",
      "chain.key",
      false,
      "the issuer of leaf, between, is not in the file, and this machine doesn't know it",
    ],
    ["alone+uri.pem", "linked.key", true, "the issuer of linked, between, is not in the file, so senders can't verify"],
    [
      "wrong.pem",
      "chain.key",
      true,
      "the issuer of leaf is between, and the file has another instead, so senders can't",
    ],
  ]
  test.each(incomplete)("the chain of %s is reported, and the relay runs with it", async (file, key, sure, message) => {
    const parts = { tls: { certificate: file, key } }
    const loaded = await loadWith(parts)
    const [told, ...others] = warningsOf(loaded)
    expect([told?.key, told?.message, others]).toEqual(["tls.certificate", expect.stringContaining(message), []])
    expect(told?.hint).toStartWith("append the certificate of between")
    expect(loaded.certificateFaults).toHaveLength(sure ? 1 : 0)
    expect(loaded.config.certificates[0]?.chain).toMatchObject({ message: told?.message, isSure: sure })
  })

  test("a complete chain, in any order, or a self-signed certificate isn't reported, nor is a sink's chain", async () => {
    for (const [certificate, key] of [
      ["chain.pem", "chain.key"],
      ["mixed.pem", "chain.key"],
      ["self.pem", "self.key"],
    ]) {
      const loaded = await loadWith({ tls: { certificate, key } })
      expect([certificate, warningsOf(loaded), loaded.config.certificates[0]?.chain]).toEqual([
        certificate,
        [],
        undefined,
      ])
    }
    const routes = [{ name: "all", match: "**", to: "lake" }]
    const sink = sinkWith({ certificate: "alone.pem", key: "chain.key" })
    expect(warningsOf(await loadWith({ sinks: sink, routes }))).toEqual([])
  })

  test("an authority that is missing, damaged or expired is one too; of several the last to expire counts", async () => {
    const withCa = (ca: string) => told({ sinks: sinkWith({ ca }), routes: [{ name: "all", match: "**", to: "lake" }] })
    expect(await withCa("no.pem")).toEqual([expect.stringMatching("can't be read")])
    expect(await withCa("damaged.pem")).toEqual([expect.stringMatching("damaged")])
    expect(await withCa("old.pem")).toEqual([expect.stringMatching("expired")])
    expect(await withCa("old+new.pem")).toEqual([])
  })

  test("a sink's missing file stops only the sink: the config loads with a warning; for the listener it is an error", async () => {
    const routes = [{ name: "all", match: "**", to: "lake" }]
    const loaded = await loadWith({ sinks: sinkWith({ ca: "no.pem" }), routes })
    expect(warningsOf(loaded).map(({ severity, key }) => `${severity} ${key}`)).toEqual(["warning sinks.lake.tls.ca"])
    const [lake] = loaded.config.sinks as ReadonlyArray<LaneConfig & { config: { tls: unknown } }>
    expect(lake?.config.tls).toEqual({ ca: "no.pem" })
    const expired = await loadWith({ tls: { certificate: "old+new.pem", key: "old.key" } })
    expect(warningsOf(expired)).toHaveLength(1)
    expect(loadWith({ tls: { certificate: "no.pem", key: "good.key" } })).rejects.toThrow("tls.certificate")
  })

  test("a config holds the content of its files, and the facts about each certificate", async () => {
    const { config } = await loadWith(
      {
        tls: { certificate: "good.pem", key: "${KEY}" },
        sinks: sinkWith({ ca: "ca.pem" }),
        routes: [{ name: "all", match: "**", to: "lake" }],
      },
      { env: { KEY: good.pem.key } },
    )
    expect(config.tls?.certificate).toBe(String(files["good.pem"]))
    expect(config.certificates.map(({ key, subject }) => `${key}: ${subject}`)).toEqual([
      "tls.certificate: good",
      "sinks.lake.tls.ca: authority",
    ])
    for (const { notBefore, notAfter } of config.certificates) expect(notAfter - notBefore).toBe(2 * 86_400_000)
  })

  test("if a check continues without missing values, a missing file is not an error", async () => {
    const tls = { certificate: "no.pem", key: "no.key" }
    const { absent, certificateFaults } = await loadWith({ tls }, { mayLack: true })
    expect(absent.map(({ key }) => key)).toEqual(["tls.certificate", "tls.key"])
    expect(certificateFaults).toEqual([])
  })
})
