/**
 * `bun run bench`: what the relay costs, beside a bare handler that verifies
 * and parses (the ceiling) and an empty server, in the same minutes on the same
 * machine. Absolute figures differ between machines and hours; ratios of
 * interleaved pairs hold. Exits 1 when a requirement is missed.
 *
 *   --quick          three short rounds and 200,000 events kept: a smoke test, its verdicts are noisy
 *   --only NAME      one scenario: ingest, end-to-end, kept, routes, page, fleet
 *   --binary PATH    the compiled relay instead of src/main.ts
 *   --rate N         events a second of end-to-end (5000)
 *   --rounds N --seconds N   instead of 7 rounds of 3 s
 *   --against PATH   another compiled relay, an older one say: only what both cost, in turn
 */
import { join } from "node:path"
import { Console, Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import { requireWrk } from "./Load.ts"
import * as Program from "./Program.ts"
import type * as Report from "./Report.ts"
import { compareWith, type Options, scenarios } from "./Scenarios.ts"

const whole = (flag: string, text: string): Effect.Effect<number, BenchError> =>
  /^[1-9][0-9]*$/.test(text)
    ? Effect.succeed(Number(text))
    : Effect.fail(new BenchError({ message: `--${flag} takes a whole number above 0, not ${text}` }))

const bench = Effect.gen(function* () {
  const { quick, only, binary, against, ...numbers } = yield* Program.flags({
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    binary: { type: "string" },
    rate: { type: "string", default: "5000" },
    rounds: { type: "string" },
    seconds: { type: "string" },
    against: { type: "string" },
  })
  yield* requireWrk
  const all = against === undefined ? scenarios : { against: compareWith(Program.relayCommand(against)) }
  const chosen = Object.entries(all).filter(([name]) => only === undefined || name === only)
  if (chosen.length === 0) {
    return yield* new BenchError({ message: `--only takes one of ${Object.keys(scenarios).join(", ")}, not ${only}` })
  }
  const options: Options = {
    directory: yield* Program.onDisk,
    requests: join(yield* Program.inMemory, "requests"),
    command: Program.relayCommand(binary),
    rounds: yield* whole("rounds", numbers.rounds ?? (quick ? "3" : "7")),
    seconds: yield* whole("seconds", numbers.seconds ?? (quick ? "2" : "3")),
    rate: yield* whole("rate", numbers.rate),
    kept: quick ? 200_000 : 2_000_000,
  }
  const { rounds, seconds, command } = options
  yield* Console.log(`${Program.machine}; ${rounds} rounds of ${seconds} s; ${command.join(" ")}`)
  const verdicts: Array<Report.Verdict> = []
  for (const [name, scenario] of chosen) {
    process.stderr.write(`${name}: `)
    verdicts.push(...(yield* Effect.scoped(scenario(options))))
  }
  return verdicts
})

Program.main(bench)
