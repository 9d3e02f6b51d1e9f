/** A reload of a large config delays deliveries for a moment at most. */
import { describe, expect } from "bun:test"
import { Duration, Effect, Layer, Logger } from "effect"
import { ActiveConfig } from "../../src/ActiveConfig.ts"
import { type Loaded, load } from "../../src/config/load/Load.ts"
import { LaneSpecs } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import { hmacSha256 } from "../../src/event/Signature.ts"
import { Reload } from "../../src/reload/Reload.ts"
import { ListenerTls } from "../../src/runtime/Runtime.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { config, options } from "../config/fixture.ts"
import { createSqlite } from "../journal/temporary.ts"
import { it } from "../lib/effect.ts"
import { countTurns } from "../lib/turns.ts"

/** A thousand routes to a hundred sinks, all different in each version. */
const large = (version: number): string =>
  config({
    sinks: Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [
        `sink${index}`,
        { type: "http", url: `http://127.0.0.1:9/${version}/${index}` },
      ]),
    ),
    routes: Array.from({ length: 1_000 }, (_, index) => ({
      name: `route ${version} ${index}`,
      match: index % 2 === 0 ? "appointment.**" : "client.*",
      to: `sink${index % 100}`,
    })),
  })

const loading = (version: number) => {
  const text = large(version)
  return load("relay.config.json", { ...options({ "relay.config.json": text }), sinkTypes })
}

/** The parts of a relay that a reload changes, with a journal on disk. */
const relay = ({ config }: Loaded, load: ReturnType<typeof loading>) =>
  Reload.layer(load, { file: "relay.config.json", certificateFaults: [] }).pipe(
    Layer.provide(
      Layer.unwrap(
        Effect.map(LaneSpecs, (specs) =>
          Lanes.layer({ specs: config.sinks.map(specs.of), grace: () => Duration.seconds(1) }),
        ),
      ),
    ),
    Layer.provide(RelayEvents.layer),
    Layer.provide(createSqlite()()),
    Layer.provide(Layer.mergeAll(LaneSpecs.layer(undefined, 1e9), ListenerTls.layer(undefined), Logger.layer([]))),
    Layer.provideMerge(ActiveConfig.layer(config, hmacSha256)),
  )

describe("a reload of a thousand other routes to a hundred other sinks", () => {
  it.live(
    "lets what waits run hundreds of times meanwhile",
    function* () {
      let version = 0
      const first = yield* loading(version)
      const next = Effect.suspend(() => loading(++version))
      yield* Effect.gen(function* () {
        const { reload } = yield* Reload
        const active = yield* ActiveConfig
        const { turns } = yield* countTurns(reload)
        expect(active.current.config.routes[0]?.name).toBe("route 1 0")
        expect(turns).toBeGreaterThan(300)
      }).pipe(Effect.provide(relay(first, next)))
    },
    60_000,
  )
})
