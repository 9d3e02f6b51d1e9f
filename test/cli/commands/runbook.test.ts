import { describe, expect, test } from "bun:test"
import { cli } from "../harness.ts"

describe("runbook", () => {
  test("lists the states with their levels, and prints the meaning and the remedy of one", async () => {
    const all = await cli(["runbook"])
    expect([all.code, all.stdout]).toEqual([0, expect.stringMatching(/^ {2}sink-waiting +warning$/m)])
    const one = await cli(["runbook", "sink-waiting"])
    expect([one.code, one.stdout]).toEqual([0, expect.stringMatching(/^sink-waiting\n\nWarning; .*\n.*relay lanes/)])
    expect(one.stdout).not.toContain("###")
    const asJson = JSON.parse((await cli(["runbook", "journal-red", "--json"])).stdout)
    expect(asJson).toEqual({ state: "journal-red", level: "critical", text: expect.stringContaining("salvage") })
  })

  test("exits with a usage error for an unknown state", async () => {
    const { code, stdout, stderr } = await cli(["runbook", "sink-tired"])
    expect([code, stdout]).toEqual([64, ""])
    expect(stderr).toContain("there is no runbook sink-tired; `relay runbook` lists them")
  })
})
