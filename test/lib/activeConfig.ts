/** A config in force, without a file. */
import { Duration, Layer } from "effect"
import { ActiveConfig } from "../../src/ActiveConfig.ts"
import type { RelayConfig } from "../../src/config/Config.ts"
import { hmacSha256 } from "../../src/event/Signature.ts"

export const relayConfig = (more: Partial<RelayConfig> = {}): RelayConfig => ({
  listen: { host: "127.0.0.1", port: 8080 },
  probes: false,
  behindProxy: false,
  idleTimeout: Duration.seconds(60),
  admin: { listen: { host: "127.0.0.1", port: 9080 } },
  journal: {
    type: "sqlite",
    path: "journal.db",
    retention: Duration.days(7),
    maxSize: 1024,
    minFree: 0,
    duplicates: { age: Duration.hours(24), count: 1000 },
  },
  telemetry: {},
  certificates: [],
  drain: { delay: Duration.zero, refuse: Duration.zero },
  quarantine: { maxSize: 1024 ** 3, maxShare: 10 },
  webhooks: [],
  sinks: [],
  routes: [],
  tests: [],
  ...more,
})

export const makeActive = (more: Partial<RelayConfig> = {}, hmac = hmacSha256) =>
  ActiveConfig.make(relayConfig(more), hmac)

export const activeConfig = (more: Partial<RelayConfig> = {}, hmac = hmacSha256): Layer.Layer<ActiveConfig> =>
  Layer.sync(ActiveConfig, () => makeActive(more, hmac))
