/**
 * Fuzzes one target in a process of its own, because an input may never end or
 * end the process. Writes a line of JSON for each finding and for its progress;
 * the file `current` holds the input that is played.
 */
import { mkdirSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { root } from "../lib/programs.ts"
import { install } from "./Coverage.ts"
import type { Input } from "./Mutations.ts"

const [name = "", seed = "1", minutes = "1"] = process.argv.slice(2)
const folder = join(root, ".cache/fuzz", name)
mkdirSync(join(folder, "inputs"), { recursive: true })

const counts = await install(root, join(root, ".cache/fuzz/sources.json"))
const { targets } = await import("./Targets.ts")
const { search } = await import("./Search.ts")
const target = targets.find((one) => one.name === name)
if (target === undefined) throw new Error(`there is no target ${name}`)

const current = openSync(join(folder, "current"), "w")
const buffer = Buffer.alloc(target.longest + 4)
const write = (line: object): void => {
  // At once: an input that never ends would keep the line back.
  writeSync(1, `${JSON.stringify(line)}\n`)
}
const play = await target.open()
const known = readdirSync(join(folder, "inputs")).map((file) => readFileSync(join(folder, "inputs", file)))
const progress = await search(target, play, counts, {
  seed: Number(seed),
  until: performance.now() + Number(minutes) * 60_000,
  known,
  onInput: (input: Input) => {
    const length = Math.min(input.length, target.longest)
    buffer.writeUInt32LE(length, 0)
    buffer.set(input.subarray(0, length), 4)
    writeSync(current, buffer, 0, length + 4, 0)
  },
  onNew: (input) => writeFileSync(join(folder, "inputs", Bun.hash(input).toString(36)), input),
  onFound: (input, finding) => write({ input: Buffer.from(input).toString("base64"), ...finding }),
  onProgress: write,
})
write(progress)
process.exit(0)
