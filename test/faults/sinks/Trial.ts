/**
 * A sink misbehaves beside a healthy sink. Meanwhile every event is accepted and reaches the healthy sink. When the
 * sink behaves again, it gets all events that were kept for it.
 */
import type { Line, Options, Outcome } from "../Line.ts"
import { memory, Subject } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"

const rate = 200
const seconds = { long: 60, normal: 4 }
/** MiB that a relay may grow by, whatever a sink does to it. */
const growth = 64

export interface Trial {
  readonly name: string
  readonly fault: string
  /** Keys of the sink's config beside its URL. */
  readonly config?: object
  readonly receiver?: () => Receiver
  readonly misbehave: (bad: Receiver) => void | Promise<void>
  readonly behave: (bad: Receiver) => void | Promise<void>
  /** Further conditions while it misbehaves. Returns a sentence for each violation. */
  readonly meanwhile?: (state: State) => ReadonlyArray<string> | Promise<ReadonlyArray<string>>
  /** Events that must become dead letters instead. */
  readonly dead?: (number: number) => boolean
}

export interface State {
  readonly subject: Subject
  readonly bad: Receiver
  readonly sent: number
  /** For how long it has misbehaved, in seconds. */
  readonly seconds: number
}

export const p99 = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(0.99 * (sorted.length - 1))] ?? Number.NaN
}

const run = async (trial: Trial, options: Options): Promise<Outcome> => {
  const { dead = () => false } = trial
  const good = new Receiver()
  const bad = trial.receiver?.() ?? new Receiver()
  const subject = await Subject.make(options, {
    sinks: { good: { type: "http", url: good.url }, bad: { type: "http", url: bad.url, ...trial.config } },
    delivery: { timeout: "1 second" },
  })
  const { sender } = subject
  const broken: Array<string> = []
  const lags: Array<number> = []
  good.onArrival = ({ number, at }) => lags.push(at - (sender.sentAt.get(number) ?? at))
  const relay = await subject.start()
  await sender.burst(100)
  await subject.drained(10)
  lags.length = 0
  const before = memory(relay.pid)
  await trial.misbehave(bad)
  const began = performance.now()
  let peak = before
  const watching = setInterval(() => {
    peak = Math.max(peak, memory(relay.pid))
  }, 100)
  await sender.paced(rate, options.long ? seconds.long : seconds.normal)
  if (!(await subject.drained(10, ["good"]))) broken.push("the other sink did not get everything meanwhile")
  clearInterval(watching)
  const lag = p99(lags)
  const state = { subject, bad, sent: sender.next, seconds: (performance.now() - began) / 1_000 }
  broken.push(...((await trial.meanwhile?.(state)) ?? []))
  await trial.behave(bad)
  if (!(await subject.drained(60))) broken.push("what was kept did not drain within a minute")
  const letters = new Set(await subject.deadLetters("bad"))
  const strayed = [...letters].filter((id) => !dead(Number(id.slice("evt_".length)))).length
  if (strayed > 0) broken.push(`${strayed} events became dead letters without a reason`)
  const refused = [...sender.refused].map(([status, times]) => `${times} times ${status}`)
  if (refused.length > 0) broken.push(`senders were answered ${refused.join(", ")}`)
  if (peak - before > growth) broken.push(`it grew by ${(peak - before).toFixed(0)} MiB`)
  const altered = good.altered + bad.altered
  if (altered > 0) broken.push(`${altered} deliveries were altered`)
  await relay.kill("SIGKILL")
  const missing = [...sender.acknowledged].filter(
    (number) => !good.times.has(number) || !(bad.times.has(number) || letters.has(`evt_${number}`)),
  )
  await Promise.all([good.goAway(), bad.goAway()])
  if (missing.length + broken.length === 0) subject.remove()
  const notes = [`the other sink's p99 ${lag.toFixed(0)} ms; memory +${(peak - before).toFixed(0)} MiB`]
  return { rounds: 1, acknowledged: sender.acknowledged.size, lost: missing.length, duplicates: 0, broken, notes }
}

export const line = (trial: Trial): Line => ({
  name: trial.name,
  fault: trial.fault,
  run: (options) => run(trial, options),
})
