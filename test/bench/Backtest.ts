/** Measures how fast a relay responds while `relay backtest` reads its journal. */
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Fill from "./Fill.ts"
import * as Paced from "./Paced.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import type { Options } from "./Saturate.ts"
import * as Target from "./Target.ts"
import { atMost, complete } from "./Verdicts.ts"

/** Enough for a comparison to last longer than a round. */
const kept = 300_000
/** Events a second. */
const rate = 500

const relay = Effect.fnUntraced(function* (setup: Target.Setup, name: string) {
  const path = Target.journalPath(Target.relayDirectory(setup, name))
  yield* Fill.run(path, { events: kept, lane: "file", isDelivered: true })
  return yield* Target.relayToFile(setup, name, undefined, { type: "sqlite", path, maxSize: "1 TiB" })
})

/** Compares the running config with a copy of it, again and again. */
const comparing = Effect.fnUntraced(function* (setup: Target.Setup, name: string) {
  const running = Target.configFile(setup, name)
  const copy = join(Target.relayDirectory(setup, name), "copy.config.json")
  copyFileSync(running, copy)
  const command = [...setup.command, "backtest", "-c", copy, "--against", running, "--since", "7d"]
  return yield* Effect.forever(compare(command))
})

const compare = Effect.fnUntraced(function* (command: ReadonlyArray<string>) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => Bun.spawn([...command], { stdin: "ignore", stdout: "ignore", stderr: "pipe" })),
    (child) =>
      Effect.promise(() => {
        child.kill()
        return child.exited
      }),
  )
  const status = yield* Effect.promise(() => child.exited)
  if (status === 0) return
  const why = yield* Effect.promise(() => new Response(child.stderr).text())
  return yield* new BenchError({ message: `relay backtest ended with ${status}: ${why}` })
}, Effect.scoped)

export const backtest = Effect.fnUntraced(function* (options: Options) {
  const targets = { alone: yield* relay(options, "alone"), beside: yield* relay(options, "beside a backtest") }
  const drive: Rounds.Drive = (target) => {
    const load = Paced.paced(target.port, { rate, seconds: options.seconds })
    return target === targets.beside ? Effect.raceFirst(load, comparing(options, target.name)) : load
  }
  const { alone, beside } = yield* Rounds.interleaved(targets, options.rounds, Effect.void, drive)
  const title = `With and without a backtest of ${kept.toLocaleString("en")} events, at ${rate} events/s`
  process.stdout.write(Report.scenario(title, [alone, beside], [alone]))
  return [
    atMost("beside a backtest: p99 of the response of one that is alone", 1.2, Rounds.ratio(beside, alone, "p99")),
    ...[alone, beside].map((subject) => complete(subject, false)),
  ]
})
