/**
 * `bun run bench`: what an event costs the relay, beside servers that do a part
 * of its work, in the same minutes on the same machine. Absolute figures differ
 * between machines and hours; ratios of interleaved pairs hold. Exits 1 when a
 * requirement is missed.
 *
 *   --quick          three short rounds: a smoke test of two minutes, its verdicts are noisy
 *   --rows A,B       these rows of the table; one that is named twice shows the noise
 *   --rate N         so many events a second, in the place of as many as each can take
 *   --binary PATH    the compiled relay instead of src/main.ts: users run that, and its memory is smaller
 *   --rounds N --seconds N   instead of 5 rounds of 3 s
 *   --only NAME      in the place of the table: kept, drain, memory, routes, page, fleet, far, start, sizing
 *   --kept N         events in the journal of `kept`, instead of 2,000,000; 1.2 GB of disk a million
 *   --long N         seconds of load to each sink of `memory`, instead of 600; up to 45 GB of disk
 *   --against PATH   another compiled relay, an older one say: only what both cost, in turn
 */
import { join } from "node:path"
import { Console, Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import { cost } from "./Cost.ts"
import { requireWrk } from "./Load.ts"
import * as Program from "./Program.ts"
import { compareWith, type Options, scenarios } from "./Scenarios.ts"

const whole = (flag: string, text: string): Effect.Effect<number, BenchError> =>
  /^[1-9][0-9]*$/.test(text)
    ? Effect.succeed(Number(text))
    : Effect.fail(new BenchError({ message: `--${flag} takes a whole number above 0, not ${text}` }))

const bench = Effect.gen(function* () {
  const { quick, only, binary, against, rows, ...numbers } = yield* Program.flags({
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
  })
  yield* requireWrk
  const pace = numbers.rate === undefined ? undefined : yield* whole("rate", numbers.rate)
  const options: Options = {
    directory: yield* Program.onDisk,
    requests: join(yield* Program.inMemory, "requests"),
    command: Program.relayCommand(binary),
    rounds: yield* whole("rounds", numbers.rounds ?? (quick ? "3" : "5")),
    seconds: yield* whole("seconds", numbers.seconds ?? (quick ? "2" : "3")),
    rate: pace ?? 5_000,
    kept: yield* whole("kept", numbers.kept ?? (quick ? "200000" : "2000000")),
    backlog: quick ? 100_000 : 1_000_000,
    long: yield* whole("long", numbers.long ?? (quick ? "30" : "600")),
  }
  const { rounds, seconds, command } = options
  yield* Console.log(`${Program.machine}; ${rounds} rounds of ${seconds} s; ${command.join(" ")}`)
  const scenario = yield* chosen(only, against)
  return yield* scenario === undefined ? cost({ ...options, pace, rows }) : scenario(options)
})

/** None: the table. */
const chosen = (only: string | undefined, against: string | undefined) => {
  if (against !== undefined) return Effect.succeed(compareWith(Program.relayCommand(against)))
  if (only === undefined || scenarios[only] !== undefined) return Effect.succeed(scenarios[only ?? ""])
  return Effect.fail(
    new BenchError({ message: `--only takes one of ${Object.keys(scenarios).join(", ")}, not ${only}` }),
  )
}

Program.main(bench)
