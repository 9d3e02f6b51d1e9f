import { describe, expect } from "bun:test"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const running = runningIn(temporary())

describe("audit", () => {
  it.live("lists changes, newest first, page by page, and says if there are none", function* () {
    const { ask } = yield* running()
    expect(yield* ask("audit")).toEqual({ code: 0, stdout: "", stderr: "no operation is recorded\n" })
    yield* ask("lanes", "pause", "lake")
    yield* ask("lanes", "move", "old", "lake")
    yield* ask("lanes", "drop", "lake")
    const { stdout, stderr } = yield* ask("audit", "--limit", "2")
    const [head, ...rows] = stdout.trimEnd().split("\n")
    expect(head).toMatch(/^ *TIME +WHO +BY +WHAT +ON +RESULT$/)
    expect(rows).toEqual([
      expect.stringMatching(
        /^ *20\S+Z? +local +the command line +lanes drop +lake +refused: the sink lake is in the config$/,
      ),
      expect.stringMatching(/^ *20\S+Z? +local +the command line +lanes move +old lake +done: 3 events$/),
    ])
    const [, before = ""] = /--before (\d+)/.exec(stderr) ?? []
    const older = JSON.parse((yield* ask("audit", "--before", before, "--json")).stdout)
    expect(older).toEqual({ records: [expect.objectContaining({ what: "lanes pause", on: "lake", result: "done" })] })
    expect((yield* ask("audit", "--since", "2999-01-01")).stderr).toBe("no operation is recorded\n")
  })
})
