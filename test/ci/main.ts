/**
 * `bun test/ci/main.ts [SECONDS]`, which `.ci/run` calls: runs every check, and
 * exits 1 if any failed. SECONDS have passed since the run began. It imports no
 * package, because the first check installs them.
 */
import { join } from "node:path"
import process from "node:process"
import { plan } from "./Plan.ts"
import { Run } from "./Run.ts"
import { isGood, summary } from "./Summary.ts"

/** Seconds for everything, with the tests that are run again. */
const limit = 40 * 60
/** The part of the limit, in seconds, that is kept for stopping. */
const reserve = 15

const before = Number(process.argv[2] ?? 0)
const run = new Run({
  root: join(import.meta.dir, "../.."),
  // A busy machine is slow; a test that hangs is still reported.
  runner: [process.execPath, "test", "--timeout", "60000"],
  limit: (limit - reserve - before) * 1000,
  print: console.log,
})
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => run.stop(signal))

const result = await run.all(plan())
console.log(`\n${summary(result, before + performance.now() / 1000)}`)
process.exit(isGood(result) ? 0 : 1)
