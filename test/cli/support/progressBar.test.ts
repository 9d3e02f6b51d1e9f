import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Latch, Terminal } from "effect"
import { CliConfig, Command, TerminalCapabilities } from "effect/cli"
import { barOf, withProgressBar } from "../../../src/cli/support/adminClient.ts"
import { As, Config, Json } from "../../../src/cli/support/flags.ts"
import { Program } from "../../../src/cli/support/Program.ts"
import { services } from "../../../src/runtime/Process.ts"
import { start } from "../../admin/fixture.ts"
import { it } from "../../lib/effect.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"

const directory = temporaryDirectory("progress-")

test("a progress bar is as full as the work is done", () => {
  expect(barOf("replay to lake", 0)).toBe(`[${"-".repeat(30)}]   0 %  replay to lake`)
  expect(barOf("replay to lake", 0.5)).toBe(`[${"#".repeat(15)}${"-".repeat(15)}]  50 %  replay to lake`)
  expect(barOf("replay\u001b[2J", 1)).toBe(`[${"#".repeat(30)}] 100 %  replay\ufffd[2J`)
})

/** Waits for an answer that arrives once a bar has been drawn. Returns the output to the terminal until then. */
const drawn = (args: ReadonlyArray<string>, canAnimate: boolean) =>
  Effect.gen(function* () {
    const { ask } = yield* start()
    const answer = yield* ask("/api/v1/status")
    const status = { ...((yield* Effect.promise(() => answer.json())) as object), work: [{ what: "it", share: 0.5 }] }
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json(status) })),
      (server) => Effect.promise(() => server.stop(true)),
    )
    const file = join(directory, `${server.port}.json`)
    writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
    const told: Array<string> = []
    const done = yield* Latch.make(!canAnimate || args.includes("--json"))
    const terminal = Terminal.make({
      ...(yield* Terminal.Terminal),
      display: (text) =>
        Effect.sync(() => {
          told.push(text)
          if (text.includes("50 %")) done.openUnsafe()
        }),
    })
    const command = Command.make("wait", {}, () => withProgressBar("it", done.await)).pipe(
      Command.withGlobalFlags([Config, As, Json]),
    )
    yield* Command.runWith(command, { version: "0" })(["-c", file, ...args]).pipe(
      Effect.provideService(CliConfig.CliConfig, { builtIns: [] }),
      Effect.provideService(TerminalCapabilities.TerminalCapabilities, {
        canAnimate,
        canColor: false,
        canPrompt: false,
      }),
      Effect.provideService(Terminal.Terminal, terminal),
      Effect.provideService(Program, { entry: new URL(import.meta.url), command: "relay", env: {} }),
    )
    return told
  }).pipe(Effect.provide(services), Effect.orDie)

describe("progress", () => {
  it.live("is drawn on a terminal during a request, and removed when the answer arrives", function* () {
    const told = yield* drawn([], true)
    expect(told.at(0)).toBe(`\r\u001b[K${barOf("it", 0.5)}`)
    expect(told.at(-1)).toBe("\r\u001b[K")
  })

  it.live("is not drawn without a terminal or with JSON", function* () {
    expect(yield* drawn([], false)).toEqual([])
    expect(yield* drawn(["--json"], true)).toEqual([])
  })
})
