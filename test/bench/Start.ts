/** Compares the start of the binary with an empty program that is compiled in the same way. */
import { statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Console, Duration, Effect } from "effect"
import { compile, relayBinary } from "../lib/programs.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import type { Options } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { cpuMicros, memory } from "./Usage.ts"

/** CPU of all threads and time in milliseconds, memory in MiB. */
interface Started {
  readonly cpu: number
  readonly time: number
  readonly memory?: number
}

/**
 * Runs a command until it ends. Its peak memory can't be measured: before the program is loaded, the system counts the
 * parent's memory.
 */
const ended = (command: ReadonlyArray<string>) =>
  Effect.promise(async (): Promise<Started> => {
    const from = performance.now()
    const child = Bun.spawn([...command], { stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    await child.exited
    return { cpu: Number(child.resourceUsage()?.cpuTime.total) / 1000, time: performance.now() - from }
  })

/** Measures a start until the relay accepts deliveries, and its memory three seconds later. */
const ready = (setup: Target.Setup, name: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const from = performance.now()
      const { pid } = yield* Target.relayToFile(setup, name)
      const [cpu, time] = [cpuMicros(pid) / 1000, performance.now() - from]
      yield* Effect.sleep(Duration.seconds(3))
      return { cpu, time, memory: memory(pid).now }
    }),
  )

/** Starts in each of the benchmark's rounds. A command starts quickly, so one start would not be enough. */
const startsInRound = 4

export const start = Effect.fnUntraced(function* (options: Options) {
  const { directory, rounds } = options
  const relay = options.command.length === 1 ? (options.command[0] ?? "") : relayBinary()
  const [source, empty] = [join(directory, "empty.ts"), join(directory, "empty")]
  writeFileSync(source, "export {}\n")
  compile(source, empty)
  const commands = {
    "an empty program": [empty],
    "relay --version": [relay, "--version"],
    "relay --help": [relay, "--help"],
    "relay status --help": [relay, "status", "--help"],
  }
  const found = new Map<string, Array<Started>>()
  const note = (name: string, started: Started) => found.set(name, [...(found.get(name) ?? []), started])
  for (let round = 1; round <= rounds; round++) {
    for (let times = 0; times < startsInRound; times++) {
      for (const [name, command] of Object.entries(commands)) note(name, yield* ended(command))
    }
    note("relay run, until ready", yield* ready({ directory, command: [relay] }, `start ${round}`))
    process.stderr.write(`${round} `)
  }
  const of = (name: string, field: keyof Started) => (found.get(name) ?? []).flatMap((started) => started[field] ?? [])
  const shown = (name: string, field: keyof Started) => {
    const values = of(name, field)
    return values.length === 0 ? "" : Report.show(Rounds.spread(values), 0)
  }
  const size = (path: string) => (statSync(path).size / 1e6).toFixed(1)
  yield* Console.log(
    Report.titled(`A start; the binary has ${size(relay)} MB, an empty program ${size(empty)} MB`, [
      ["median [min..max]", "CPU ms", "ms", "MiB 3 s later"],
      ...[...found.keys()].map((name) => [name, shown(name, "cpu"), shown(name, "time"), shown(name, "memory")]),
    ]),
  )
  const least = of("an empty program", "cpu")
  const more = Rounds.spread(of("relay --help", "cpu").map((cpu, index) => cpu - (least[index] ?? Number.NaN)))
  return [
    {
      requirement: "relay --help: CPU more than an empty program ≤ 30 ms",
      measured: `${Report.show(more, 1)} ms`,
      ok: more.median <= 30,
    },
  ]
})
