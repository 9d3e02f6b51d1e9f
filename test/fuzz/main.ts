/**
 * `bun run fuzz [--only TARGET] [--minutes N] [--seed S]`: changes real inputs at
 * random, keeps those that reach new branches of the sources, and checks that each
 * target's statement holds for all of them. `Targets.ts` has the targets.
 *
 *   --only TARGET  this target; may be repeated
 *   --minutes N    minutes for each target, instead of 5
 *   --seed S       draws other changes than seed 1
 *
 * An input that breaks something is made as short as possible and kept in
 * `found.json`, which `Found.test.ts` plays. Other inputs that reach something new
 * are kept in `.cache/fuzz`, so a later run begins with them. The figures go to
 * docs/evidence. Exits 1 if something was found.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { createInterface } from "node:readline"
import { parseArgs } from "node:util"
import { writePage } from "../evidence/Page.ts"
import { root } from "../lib/programs.ts"
import { keep, readFound, writeFigures } from "./Kept.ts"
import type { Finding, Progress } from "./Search.ts"
import { targets } from "./Targets.ts"

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    minutes: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
  },
})
const [seed, minutes] = [Number(values.seed), Number(values.minutes)]
const names = targets.map(({ name }) => name)
const unknown = values.only?.find((only) => !names.includes(only))
if (unknown !== undefined) {
  console.error(`there is no target ${unknown}; the targets are: ${names.join(", ")}`)
  process.exit(64)
}

/** Milliseconds without a line of progress after which an input never ends. */
const longestSilence = 60_000

type Line = Progress | (Finding & { readonly input: string })

/** Returns the input that a process played last, as base64. */
const lastInput = (name: string): string => {
  const file = join(root, ".cache/fuzz", name, "current")
  const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(4)
  return bytes.subarray(4, 4 + bytes.readUInt32LE(0)).toString("base64")
}

/** Plays inputs in a process of its own until its time is over, or an input ends it. */
const run = (name: string, seed: number, minutes: number, onLine: (line: Line) => void): Promise<boolean> =>
  new Promise((resolve) => {
    const args = [join(import.meta.dir, "Run.ts"), name, String(seed), String(minutes)]
    const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] })
    let spoke = performance.now()
    createInterface({ input: child.stdout }).on("line", (line) => {
      spoke = performance.now()
      onLine(JSON.parse(line))
    })
    const watch = setInterval(() => {
      if (performance.now() - spoke > longestSilence) child.kill("SIGKILL")
    }, 1_000)
    const kill = () => child.kill("SIGKILL")
    process.once("exit", kill)
    child.once("close", (code) => {
      clearInterval(watch)
      process.off("exit", kill)
      resolve(code === 0)
    })
  })

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))

const gitOf = (...args: ReadonlyArray<string>): string =>
  spawnSync("git", args, { cwd: root, encoding: "utf8" }).stdout.trim()

/** Fuzzes a target. Returns the number of findings. */
const fuzz = async (name: string): Promise<number> => {
  const until = performance.now() + minutes * 60_000
  const keys = new Set<string>()
  let executions = 0
  let last: Progress = { executions: 0, inputs: 0, reached: 0 }
  const found = (key: string, message: string, input: string): void => {
    if (keys.has(key)) return
    keys.add(key)
    keep(name, key, input)
    console.log(`${name}: FOUND ${key}\n${message}\n  input: ${Buffer.from(input, "base64").toString().slice(0, 500)}`)
  }
  for (let turn = 0; performance.now() < until; turn++) {
    const left = (until - performance.now()) / 60_000
    const isWhole = await run(name, seed + 1_000 * turn, left, (line) => {
      if ("key" in line) found(line.key, line.message, line.input)
      else last = line
    })
    executions += last.executions
    last = { ...last, executions: 0 }
    if (!isWhole) found("an input that never ends, or ends the process", "", lastInput(name))
    if (turn > 20) break
  }
  const { inputs, reached } = last
  const holds = targets.find((target) => target.name === name)?.holds ?? ""
  const all = readFound().filter(({ target }) => target === name).length
  const day = new Date().toISOString().slice(0, 10)
  const commit = gitOf("log", "-1", "--format=%h", "--abbrev=12", "--", "src")
  writeFigures(names, name, { holds, seed, minutes, executions, inputs, reached, found: all, day, commit })
  console.log(`${name}: ${executions} executions, ${inputs} inputs, ${reached} branches, ${keys.size} found`)
  return keys.size
}

let all = 0
for (const name of values.only ?? names) all += await fuzz(name)
writePage(root)
process.exit(all === 0 ? 0 : 1)
