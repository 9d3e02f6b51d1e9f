/** Help, flags and exit codes, which all commands share. */
import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { commands as listed } from "../../src/cli/Commands.ts"
import { configsIn } from "./configs.ts"
import { cli, temporary } from "./harness.ts"

const directory = temporary()
const config = configsIn(directory)

/** A salvaged file with one event in it. */
const salvaged = (): string => {
  const file = join(directory, "salvaged.ndjson")
  const facts = {
    id: "evt_1",
    type: "block.created",
    accountId: "",
    webhook: "a",
    webhookId: "",
    signature: "",
    secret: "",
  }
  const line = {
    journal: "j",
    in: "log",
    pending: ["audit"],
    sequence: 1,
    receivedAt: 1,
    replayed: false,
    bodyBase64: "e30=",
  }
  writeFileSync(file, `${JSON.stringify({ ...line, ...facts })}\n`)
  return file
}

describe("every command", () => {
  test("has help with a description and an example", async () => {
    const { stdout } = await cli(["--help"])
    const commands = [...stdout.slice(stdout.indexOf("SUBCOMMANDS")).matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(
      ([, name]) => name ?? "",
    )
    expect(commands).toEqual(Object.keys(listed).sort())
    expect(commands.length).toBeGreaterThan(15)
    for (const command of commands) {
      const help = await cli([command, "--help"])
      expect(help.code).toBe(0)
      expect(help.stderr).toBe("")
      expect(help.stdout).toContain("EXAMPLES")
    }
  })

  test("exits with a usage error on stderr if it is mistyped, and suggests the right name", async () => {
    const { code, stdout, stderr } = await cli(["triger"])
    expect([code, stdout]).toEqual([64, ""])
    expect(stderr).toContain("trigger")
  })

  test("with a wrong flag, a wrong value or a missing argument exits 64 and prints no data", async () => {
    for (const args of [
      ["run", "--nope"],
      ["trigger"],
      ["trigger", "a.b", "-n", "many"],
      ["trigger", "a.b", "-n", "0"],
      ["lanes"],
      [],
    ]) {
      const { code, stdout, stderr } = await cli(args)
      expect([args, code, stdout]).toEqual([args, 64, ""])
      expect(stderr).not.toBe("")
    }
  })

  test("with a value that no relay accepts exits 64, and names flag and value", async () => {
    const file = config()
    for (const [args, told] of [
      [["events", "--type", "a..b"], "--type a..b: a pattern has an empty segment"],
      [["tap", "--type", "a..b"], "--type a..b: a pattern has an empty segment"],
      [["dlq", "list", "--type", "a..b"], "--type a..b: a pattern has an empty segment"],
      [["dlq", "drop", "--type", "a..b"], "--type a..b: a pattern has an empty segment"],
      [["replay", "--routed", "--type", "a.b", "--type", "a..b"], "--type a..b: a pattern has an empty segment"],
      [["dlq", "list", "--before", "zzz"], "--before zzz: give an id as `dlq list` shows it"],
      [["journal", "copy", "--from", "foo", "--to", "bar"], "--from foo: the types of journals are sqlite, postgres"],
      [["events", "erase", "--account", "a", "--event", "b"], "give only one of: --event, --place, filters"],
      [["events", "erase", "--place", "evt_1"], "a place in the log is seq_ and a number"],
      [["events", "erase"], "name what to erase"],
    ] as const) {
      const { code, stdout, stderr } = await cli([...args, "-c", file])
      expect([args, code, stdout, stderr]).toEqual([args, 64, "", expect.stringContaining(told)])
    }
  })

  test("takes --config and --json before and after its name", async () => {
    const file = config()
    const [before, after] = [
      await cli(["-c", file, "--json", "explain", "block.created"]),
      await cli(["explain", "block.created", "--config", file, "--json"]),
    ]
    expect(before).toEqual(after)
    expect(JSON.parse(before.stdout)).toMatchObject({ type: "block.created", sinks: ["audit"] })
  })

  test("completes in bash, zsh and fish", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const { code, stdout } = await cli(["--completions", shell])
      expect(code).toBe(0)
      for (const command of Object.keys(listed)) expect(stdout).toContain(command)
    }
  })

  test("exits 78 without its config, and says what to do", async () => {
    for (const command of [["run"], ["validate"], ["test"], ["explain", "a.b"], ["trigger", "a.b"], ["status"]]) {
      const { code, stderr } = await cli([...command, "-c", join(directory, "missing.json")])
      expect([command, code]).toEqual([command, 78])
      expect(stderr).toContain("relay init")
      expect(stderr).not.toMatch(/\n\s+at /)
    }
  })

  test("exits 69 if it needs a running relay and there is none, and names address and config", async () => {
    const file = config()
    for (const command of [
      ["status"],
      ["lanes", "list"],
      ["lanes", "pause", "audit"],
      ["dlq", "list"],
      ["dlq", "replay", "--all"],
      ["replay", "--to", "audit", "--since", "1 hour"],
      ["journal", "acknowledge"],
      ["journal", "import", salvaged()],
    ]) {
      const { code, stderr } = await cli([...command, "-c", file])
      expect([command, code]).toEqual([command, 69])
      expect(stderr).toContain("http://127.0.0.1:2")
      expect(stderr).toContain(file)
    }
    const { code, stderr } = await cli(["trigger", "block.created", "-c", file])
    expect([code, stderr]).toEqual([69, expect.stringContaining("http://127.0.0.1:1/hooks")])
  })
})
