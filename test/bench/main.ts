/**
 * `bun run bench`: what the relay costs, beside a bare handler that verifies
 * and parses (the ceiling) and an empty server, in the same minutes on the same
 * machine. Absolute figures differ between machines and hours; ratios of
 * interleaved pairs hold. Exits 1 when a requirement is missed.
 *
 *   --quick          three short rounds and 200,000 events kept: a smoke test, its verdicts are noisy
 *   --only NAME      one scenario: ingest, end-to-end, kept, routes
 *   --binary PATH    the compiled relay instead of src/main.ts
 *   --rate N         events a second of end-to-end (5000)
 *   --rounds N --seconds N   instead of 7 rounds of 3 s
 */
import { existsSync, mkdtempSync, rmSync, statfsSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import * as NodeRuntime from "@effect/platform-node-shared/NodeRuntime"
import { Console, Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import { requireWrk } from "./Load.ts"
import * as Report from "./Report.ts"
import { type Options, scenarios } from "./Scenarios.ts"

const tmpfs = 0x01021994

/** On a disk: fsync costs nothing in a temporary directory that is memory. */
const temporary = Effect.acquireRelease(
  Effect.sync(() => {
    const onDisk = [tmpdir(), "/var/tmp"].find((path) => statfsSync(path).type !== tmpfs) ?? tmpdir()
    return mkdtempSync(join(onDisk, "relay-bench-"))
  }),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** In memory where the system offers that, so that a round's requests cost the disk nothing. */
const requests = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "relay-bench-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

const flags = Effect.try({
  try: () =>
    parseArgs({
      options: {
        quick: { type: "boolean", default: false },
        only: { type: "string" },
        binary: { type: "string" },
        rate: { type: "string", default: "5000" },
        rounds: { type: "string" },
        seconds: { type: "string" },
      },
    }).values,
  catch: (error) => new BenchError({ message: error instanceof Error ? error.message : String(error) }),
})

const whole = (flag: string, text: string): Effect.Effect<number, BenchError> =>
  /^[1-9][0-9]*$/.test(text)
    ? Effect.succeed(Number(text))
    : Effect.fail(new BenchError({ message: `--${flag} takes a whole number above 0, not ${text}` }))

const bench = Effect.gen(function* () {
  const { quick, only, binary, ...numbers } = yield* flags
  if (process.platform !== "linux")
    return yield* new BenchError({ message: "the benchmark reads CPU from /proc: Linux only" })
  yield* requireWrk
  const chosen = Object.entries(scenarios).filter(([name]) => only === undefined || name === only)
  if (chosen.length === 0) {
    return yield* new BenchError({ message: `--only takes one of ${Object.keys(scenarios).join(", ")}, not ${only}` })
  }
  const options: Options = {
    directory: yield* temporary,
    requests: join(yield* requests, "requests"),
    command: binary === undefined ? [process.execPath, "src/main.ts"] : [resolve(binary)],
    rounds: yield* whole("rounds", numbers.rounds ?? (quick ? "3" : "7")),
    seconds: yield* whole("seconds", numbers.seconds ?? (quick ? "2" : "3")),
    rate: yield* whole("rate", numbers.rate),
    kept: quick ? 200_000 : 2_000_000,
  }
  const { rounds, seconds } = options
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, Bun ${Bun.version}`
  yield* Console.log(`${machine}; ${rounds} rounds of ${seconds} s; ${options.command.join(" ")}`)

  const verdicts: Array<Report.Verdict> = []
  for (const [name, scenario] of chosen) {
    process.stderr.write(`${name}: `)
    verdicts.push(...(yield* Effect.scoped(scenario(options))))
  }
  yield* Console.log(Report.verdicts(verdicts))
  if (verdicts.some(({ ok, stretch }) => !ok && stretch !== true)) process.exitCode = 1
})

NodeRuntime.runMain(
  Effect.scoped(bench).pipe(
    Effect.catchTag("BenchError", ({ message }) =>
      Effect.andThen(
        Console.error(`\n${message}`),
        Effect.sync(() => {
          process.exitCode = 1
        }),
      ),
    ),
  ),
)
