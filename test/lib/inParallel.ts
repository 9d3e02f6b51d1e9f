/**
 * Has `bun test`, where nothing else is asked for, run files side by side: the
 * runner can, and takes that by a flag alone, not from bunfig.toml. It takes
 * half the time then, for most tests wait for a process, a disk or a clock.
 * With any argument, with the parts of RELAY_PARTS, which take a machine for
 * themselves, and where the arguments can't be read, nothing changes.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import process from "node:process"
import { relayBinary } from "./programs.ts"

/** On Linux. The runner keeps its flags out of `process.argv`. */
const own = "/proc/self/cmdline"
const words = existsSync(own) ? readFileSync(own, "utf8").split("\0").slice(1, -1) : []

if (words.join(" ") === "test" && process.env.RELAY_PARTS !== "1") {
  // Once, and not by each of them at the same time.
  if ((process.env.RELAY_UNDER ?? "binary") === "binary" && process.env.RELAY_BINARY === undefined) relayBinary()
  const workers = Math.min(availableParallelism(), 4)
  // A busy machine is slow; a test that hangs is still reported.
  const args = ["test", `--parallel=${workers}`, "--no-isolate", "--timeout=30000"]
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" })
  process.exit(status ?? 1)
}
