import { describe, expect, test } from "bun:test"
import { Duration, Redacted } from "effect"
import { hashOf } from "../../src/admin/Introduction.ts"
import type { LaneConfig, RelayConfig } from "../../src/config/Config.ts"
import { relayConfig } from "../lib/activeConfig.ts"
import { config as usual } from "./fixture.ts"

const base = usual()
const [lake] = base.sinks as readonly [LaneConfig]
const file = (path: string, size = 1): LaneConfig => ({ ...lake, name: "audit", config: { path, rotate: { size } } })
const http = (url: string, more: object = {}): LaneConfig => ({
  ...lake,
  name: "backoffice",
  type: "http",
  config: { url: Redacted.make(url), method: "POST", ...more },
})
const config = (sinks: ReadonlyArray<LaneConfig>, more: Partial<RelayConfig> = {}) =>
  hashOf(relayConfig({ ...base, sinks, ...more }))

describe("relays have the same config", () => {
  const tls = (certificate: string) => ({
    tls: { ca: `authority of ${certificate}`, certificate, key: Redacted.make("k") },
  })
  const same: ReadonlyArray<readonly [what: string, one: string, other: string]> = [
    ["whatever the file of a sink", config([file("./data/relay-1.ndjson")]), config([file("/srv/relay-2.ndjson")])],
    [
      "whatever the port of a sink on this machine",
      config([http("http://127.0.0.1:8090/a")]),
      config([http("http://localhost:9/a")]),
    ],
    [
      "whatever the certificates that a sink is shown",
      config([http("https://x.example", tls("one"))]),
      config([http("https://x.example", tls("two"))]),
    ],
    ["wherever they listen", config([lake]), config([lake], { listen: { host: "10.0.0.2", port: 1 } })],
    ["in whatever order their sinks stand", config([lake, file("a")]), config([file("a"), lake])],
    ["while one has yet to take out a sink's former name", config([lake]), config([{ ...lake, renamedFrom: "old" }])],
  ]
  for (const [what, one, other] of same) test(what, () => expect(other).toBe(one))
})

describe("relays have different configs", () => {
  const timeout = { ...lake.delivery, timeout: Duration.seconds(1) }
  const different: ReadonlyArray<readonly [what: string, one: string, other: string]> = [
    ["by the host of a sink", config([http("https://one.example/a")]), config([http("https://two.example/a")])],
    [
      "by a machine's own sink against one that all share",
      config([http("http://127.0.0.1/a")]),
      config([http("https://two.example/a")]),
    ],
    ["by how a file is rotated", config([file("a", 1)]), config([file("a", 2)])],
    [
      "by whether a sink has a certificate",
      config([http("https://x.example")]),
      config([http("https://x.example", { tls: { ca: "a" } })]),
    ],
    ["by how events are delivered", config([lake]), config([{ ...lake, delivery: timeout }])],
    ["by a sink", config([lake]), config([lake, file("a")])],
    [
      "by a route",
      config([lake]),
      config([lake], { routes: [{ name: "r", match: ["**"], except: [], where: {}, to: ["lake"] }] }),
    ],
    ["by a webhook", config([lake]), config([lake], { webhooks: [{ name: "more" } as never] })],
  ]
  for (const [what, one, other] of different) test(what, () => expect(other).not.toBe(one))
})
