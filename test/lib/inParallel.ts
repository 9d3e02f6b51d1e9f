/**
 * Starts `bun test` again with options that the runner accepts only as flags, not from bunfig.toml. A test gets a
 * minute, because a busy machine is slow, and a test that hangs is still reported.
 *
 * Without arguments, files run side by side. That takes half the time, because most tests wait for a process, a disk or
 * a clock. Rehearsals are left out. Named files run one after the other, and so do the parts of RELAY_PARTS, which need
 * a machine for themselves. If the arguments can't be read, nothing changes.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import process from "node:process"
import { relayBinary } from "./programs.ts"
import { fewTries, rehearsals } from "./tries.ts"

/** On Linux. The runner keeps its flags out of `process.argv`. */
const own = "/proc/self/cmdline"
const words = existsSync(own) ? readFileSync(own, "utf8").split("\0").slice(1, -1) : []

/**
 * Whether the run has its limit already: `.ci/run` starts it with one, and so does this file, which marks its workers
 * in the environment.
 */
const isStarted = process.env.RELAY_RUNNER === "started" || words.some((word) => word.startsWith("--timeout"))

if (words[0] === "test" && !isStarted) {
  const isPlain = words.length === 1 && process.env.RELAY_PARTS !== "1"
  // The binary is built once here, instead of by each worker at the same time.
  if (isPlain && (process.env.RELAY_UNDER ?? "binary") === "binary" && process.env.RELAY_BINARY === undefined)
    relayBinary()
  // One more than the number of cores, because some are waiting.
  const workers = Math.min(availableParallelism() + 1, 4)
  const sideBySide = [
    ...[`--parallel=${workers}`, "--no-isolate"],
    ...rehearsals.map((pattern) => `--path-ignore-patterns=${pattern}`),
  ]
  const { status } = spawnSync(
    process.execPath,
    ["test", "--timeout=60000", ...(isPlain ? sideBySide : words.slice(1))],
    {
      stdio: "inherit",
      env: { ...process.env, RELAY_RUNNER: "started", ...(isPlain && fewTries) },
    },
  )
  if (isPlain) {
    console.warn(`left out, because they start other programs or take seconds: ${rehearsals.join(" ")}`)
    console.warn("properties and seeded histories tried a tenth of their cases")
    console.warn("RELAY_PARTS=1 or a file's name runs and tries all")
  }
  process.exit(status ?? 1)
}
