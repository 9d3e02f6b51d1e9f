/**
 * `bun run bench` compares the cost of an event in the relay with servers that do a part of its work, in the same
 * minutes on the same machine. Absolute figures differ between machines and hours; ratios of interleaved pairs hold.
 * Exits 1 if a requirement is missed.
 *
 *   --quick          three short rounds: a smoke test of two minutes, its verdicts are noisy
 *   --rows A,B       these rows of the table; a row that is named twice shows the noise
 *   --rate N         N events a second, instead of as many as each row can take
 *   --binary PATH    the compiled relay instead of src/main.ts: users run that, and its memory is smaller
 *   --rounds N --seconds N   instead of 5 rounds of 3 s
 *   --only NAME      instead of the table: one of kept, drain, memory, routes, rates, sinks, page, backtest, fleet, far, start,
 *                    sizing and growth
 *   --kept N         events in the journal of `kept`, instead of 2,000,000; 1.2 GB of disk a million
 *   --long N         seconds of load to each sink of `memory`, instead of 600; up to 45 GB of disk
 *   --against PATH   compares the cost of an event with a relay compiled from another commit, at
 *                    file, http, kafka and postgres. Without --binary, this one is dist/relay.
 *                    The other also runs against itself, which shows the noise. Rounds are added until that is within 1.02,
 *                    30 at most. Exits 1 above 1.03, and 2 if it was not measurable
 *   --bound N        instead of 1.03
 */
import { join } from "node:path"
import { Console, Effect } from "effect"
import { relayBinary } from "../lib/programs.ts"
import { against, usualBound } from "./Against.ts"
import { BenchError } from "./BenchError.ts"
import { cost } from "./Cost.ts"
import { requireWrk } from "./Load.ts"
import * as Program from "./Program.ts"
import { type Options, scenarios } from "./Scenarios.ts"

const whole = (flag: string, text: string): Effect.Effect<number, BenchError> =>
  /^[1-9][0-9]*$/.test(text)
    ? Effect.succeed(Number(text))
    : Effect.fail(new BenchError({ message: `--${flag} takes a whole number above 0, not ${text}` }))

const ratio = (flag: string, text: string): Effect.Effect<number, BenchError> =>
  Number(text) >= 1
    ? Effect.succeed(Number(text))
    : Effect.fail(new BenchError({ message: `--${flag} takes a ratio of at least 1, not ${text}` }))

const bench = Effect.gen(function* () {
  const {
    quick,
    only,
    binary,
    against: other,
    bound,
    rows,
    ...numbers
  } = yield* Program.flags({
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    binary: { type: "string" },
    rows: { type: "string" },
    rate: { type: "string" },
    rounds: { type: "string" },
    seconds: { type: "string" },
    kept: { type: "string" },
    long: { type: "string" },
    against: { type: "string" },
    bound: { type: "string", default: String(usualBound) },
  })
  yield* requireWrk
  const pace = numbers.rate === undefined ? undefined : yield* whole("rate", numbers.rate)
  const options: Options = {
    directory: yield* Program.onDisk,
    requests: join(yield* Program.inMemory, "requests"),
    // The other build is a binary, so this one must be a binary too.
    command: Program.relayCommand(binary ?? (other === undefined ? undefined : relayBinary())),
    rounds: yield* whole("rounds", numbers.rounds ?? (quick ? "3" : "5")),
    seconds: yield* whole("seconds", numbers.seconds ?? (quick ? "2" : "3")),
    rate: pace ?? 5_000,
    kept: yield* whole("kept", numbers.kept ?? (quick ? "200000" : "2000000")),
    backlog: quick ? 100_000 : 1_000_000,
    long: yield* whole("long", numbers.long ?? (quick ? "30" : "600")),
  }
  const { rounds, seconds, command } = options
  yield* Console.log(`${Program.machine}; ${rounds} rounds of ${seconds} s; ${command.join(" ")}`)
  if (other !== undefined) {
    return yield* against(options, Program.relayCommand(other), rows, yield* ratio("bound", bound))
  }
  const scenario = yield* chosen(only)
  return yield* scenario === undefined ? cost({ ...options, pace, rows }) : scenario(options)
})

/** Returns the scenario of `--only`, or `undefined` for the table. */
const chosen = (only: string | undefined) => {
  if (only === undefined || scenarios[only] !== undefined) return Effect.succeed(scenarios[only ?? ""])
  return Effect.fail(
    new BenchError({ message: `--only takes one of ${Object.keys(scenarios).join(", ")}, not ${only}` }),
  )
}

Program.main(bench)
