/**
 * `bun run evidence [--only CLAIM] [--binary PATH]` runs the command of each claim in the README, and writes its
 * figures to docs/evidence. A test compares the README with them. `--only` takes a name from `Claims.ts`, and may be
 * repeated. The commands use the binary, because users run it. Exits 1 if a command failed; its last evidence is kept.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { cpus, loadavg } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { relayBinary, root } from "../lib/programs.ts"
import { type Claim, claims, figuresIn } from "./Claims.ts"
import { type Evidence, writePage } from "./Page.ts"

const { values } = parseArgs({
  options: { only: { type: "string", multiple: true }, binary: { type: "string" } },
})
const unknown = values.only?.find((only) => !claims.some(({ name }) => name === only))
if (unknown !== undefined) {
  console.error(`there is no claim ${unknown}; the claims are: ${claims.map(({ name }) => name).join(", ")}`)
  process.exit(64)
}

const folder = join(root, "docs/evidence")
const fileOf = (name: string): string => join(folder, `${name}.json`)
const textOf = (command: string, ...args: ReadonlyArray<string>): string =>
  spawnSync(command, args, { cwd: root, encoding: "utf8" }).stdout.trim()

const run = (claim: Claim, binary: string): boolean => {
  const own = claim.flags === undefined ? claim.command : `${claim.command} ${claim.flags}`
  // The mutants change the source, so they can't use a binary.
  const words = own.includes("--mutants") ? own.split(" ") : [...own.split(" "), "--binary", binary]
  console.log(words.join(" "))
  const started = performance.now()
  const load = loadavg()[0] ?? 0
  const env = { ...process.env, RELAY_PARTS: "1", NO_COLOR: "1" }
  const { status, stdout, stderr } = spawnSync(process.execPath, words.slice(1), {
    cwd: root,
    encoding: "utf8",
    env,
    maxBuffer: 1 << 28,
  })
  const figures = figuresIn(claim, stdout)
  const isMeasured = claim.measures === true && status === 1 && Object.values(figures).every((figure) => figure > 0)
  if (status !== 0 && !isMeasured) {
    console.error(`${own} failed (exit ${status})\n${stdout}${stderr}`)
    return false
  }
  const evidence: Evidence = {
    command: own,
    machine: `${cpus().length} × ${cpus()[0]?.model.trim()}, Bun ${Bun.version}`,
    load: Number(load.toFixed(1)),
    day: new Date().toISOString().slice(0, 10),
    commit: textOf("git", "log", "-1", "--format=%h", "--abbrev=12", "--", "src"),
    seconds: Math.round((performance.now() - started) / 1000),
    figures,
  }
  console.log(evidence.figures)
  writeFileSync(fileOf(claim.name), `${JSON.stringify(evidence, null, 2)}\n`)
  return true
}

mkdirSync(folder, { recursive: true })
const binary = values.binary ?? relayBinary()
const chosen = claims.filter(({ name }) => values.only === undefined || values.only.includes(name))
const passed = chosen.map((claim) => run(claim, binary))
writePage(root)
process.exit(passed.every((one) => one) ? 0 : 1)
