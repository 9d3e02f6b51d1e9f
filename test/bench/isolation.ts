/**
 * `bun run isolation`: two of four sinks are down for a minute, at 1,000 events a second. The other sinks
 * must not be delayed. Once all sinks are up, every event must arrive, and in the order of its key at a sink
 * with `order: "key"`. Lag is the time between the moment a delivery was due at the sender and its arrival at the sink.
 * The program exits with 1 if a requirement is missed.
 *
 *   --quick          ten seconds instead of seventy-five
 *   --senders        two senders at one relay, and then one of them with forged deliveries (`Senders.ts`)
 *   --down HOW       refuse (default: nothing listens), hang (never answers), fail (answers 500)
 *   --binary PATH    the compiled relay instead of src/main.ts
 */
import { Console, Duration, Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Paced from "./Paced.ts"
import * as Program from "./Program.ts"
import type * as Report from "./Report.ts"
import * as Senders from "./Senders.ts"
import * as Sink from "./Sink.ts"
import * as Target from "./Target.ts"

const rate = 1000

const isolation = Effect.gen(function* () {
  const flags = yield* Program.flags({
    quick: { type: "boolean", default: false },
    senders: { type: "boolean", default: false },
    down: { type: "string", default: "refuse" },
    binary: { type: "string" },
  })
  const trouble = Sink.troubles.find((each) => each === flags.down)
  if (trouble === undefined) {
    return yield* new BenchError({ message: `--down takes one of ${Sink.troubles.join(", ")}, not ${flags.down}` })
  }
  const setup = { directory: yield* Program.onDisk, command: Program.relayCommand(flags.binary) }
  if (flags.senders) return yield* Senders.senders(setup, flags.quick ? 4 : 30)
  const seconds = flags.quick ? { down: 6, after: 3 } : { down: 60, after: 15 }
  const total = rate * (seconds.down + seconds.after)

  const up = [yield* Sink.open("up", false), yield* Sink.open("up, in order", true)]
  const down = [yield* Sink.open("down", false), yield* Sink.open("down, in order", true)]
  const sinks = [...up, ...down]
  const name = (sink: Sink.Sink) => sink.name.replaceAll(/[^a-z]+/g, "-")
  const relay = yield* Target.relay(setup, "relay", {
    sinks: Object.fromEntries(sinks.map((sink) => [name(sink), sink.config])),
    routes: [{ name: "everything", match: "**", to: sinks.map(name) }],
    // The relay should notice a recovered sink soon. The default waits up to ten minutes.
    delivery: { timeout: "2 seconds", retry: { initial: "250 millis", max: "2 seconds" } },
  })
  yield* Console.log(
    `${Program.machine}; ${rate} events/s, two sinks down (${trouble}) for ${seconds.down} s, load goes on for ${seconds.after} s after`,
  )
  yield* Effect.promise(() => Promise.all(down.map((sink) => sink.goDown(trouble))))
  const comeBack = Effect.sync(() => {
    for (const sink of down) sink.comeBack()
  })
  const [load] = yield* Effect.all(
    [
      Paced.paced(relay.port, { rate, seconds: seconds.down + seconds.after }),
      Effect.delay(comeBack, Duration.seconds(seconds.down)),
    ],
    { concurrency: "unbounded" },
  )
  const back = performance.now()
  const everywhere = Effect.sync(() => Math.min(...sinks.map((sink) => sink.arrived)))
  yield* Target.awaitDelivered({ ...relay, delivered: everywhere }, total)
  const caughtUp = ((performance.now() - back) / 1000).toFixed(1)
  yield* Console.log(`caught up ${caughtUp} s after the load ended; ingest p99 ${load.p99.toFixed(1)} ms`)

  if (load.refused > 0) yield* Console.log(`\nthe end of the relay's log:\n${yield* relay.log}`)

  const accepted: Report.Verdict = {
    requirement: "every delivery is accepted",
    measured: `${load.requests} sent, ${load.refused} refused`,
    ok: load.refused === 0,
  }
  return [accepted, ...sinks.flatMap((sink) => verdicts(sink, total, up.includes(sink)))]
})

const verdicts = (sink: Sink.Sink, total: number, isUp: boolean): ReadonlyArray<Report.Verdict> => {
  const { count, surplus, disordered, lags } = sink.of("scheduling")
  const arrived: Report.Verdict = {
    requirement: `${sink.name}: everything arrives`,
    measured: `${count} of ${total}, ${surplus} more than once`,
    ok: count === total,
  }
  const inOrder: Report.Verdict = {
    requirement: `${sink.name}: in the order of its key`,
    measured: `${disordered} after a later one`,
    ok: disordered === 0,
  }
  return [...(isUp ? [Sink.onTime(sink.name, lags)] : []), arrived, ...(sink.ordered ? [inOrder] : [])]
}

Program.main(isolation)
