/** A large config is loaded in slices, so that a relay continues to work while it reloads. */
import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { countTurns } from "../../lib/turns.ts"
import { config, loadText } from "../fixture.ts"

const large = (routes: number, sinks: number) =>
  config({
    sinks: Object.fromEntries(
      Array.from({ length: sinks }, (_, index) => [`sink${index}`, { type: "file", path: `${index}.ndjson` }]),
    ),
    routes: Array.from({ length: routes }, (_, index) => ({
      name: `route ${index}`,
      match: index % 2 === 0 ? "appointment.**" : "client.*",
      to: `sink${index % sinks}`,
    })),
  })

describe("a config with a thousand routes", () => {
  test("lets waiting work run dozens of times while it is loaded", async () => {
    const { result, turns } = await Effect.runPromise(countTurns(loadText(large(1_000, 100))))
    expect(result.config.routes).toHaveLength(1_000)
    expect(turns).toBeGreaterThan(30)
  })

  test("has each wrong route reported at its position", async () => {
    const text = large(300, 3).replace('"route 257"', "257")
    const { diagnostics } = await Effect.runPromise(Effect.flip(loadText(text)))
    expect(diagnostics.map(({ key }) => key)).toEqual(["routes[257].name"])
  })
})
