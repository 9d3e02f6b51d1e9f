/**
 * A sink is unavailable, for ten minutes in a long run, at 200 events a second. Every event is kept, and the sink has
 * them all within five minutes after its return. The relay has not grown beyond its memory at full speed, and the other
 * sink has not noticed.
 *
 * The other sink is judged by its best window: its lowest p99 while the sink is away, against its lowest p99 while the
 * sink is there, in turn. On a shared machine noise only ever adds, so the best window shows the relay itself. The
 * medians are printed too.
 */
import { Effect } from "effect"
import type { Line, Options, Outcome } from "../Line.ts"
import { memory, Subject, skipped } from "../relay/Subject.ts"
import { bodyOf, numberOf, Receiver, type Sender } from "../relay/Traffic.ts"
import { p99 } from "./Trial.ts"

const rate = 200
/** Seconds. `away` is split into windows of `window`, and the whole is repeated `turns` times. */
const times = {
  long: { window: 10, there: 120, away: 600, turns: 1, drain: 300 },
  normal: { window: 4, there: 4, away: 4, turns: 2, drain: 60 },
}
/** Events sent at full speed before memory is measured. */
const warmth = 20_000
/** MiB, share, and milliseconds of noise that even the best window has. */
const limits = { growth: 64, share: 1.2, noise: 10 }

interface Away {
  readonly config: object
  readonly leave: () => Promise<void>
  readonly comeBack: () => Promise<void>
  /** Returns the number of acknowledged events that are missing, and the number that came altered. */
  readonly account: (sender: Sender) => Promise<{ readonly missing: number; readonly altered: number }>
  readonly close: () => Promise<void>
}

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

const run = async (away: Away, options: Options): Promise<Outcome> => {
  const { window, there, away: gone, turns, drain } = options.long ? times.long : times.normal
  const other = new Receiver()
  const sinks = { other: { type: "http", url: other.url }, away: away.config }
  const subject = await Subject.make(options, { sinks })
  const { sender } = subject
  const lags: Array<number> = []
  other.onArrival = ({ number, at }) => lags.push(at - (sender.sentAt.get(number) ?? at))
  const relay = await subject.start()
  const broken: Array<string> = []

  const windows = async (seconds: number): Promise<ReadonlyArray<number>> => {
    const found: Array<number> = []
    for (let passed = 0; passed < seconds; passed += window) {
      lags.length = 0
      await sender.paced(rate, window)
      if (!(await subject.drained(10, ["other"]))) broken.push("the other sink did not get everything meanwhile")
      found.push(p99(lags))
    }
    return found
  }

  // Memory for the warm-up isn't growth, and neither is memory for full speed, at which the relay will drain.
  await windows(window)
  await sender.burst(warmth)
  await subject.drained(drain)
  const before = memory(relay.pid)
  const [present, absent]: [Array<number>, Array<number>] = [[], []]
  let [longest, kept, peak] = [0, 0, before]
  for (let turn = 0; turn < turns; turn++) {
    present.push(...(await windows(there)))
    await away.leave()
    absent.push(...(await windows(gone)))
    peak = Math.max(peak, memory(relay.pid))
    kept = Math.max(kept, (await subject.metric("relay_lane_backlog_events")).get("away") ?? 0)
    await away.comeBack()
    const began = performance.now()
    const drained = await subject.drained(drain)
    longest = Math.max(longest, performance.now() - began)
    peak = Math.max(peak, memory(relay.pid))
    if (!drained) {
      broken.push(`what was kept had not drained after ${drain} seconds`)
      break
    }
  }
  const refused = [...sender.refused].map(([status, count]) => `${count} times ${status}`)
  if (refused.length > 0) broken.push(`senders were answered ${refused.join(", ")}`)
  if (kept === 0) broken.push("nothing waited for it: the line proves nothing")
  if (peak - before > limits.growth) broken.push(`it grew by ${(peak - before).toFixed(0)} MiB`)
  const best = { there: Math.min(...present), away: Math.min(...absent) }
  if (best.away > best.there * limits.share + limits.noise) {
    broken.push(`the other sink's p99 went from ${best.there.toFixed(1)} to ${best.away.toFixed(1)} ms`)
  }
  const { missing, altered } = await away.account(sender)
  if (altered + other.altered > 0) broken.push(`${altered + other.altered} deliveries were altered`)
  const lost = missing + other.missing(sender.acknowledged).length
  await relay.kill("SIGKILL")
  await other.goAway()
  await away.close()
  if (lost + broken.length === 0) subject.remove()
  const ms = (value: number) => `${value.toFixed(1)} ms`
  const notes = [
    `${kept} kept, drained in ${(longest / 1_000).toFixed(1)} s; memory ${before.toFixed(0)} to ${peak.toFixed(0)} MiB at most`,
    `the other sink's p99: best window ${ms(best.there)} before, ${ms(best.away)} with it away; medians ${ms(median(present))} and ${ms(median(absent))}`,
  ]
  return { rounds: turns, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
}

export const receiverAway: Line = {
  name: "sink-away",
  fault: "an HTTP receiver is away",
  run: async (options) => {
    const receiver = new Receiver()
    const away: Away = {
      config: { type: "http", url: receiver.url },
      leave: () => receiver.goAway(),
      comeBack: async () => receiver.comeBack(),
      account: async (sender) => ({
        missing: receiver.missing(sender.acknowledged).length,
        altered: receiver.altered,
      }),
      close: () => receiver.goAway(),
    }
    return run(away, options)
  },
}

export const brokerAway: Line = {
  name: "broker-away",
  fault: "a Kafka broker is killed and away",
  run: async (options) => {
    // The Kafka client is loaded only here, so that the other lines start without it.
    const [{ makeBroker, reasonToSkip }, { follow, makeTopic, sizeOf }] = await Promise.all([
      import("../../parts/Kafka.ts"),
      import("../../parts/Topics.ts"),
    ])
    const reason = reasonToSkip()
    if (reason !== undefined) return skipped(reason.replaceAll("bun test", "bun run faults"))
    const broker = await makeBroker()
    await broker.start()
    const topic = await makeTopic(broker.plain, 3)
    const away: Away = {
      config: { type: "kafka", brokers: [broker.plain], topic },
      leave: () => broker.kill(),
      comeBack: () => broker.start(),
      account: async (sender) => {
        const size = await sizeOf(broker.plain, topic)
        const records = await Effect.runPromise(
          Effect.scoped(
            Effect.flatMap(follow(broker.plain, [topic]), (received) => Effect.promise(() => received(size))),
          ),
        )
        const bodies = records.map(({ value }) => value.toString())
        const numbers = new Set(bodies.map((body) => numberOf(JSON.parse(body).id)))
        return {
          missing: [...sender.acknowledged].filter((number) => !numbers.has(number)).length,
          altered: bodies.filter((body) => body !== bodyOf(numberOf(JSON.parse(body).id))).length,
        }
      },
      close: () => broker.stop(),
    }
    return run(away, options)
  },
}
