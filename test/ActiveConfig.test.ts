import { expect } from "bun:test"
import { Effect } from "effect"
import { ActiveConfig } from "../src/ActiveConfig.ts"
import { webhook } from "./ingest/fixture.ts"
import { activeConfig, relayConfig } from "./lib/activeConfig.ts"
import { it } from "./lib/effect.ts"

it.effect("a config that is replaced goes with its routing table: router, webhooks and keys", () =>
  Effect.gen(function* () {
    const active = yield* ActiveConfig
    const to = (sink: string) => [{ name: "all", match: ["**"], except: [], where: {}, to: [sink] }]
    const inForce = () => {
      const { config, table } = active.current
      const paths = [...table.endpoints].map(([path, { receivers }]) => [
        path,
        receivers.map(({ secrets }) => secrets.length),
      ])
      return [config.routes[0]?.to, table.router.routeType("scheduling", "client.created"), paths]
    }
    expect(inForce()).toEqual([undefined, [], []])
    yield* active.replace(relayConfig({ routes: to("lake"), webhooks: [webhook()] }))
    expect(inForce()).toEqual([["lake"], ["lake"], [["/hooks/scheduling", [1]]]])
    yield* active.replace(relayConfig({ routes: to("chat"), webhooks: [webhook({ path: "/moved" })] }))
    expect(inForce()).toEqual([["chat"], ["chat"], [["/moved", [1]]]])
  }).pipe(Effect.provide(activeConfig())),
)
