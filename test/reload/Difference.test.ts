import { describe, expect } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Equal, FileSystem } from "effect"
import type { RelayConfig } from "../../src/config/Config.ts"
import { load } from "../../src/config/load/Load.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import * as Difference from "../../src/reload/Difference.ts"
import { services } from "../../src/runtime/Process.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { exampleConfigs } from "../lib/docs.ts"
import { it } from "../lib/effect.ts"
import { root } from "../lib/programs.ts"

const base = {
  webhooks: {
    scheduling: {
      path: "/hooks",
      secrets: [
        { name: "old", value: "the-old-secret" },
        { name: "main", value: "the-main-signing-secret" },
      ],
    },
  },
  sinks: {
    lake: { type: "http", url: "https://lake.example/the-key", headers: { authorization: "the-token" } },
    audit: { type: "file", path: "audit.ndjson" },
  },
  routes: [
    { name: "everything", match: "**", to: ["lake", "audit"] },
    { name: "failures", match: "**.*_failed", to: "lake" },
  ],
}

const pem = (file: string) => readFileSync(new URL(`../e2e/http/tls/${file}`, import.meta.url), "utf8")

const written = (config: object): Effect.Effect<RelayConfig> =>
  Effect.map(
    load("relay.config.json", {
      env: {},
      readFile: () => Effect.succeed(new TextEncoder().encode(JSON.stringify(config))),
      sinkTypes,
      journalTypes,
    }),
    ({ config }) => config,
  ).pipe(Effect.orDie)

const between = Effect.fnUntraced(function* (before: object, after: object) {
  return Difference.between(yield* written(before), yield* written(after)).map(Difference.show)
})

describe("the difference between two configs", () => {
  it.effect("is empty between a file and itself, whatever it contains", () =>
    Effect.gen(function* () {
      const { readFile } = yield* FileSystem.FileSystem
      const variables = new Proxy<Record<string, string>>(
        {},
        { get: (_, name) => `https://example.com/${String(name)}` },
      )
      const anything = () => Effect.succeed(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))
      let compared = 0
      for (const file of exampleConfigs) {
        const path = join(root, file)
        const options = {
          env: variables,
          readFile: (name: string) => (name === path ? readFile(name) : anything()),
          sinkTypes,
          journalTypes,
        }
        const [one, two] = [yield* Effect.result(load(path, options)), yield* Effect.result(load(path, options))]
        if (one._tag === "Failure" || two._tag === "Failure") continue
        expect([file, Difference.between(one.success.config, two.success.config)]).toEqual([file, []])
        expect([file, Difference.needingRestart(one.success.config, two.success.config)]).toEqual([file, []])
        expect(Equal.equals(one.success.config.sinks, two.success.config.sinks)).toBe(true)
        compared += 1
      }
      expect(compared).toBeGreaterThan(3)
    }).pipe(Effect.provide(services)),
  )

  it.effect("names added, removed and changed parts, and their keys, and never a value", function* () {
    const after = {
      webhooks: {
        scheduling: {
          path: "/other",
          secrets: [
            { name: "main", value: "the-changed-secret" },
            { name: "new", value: "the-new-secret" },
          ],
        },
        billing: { path: "/billing", secrets: [{ name: "first", value: "the-first-secret" }] },
      },
      sinks: {
        lake: { type: "http", url: "https://lake.example/the-new-key", delivery: { timeout: "3 seconds" } },
        chat: { type: "file", path: "chat.ndjson" },
      },
      routes: [
        { name: "everything", match: "**", to: ["lake"] },
        { name: "chat", match: "client.*", to: "chat" },
      ],
    }
    const lines = yield* between(base, after)
    expect(lines).toEqual([
      "~ webhook scheduling: path",
      "+ webhook billing",
      "~ secret scheduling/main: value",
      "+ secret scheduling/new",
      "- secret scheduling/old",
      "~ sink lake: delivery.timeout, url, headers.authorization",
      "+ sink chat",
      "- sink audit",
      "~ route everything: to",
      "+ route chat",
      "- route failures",
    ])
    expect(lines.join()).not.toMatch(/the-/)
  })

  it.effect("recognizes a renamed sink, and its other changes", function* () {
    const { audit, lake } = base.sinks
    const routes = [{ name: "everything", match: "**", to: ["lake", "trail"] }]
    const trail = { ...audit, path: "trail.ndjson", renamedFrom: "audit" }
    const renamed = { ...base, sinks: { lake, trail }, routes }
    const lines = yield* between(base, renamed)
    expect(lines.slice(0, 2)).toEqual(["> sink trail from audit", "~ sink trail: path"])
    const { renamedFrom: _, ...plain } = trail
    expect(yield* between(renamed, { ...renamed, sinks: { lake, trail: plain } })).toEqual([])
  })

  it.effect("takes new headers for client details, and no other of their keys", function* () {
    const clients = (key: string, timeout: string) => ({
      ...base,
      sinks: {
        ...base.sinks,
        lake: { ...base.sinks.lake, format: "template", body: { id: "{{id}}" }, enrich: "wait" },
      },
      clients: {
        baseUrl: "https://api.example",
        headers: { "x-api-key": key },
        timeout,
        events: { "appointment.**": "/data/object/id" },
      },
    })
    const [before, key, both] = [
      yield* written(clients("the-first-key", "2 seconds")),
      yield* written(clients("the-second-key", "2 seconds")),
      yield* written(clients("the-second-key", "3 seconds")),
    ]
    expect(Difference.needingRestart(before, key)).toEqual([])
    expect(Difference.between(before, key).map(Difference.show)).toEqual(["~ clients clients: headers"])
    expect(Difference.needingRestart(before, both)).toEqual(["clients.timeout"])
  })

  it.effect("names the changes that require a restart", function* () {
    const after = {
      ...base,
      listen: "127.0.0.1:1",
      admin: { listen: "127.0.0.1:2", token: "the-token" },
      tls: { certificate: pem("localhost.pem"), key: pem("localhost.key.pem") },
      journal: { path: "elsewhere.db", maxSize: "1 GiB" },
    }
    const [before, next] = [yield* written(base), yield* written(after)]
    expect(Difference.needingRestart(before, next).toSorted()).toEqual([
      "admin.listen",
      "admin.token",
      "journal.maxSize",
      "journal.path",
      "listen",
      "tls",
    ])
    expect(Difference.between(before, next)).toEqual([])
    // The journal's type may allow a reload to change some of its keys.
    expect(Difference.needingRestart(before, next, ["path"])).not.toContain("journal.path")
  })
})
