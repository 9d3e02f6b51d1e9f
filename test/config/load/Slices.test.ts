/** A large config is loaded in slices: a relay that reloads it goes on meanwhile. */
import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { suiteUnless } from "../../lib/lacking.ts"
import { longestStretch, worked } from "../../lib/stretch.ts"
import { leftOut } from "../../lib/tries.ts"
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
  test("keeps what waits for less than 50 ms of work when it is loaded again", async () => {
    const text = large(1_000, 100)
    // A relay that reloads has loaded a config before.
    await Effect.runPromise(longestStretch(loadText(text)))
    expect(await Effect.runPromise(longestStretch(loadText(text)))).toBeLessThan(50)
  })

  test("lets what waits run dozens of times while it is loaded", async () => {
    let turns = 0
    let isLoading = true
    const turn = () => {
      turns++
      if (isLoading) setImmediate(turn)
    }
    setImmediate(turn)
    const { config: loaded } = await Effect.runPromise(loadText(large(1_000, 100)))
    isLoading = false
    expect(loaded.routes).toHaveLength(1_000)
    expect(turns).toBeGreaterThan(30)
  })

  test("has each wrong route told at its place", async () => {
    const text = large(300, 3).replace('"route 257"', "257")
    const { diagnostics } = await Effect.runPromise(Effect.flip(loadText(text)))
    expect(diagnostics.map(({ key }) => key)).toEqual(["routes[257].name"])
  })
})

suiteUnless(leftOut, "a config with ten thousand routes and a thousand sinks", () => {
  test("is loaded with less than 5 s of work", async () => {
    const before = worked()
    const { config: loaded } = await Effect.runPromise(loadText(large(10_000, 1_000)))
    expect(loaded.routes).toHaveLength(10_000)
    expect(worked() - before).toBeLessThan(5_000)
  }, 60_000)
})
