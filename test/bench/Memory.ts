/** Measures the memory of a relay with each of its usual sinks, during minutes of full load and afterwards. */
import { rmSync } from "node:fs"
import { Duration, Effect, type Scope } from "effect"
import { unavailable } from "../parts/Kafka.ts"
import type { BenchError } from "./BenchError.ts"
import * as Kafka from "./Kafka.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import { type Options, saturate } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { memory } from "./Usage.ts"
import * as Verdicts from "./Verdicts.ts"

/** Seconds of load between two drains: a sink that is slower than ingest has a long backlog by then. */
const stretch = 30
/** How long a relay is left alone before its memory is read: at first, and at the end. */
const rest = Duration.seconds(10)
/**
 * The memory of the host in GiB, as the engine sees it. A usual VM has this much. From 16 GiB on, the engine lets far
 * more garbage pile up.
 */
const host = 8
/** The number of times at which the table shows the memory. */
const moments = 4

interface Measured {
  readonly subject: Rounds.Subject
  /** MiB. */
  readonly idle: number
  /** The highest memory up to each moment. */
  readonly peaks: ReadonlyArray<number>
  readonly settled: number
}

type Make = (name: string) => Effect.Effect<Target.Target, BenchError, Scope.Scope>

const measure = Effect.fnUntraced(function* (options: Options, name: string, make: Make) {
  const target = yield* make(name)
  yield* Effect.sleep(rest)
  const idle = memory(target.pid).now
  const { subject } = yield* saturate(options, { subject: target })
  const peaks = Array.from(
    { length: moments },
    (_, index) => subject.runs[Math.ceil(((index + 1) * options.rounds) / moments) - 1]?.peak ?? Number.NaN,
  )
  yield* Effect.sleep(rest)
  const measured: Measured = { subject, idle, peaks, settled: memory(target.pid).now }
  return measured
}, Effect.scoped)

/** `seconds` of load for each sink, one after the other. */
export const long = Effect.fnUntraced(function* (setup: Options, seconds: number) {
  const options = {
    ...setup,
    command: ["env", `BUN_JSC_forceRAMSize=${host * 1024 ** 3}`, ...setup.command],
    seconds: Math.min(stretch, seconds),
    rounds: Math.ceil(seconds / stretch),
    warmups: 0,
  }
  const makes: Record<string, Make> = {
    file: (name) => Target.relayToFile(options, name),
    http: (name) => Target.relayToHttp(options, name),
  }
  const missing = unavailable()
  if (missing === undefined) {
    const broker = yield* Kafka.broker
    makes.kafka = (name) => Kafka.relay(options, name, broker)
  } else process.stderr.write(`without Kafka: ${missing}\n`)
  const all: Array<Measured> = []
  for (const [name, make] of Object.entries(makes)) {
    all.push(yield* measure(options, name, make))
    rmSync(Target.relayDirectory(options, name), { recursive: true })
  }
  const mebibytes = (value: number) => value.toFixed(0)
  process.stdout.write(
    Report.titled(
      `As much as each can take, for ${options.rounds * options.seconds} s on a host of ${host} GiB; resident memory in MiB`,
      [
        [
          "",
          "events/s",
          "idle",
          ...(all[0]?.peaks.map((_, index) => `peak to ${index + 1}/${moments}`) ?? []),
          "settled",
        ],
        ...all.map(({ subject, idle, peaks, settled }) => [
          subject.target.name,
          Report.brief(Rounds.of(subject, "rate"), 0),
          ...[idle, ...peaks, settled].map(mebibytes),
        ]),
      ],
    ),
  )
  return all.flatMap(({ subject, idle, peaks }) => [
    ...Verdicts.resident(subject.target.name, idle, Math.max(...peaks)),
    Verdicts.complete(subject, true),
  ])
})
