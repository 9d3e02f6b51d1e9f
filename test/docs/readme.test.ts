/** Checks the README: its commands exist, the quick ones run, and its links lead somewhere. */
import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { embedded } from "../../src/config/load/ConfigText.ts"
import { scenarios } from "../bench/Scenarios.ts"
import { lines as faults } from "../faults/Lines.ts"
import { readPage } from "../lib/docs.ts"
import { freePort } from "../lib/port.ts"
import { command, relay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const root = resolve(import.meta.dir, "../..")
const readme = readPage("README.md")
const cli = readPage("docs/reference/cli.md")
/** Every page that shows commands to run in a clone. */
const shown = [readme, cli, readPage("config/examples/README.md"), readPage("CONTRIBUTING.md")].join("\n")
const cwd = temporaryDirectory("readme-")
/** Runs the source with Bun, as the README does. */
const source = { cwd, under: "bun" }

const lines = [...shown.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block]) => block?.trimEnd().split("\n") ?? [])
const deno = lines.filter((line) => line.startsWith("deno "))
/** The single commands, however Bun is called: `install …`, `test`, `run build`, `src/main.ts …`. */
const commands = lines
  .filter((line) => !deno.includes(line))
  .flatMap((line) => line.split(" && "))
  .map((line) => line.replace(/^(bun|npx -y bun@1\.4\.5) /, ""))
const ours = [
  ...new Set(
    commands.filter((line) => line.startsWith("src/main.ts ")).map((line) => line.slice("src/main.ts ".length)),
  ),
]

describe("the README", () => {
  test("has the two commands in a variant for Bun and one for Node, the same but for how Bun is called", () => {
    const [bunRun, bunTest, nodeRun, nodeTest] = lines
    expect([nodeRun, nodeTest]).toEqual([bunRun, bunTest].map((line) => line?.replaceAll("bun ", "npx -y bun@1.4.5 ")))
    expect(bunRun).toEndWith("src/main.ts run")
    expect(bunTest).toEndWith("bun test")
  })

  test("starts Deno as the tests do, in the version that they use", () => {
    expect(deno).toHaveLength(1)
    const [, run = ""] = deno[0]?.split(" && ") ?? []
    expect(run.split(" ").slice(1)).toEqual([...command(undefined, "deno").slice(1, -1), "src/main.ts", "run"])
    const [major, minor] = manifest.devDependencies.deno.split(".")
    expect(readme).toContain(`With Deno ${major}.${minor},`)
  })

  test("names the Bun that the checks run on", () => {
    const ci = readFileSync(join(root, ".ci/run"), "utf8")
    const version = /bun_version=(\S+)/.exec(ci)?.[1]
    expect(readme).toContain(`bun@${version}`)
    expect(readme).toContain(`Bun ${version}`)
  })

  test("names only scripts, files and commands that there are", async () => {
    for (const command of commands) {
      const [verb, name = ""] = command.split(" ")
      if (verb?.startsWith("test/parts/")) expect(existsSync(join(root, verb))).toBe(true)
      else expect(["install", "test", "run", "src/main.ts"]).toContain(verb ?? "")
      if (verb === "run") expect(Object.keys(manifest.scripts)).toContain(name)
    }
    const { stdout } = await relay(["--help"], source)
    const known = [...stdout.slice(stdout.indexOf("SUBCOMMANDS")).matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
    const table = [...cli.matchAll(/^\| (`[a-zA-Z`, ]+`) \|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`([a-z]+)/g)].map(([, name]) => name),
    )
    expect(table).toEqual(known)
    for (const line of ours) expect(known).toContain(line.split(" ")[0])
    for (const [, file = ""] of shown.matchAll(/ -c (\S+)$/gm)) expect(existsSync(join(root, file))).toBe(true)
  })

  test("shows its claims by scripts, and parts of them, that there are", () => {
    const claims = [...readme.matchAll(/^- \*\*.*: `bun run ([a-z]+)(?: --only ([a-z-]+))?(?: --[a-z]+)?`$/gm)]
    expect(claims.length).toBeGreaterThan(5)
    const parts: Record<string, ReadonlyArray<string>> = {
      faults: faults.map(({ name }) => name),
      bench: Object.keys(scenarios),
    }
    for (const [, script = "", only] of claims) {
      expect(Object.keys(manifest.scripts)).toContain(script)
      if (only !== undefined) expect(parts[script]).toContain(only)
    }
  })

  test("shows commands that work while no relay runs", async () => {
    // The embedded defaults, with ports at which nothing listens.
    const free = embedded.replace(":8080", `:${await freePort()}`).replace(":9080", `:${await freePort()}`)
    writeFileSync(join(cwd, "relay.config.json"), free)
    const codes: Record<string, number> = {}
    for (const line of ours.filter((line) => !/^run( |$)/.test(line)))
      codes[line] = (await relay(line.split(" "), source)).code
    expect(codes).toEqual({
      "trigger appointment.created": 69,
      "trigger appointment.meeting.create_failed": 69,
      "explain appointment.meeting.create_failed": 0,
      status: 69,
    })
  })
})
