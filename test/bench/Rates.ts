/** Measures the cost of an event at everyday rates, beside a server that only stores each delivery. */
import { join } from "node:path"
import { Effect } from "effect"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import type { Options } from "./Saturate.ts"
import * as Target from "./Target.ts"
import * as Verdicts from "./Verdicts.ts"

/** Events a second. The highest comes first, so that the engine has compiled the code when the others run. */
const everyday = [5_000, 1_000, 100, 10, 1]
/** A round has at least this many events: the cost of one is their average. */
const leastEvents = 20

/** All rates, each in rounds over the same three servers. */
export const rates = Effect.fnUntraced(function* (options: Options) {
  const targets = {
    durable: yield* Target.server(options, "durable", "durable", join(options.directory, "durable.db")),
    file: yield* Target.relayToFile(options, "file"),
    http: yield* Target.relayToHttp(options, "http"),
  }
  const table: Array<ReadonlyArray<string>> = []
  const verdicts: Array<Report.Verdict> = []
  for (const [index, rate] of everyday.entries()) {
    const pace = { rate, seconds: Math.max(options.seconds, Math.ceil(leastEvents / rate)) }
    const { durable, file, http } = yield* Rounds.interleaved(
      targets,
      options.rounds,
      Effect.void,
      ({ port }) => Paced.paced(port, pace),
      index === 0 ? undefined : 0,
    )
    const row = (subject: Rounds.Subject) => [
      `${rate.toLocaleString("en")} to ${subject.target.name}`,
      Report.brief(Rounds.of(subject, "cpu"), 0),
      subject === durable ? "" : Report.brief(Rounds.ratio(subject, durable, "cpu"), 2),
      Report.brief(Rounds.of(subject, "p50"), 1),
      Report.brief(Rounds.of(subject, "p99"), 1),
    ]
    table.unshift(...[durable, file, http].map(row))
    verdicts.push(...[file, http].map((subject) => Verdicts.complete(subject, false)))
  }
  process.stdout.write(
    Report.titled("What an event costs at everyday rates; medians with their range", [
      ["events/s", "CPU µs an event", "÷ durable", "p50 ms", "p99 ms"],
      ...table,
    ]),
  )
  return verdicts
})
