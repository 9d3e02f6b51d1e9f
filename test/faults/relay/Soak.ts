/**
 * A thousand events a second, for an hour in a long run: does memory creep, do
 * descriptors leak, does the write-ahead log grow?
 */
import type { Line } from "../Line.ts"
import { memory, openFiles, Subject } from "./Subject.ts"
import { Receiver } from "./Traffic.ts"

const rate = 1_000
/** Seconds; the first share of it is warm-up, and a slope of a minute is noise. */
const lasting = { long: 3_600, normal: 25 }
const warmUp = 1 / 3
const limits = { mebibytesAnHour: 32, descriptorsAnHour: 16, log: 64 }
const mebibyte = 1024 * 1024

interface Sample {
  /** Seconds since the start. */
  readonly at: number
  readonly memory: number
  readonly files: number
  readonly log: number
}

/** By least squares, in units an hour. */
const slope = (points: ReadonlyArray<readonly [seconds: number, value: number]>): number => {
  const mean = (index: 0 | 1) => points.reduce((sum, point) => sum + point[index], 0) / points.length
  const [x, y] = [mean(0), mean(1)]
  const over = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0)
  return (points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / over) * 3_600
}

export const soak: Line = {
  name: "soak",
  fault: "1,000 events a second, on and on",
  run: async (options) => {
    const seconds = options.long ? lasting.long : lasting.normal
    const receiver = new Receiver()
    const subject = await Subject.make(options, {
      sinks: { http: { type: "http", url: receiver.url } },
    })
    const { sender } = subject
    const relay = await subject.start()
    const samples: Array<Sample> = []
    const began = performance.now()
    const sampling = setInterval(() => {
      const at = (performance.now() - began) / 1_000
      const now = { memory: memory(relay.pid), files: openFiles(relay.pid) }
      void subject.status().then(
        ({ journal }) => samples.push({ at, ...now, log: (journal.walBytes ?? 0) / mebibyte }),
        () => {},
      )
    }, 1_000)
    await sender.paced(rate, seconds)
    clearInterval(sampling)
    const broken: Array<string> = []
    if (!(await subject.drained())) broken.push("the backlog did not drain within a minute")
    const refused = [...sender.refused].map(([status, times]) => `${times} times ${status}`)
    if (refused.length > 0) broken.push(`senders were answered ${refused.join(", ")}`)
    const warm = samples.filter(({ at }) => at > seconds * warmUp)
    const creep = slope(warm.map(({ at, memory }) => [at, memory] as const))
    // Connections come and go by the dozen, so only a slope shows a leak.
    const leak = slope(warm.map(({ at, files }) => [at, files] as const))
    const log = Math.max(...samples.map(({ log }) => log))
    if (options.long && creep > limits.mebibytesAnHour) broken.push(`memory grew by ${creep.toFixed(0)} MiB an hour`)
    if (options.long && leak > limits.descriptorsAnHour) broken.push(`descriptors grew by ${leak.toFixed(0)} an hour`)
    if (log > limits.log) broken.push(`the write-ahead log grew to ${log.toFixed(0)} MiB`)
    const { usedBytes } = (await subject.status()).journal
    await relay.kill()
    await receiver.goAway()
    if (receiver.altered > 0) broken.push(`${receiver.altered} deliveries were altered`)
    const lost = receiver.missing(sender.acknowledged).length
    if (lost + broken.length === 0) subject.remove()
    const [first, last] = [warm[0]?.memory ?? 0, warm.at(-1)?.memory ?? 0]
    const notes = [
      `memory ${first.toFixed(0)} to ${last.toFixed(0)} MiB after warm-up, ${creep.toFixed(0)} MiB an hour${options.long ? "" : " (a slope of seconds: noise)"}`,
      `descriptors ${Math.max(...warm.map((one) => one.files))} at most${options.long ? `, ${leak.toFixed(0)} more an hour` : ""}; log ${log.toFixed(0)} MiB at most; journal ${(usedBytes / mebibyte).toFixed(0)} MiB`,
    ]
    return { rounds: 1, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
