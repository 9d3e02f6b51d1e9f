import { describe, expect } from "bun:test"
import { lane } from "../../admin/fixture.ts"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

describe("lanes", () => {
  it.live("a sink that sends alerts is muted, and its events are only dropped once that is confirmed", function* () {
    const { ask, told } = yield* running({
      lanes: [lane("oncall", { type: "slack" }), lane("lake", { type: "kafka" })],
    })
    const pause = (...flags: ReadonlyArray<string>) => ask("lanes", "pause", "oncall", ...flags)
    expect((yield* pause("--for", "8h", "--then", "digest")).stdout).toMatch(
      /^oncall is paused until \S+Z, also after a restart; its events are kept, and sent as one digest then\n$/,
    )
    expect(yield* pause("--then", "digest")).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("--then digest happens when the pause ends: say when with --for"),
    })
    expect(yield* pause("--for", "8h", "--then", "drop")).toMatchObject({
      code: 64,
      stderr: expect.stringContaining(
        "the events that oncall gets during the pause will never be sent to it: confirm it with --yes",
      ),
    })
    expect((yield* pause("--for", "8h", "--then", "drop", "--yes")).stdout).toContain(
      "its events are kept until then, and dropped",
    )
    for (const ending of ["digest", "drop"]) {
      expect(yield* ask("lanes", "pause", "lake", "--for", "8h", "--then", ending)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("only a sink that sends alerts (alertmanager, discord, email"),
      })
    }
    expect(yield* told).toEqual([
      expect.stringMatching(/^mute oncall until \d+ then digest$/),
      expect.stringMatching(/^mute oncall until \d+ then drop$/),
    ])
  })

  it.live("lanes are listed and controlled, and a refusal is shown in the relay's words", function* () {
    const { ask, told } = yield* running()
    expect((yield* ask("lanes", "list")).stdout).toMatch(/old +- +orphaned +3/)
    expect((yield* ask("lanes", "pause", "lake")).code).toBe(0)
    const paused = yield* ask("lanes", "pause", "lake", "--for", "8h")
    expect(paused.stdout).toMatch(/^lake is paused until \d{4}-.*Z, also after a restart; its events are kept\n$/)
    expect((yield* ask("lanes", "pause", "lake", "--for", "8")).stderr).toContain("--for 8: a span is 30m, 8h")
    expect((yield* ask("lanes", "move", "old", "lake")).stdout).toBe("3 events moved from old to lake\n")
    expect(yield* told).toEqual(["pause lake", expect.stringMatching(/^pause lake until \d+$/), "move old lake"])
    expect(yield* ask("lanes", "drop", "lake")).toMatchObject({
      code: 1,
      stderr: "relay: the sink lake is in the config\n",
    })
    expect(yield* ask("lanes", "pause", "_quarantine")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("relay: _quarantine can't be paused"),
    })
    expect((yield* ask("lanes", "resume", "nope")).stderr).toBe(
      "relay: there is no lane nope; `relay lanes list` shows them\n",
    )
    for (const change of ["pause", "resume"]) {
      expect(yield* ask("lanes", change, "old")).toMatchObject({
        code: 1,
        stderr:
          "relay: old has no sink in the config: move its events with `relay lanes move old TO`, or drop them with `relay lanes drop old`\n",
      })
    }
    expect((yield* ask("lanes", "move", "old", "nope")).stderr).toBe(
      "relay: there is no sink nope in the config; `relay status` shows them\n",
    )
  })
})
