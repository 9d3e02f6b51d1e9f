/**
 * `bun run isolation`: one sink is down, one is up, at 1,000 events a second
 * for a minute. The sink that is up must not notice; when the other is back,
 * also while events go on coming, everything arrives, and in the order of its
 * key where that was asked for. Lag counts from the moment a delivery was due
 * at the sender to its arrival at the sink. Exits 1 when something is missed.
 *
 *   --quick          ten seconds instead of seventy-five
 *   --down HOW       refuse (default: nothing listens), hang (never answers), fail (answers 500)
 *   --binary PATH    the compiled relay instead of src/main.ts
 */
import { Console, Duration, Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import * as Paced from "./Paced.ts"
import * as Program from "./Program.ts"
import type * as Report from "./Report.ts"
import { accounts, type Stamp } from "./Requests.ts"
import * as Rounds from "./Rounds.ts"
import * as Target from "./Target.ts"

const rate = 1000
/** Milliseconds. */
const maxLag = 1000

const troubles = ["refuse", "hang", "fail"] as const
type Trouble = (typeof troubles)[number]

/** An HTTP sink that remembers what came when. */
class Sink {
  readonly lags: Array<number> = []
  arrived = 0
  surplus = 0
  /** Events that came after a later one of their account. */
  disordered = 0
  readonly name: string
  readonly ordered: boolean
  readonly #seen = new Set<number>()
  readonly #last = new Int32Array(accounts).fill(-1)
  #trouble: Trouble | undefined
  #server: Bun.Server<undefined>
  readonly #port: number

  constructor(name: string, ordered: boolean) {
    this.name = name
    this.ordered = ordered
    this.#server = this.#listen(0)
    // A server that was stopped no longer knows it.
    this.#port = this.#server.port ?? 0
  }

  get config() {
    const url = `http://127.0.0.1:${this.#port}/`
    return { type: "http", url, order: this.ordered ? "key" : "none", key: "{{account_id}}" }
  }

  async goDown(trouble: Trouble): Promise<void> {
    this.#trouble = trouble
    if (trouble === "refuse") await this.#server.stop(true)
  }

  comeBack(): void {
    if (this.#trouble === "refuse") this.#server = this.#listen(this.#port)
    this.#trouble = undefined
  }

  close(): Promise<void> {
    return this.#server.stop(true)
  }

  #listen(port: number): Bun.Server<undefined> {
    return Bun.serve({ hostname: "127.0.0.1", port, idleTimeout: 0, fetch: (request) => this.#take(request) })
  }

  async #take(request: Request): Promise<Response> {
    if (this.#trouble === "hang") return new Promise(() => {})
    if (this.#trouble === "fail") return new Response(null, { status: 500 })
    const { data } = (await request.json()) as { data: { object: { stamp: Stamp } } }
    const { number, sentAt } = data.object.stamp
    const account = number % accounts
    if (this.#seen.has(number)) {
      this.surplus += 1
      return new Response()
    }
    this.#seen.add(number)
    this.arrived += 1
    this.lags.push(Date.now() - sentAt)
    if (number < (this.#last[account] ?? -1)) this.disordered += 1
    this.#last[account] = number
    return new Response()
  }
}

const sink = (name: string, ordered: boolean) =>
  Effect.acquireRelease(
    Effect.sync(() => new Sink(name, ordered)),
    (sink) => Effect.promise(() => sink.close()),
  )

const lag = (sink: Sink): string => {
  const sorted = sink.lags.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`
}

const isolation = Effect.gen(function* () {
  const flags = yield* Program.flags({
    quick: { type: "boolean", default: false },
    down: { type: "string", default: "refuse" },
    binary: { type: "string" },
  })
  const trouble = troubles.find((each) => each === flags.down)
  if (trouble === undefined) {
    return yield* new BenchError({ message: `--down takes one of ${troubles.join(", ")}, not ${flags.down}` })
  }
  const seconds = flags.quick ? { down: 6, after: 3 } : { down: 60, after: 15 }
  const total = rate * (seconds.down + seconds.after)

  const up = [yield* sink("up", false), yield* sink("up, in order", true)]
  const down = [yield* sink("down", false), yield* sink("down, in order", true)]
  const sinks = [...up, ...down]
  const setup = { directory: yield* Program.onDisk, command: Program.relayCommand(flags.binary) }
  const name = (sink: Sink) => sink.name.replaceAll(/[^a-z]+/g, "-")
  const relay = yield* Target.relay(setup, "relay", {
    sinks: Object.fromEntries(sinks.map((sink) => [name(sink), sink.config])),
    routes: [{ name: "everything", match: "**", to: sinks.map(name) }],
    // A sink that is back should be noticed soon: the default waits up to ten minutes.
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

const verdicts = (sink: Sink, total: number, isUp: boolean): ReadonlyArray<Report.Verdict> => {
  const arrived: Report.Verdict = {
    requirement: `${sink.name}: everything arrives`,
    measured: `${sink.arrived} of ${total}, ${sink.surplus} more than once`,
    ok: sink.arrived === total,
  }
  const inOrder: Report.Verdict = {
    requirement: `${sink.name}: in the order of its key`,
    measured: `${sink.disordered} after a later one`,
    ok: sink.disordered === 0,
  }
  const onTime: Report.Verdict = {
    requirement: `${sink.name}: lag stays under a second`,
    measured: lag(sink),
    ok: Rounds.spread(sink.lags).max < maxLag,
  }
  return [...(isUp ? [onTime] : []), arrived, ...(sink.ordered ? [inOrder] : [])]
}

Program.main(isolation)
