/**
 * kill -9 under load, round after round, over one journal.
 *
 * Every 202 must have reached both sinks in the end, and no round may repeat more deliveries than the bound that the
 * relay itself exported.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { seeded } from "../../lib/seeded.ts"
import type { Line } from "../Line.ts"
import { Subject } from "./Subject.ts"
import { numberOf, Receiver } from "./Traffic.ts"

/** Rounds of a normal run. A long run continues until `many` events are acknowledged. */
const rounds = 10
const many = 1_000_000

/** The events of a file sink; a long run's file is larger than a string may be. */
const inFile = (file: string): Set<number> => {
  const bytes = readFileSync(file)
  const numbers = new Set<number>()
  for (let start = 0, end = bytes.indexOf(10); end !== -1; start = end + 1, end = bytes.indexOf(10, start)) {
    numbers.add(numberOf(JSON.parse(bytes.toString("utf8", start, end)).id))
  }
  return numbers
}

export const kill: Line = {
  name: "kill-9",
  fault: "killed under load, over and over",
  run: async (options) => {
    const random = seeded(options.seed)
    const receiver = new Receiver()
    const file = "events.ndjson"
    const subject = await Subject.make(options, {
      sinks: { file: { type: "file", path: file }, http: { type: "http", url: receiver.url } },
    })
    const { sender } = subject
    const broken: Array<string> = []
    let worst = 0
    let bound = 0
    let round = 0
    const enough = () => (options.long ? sender.acknowledged.size >= many : round >= rounds)
    while (!enough()) {
      round += 1
      const relay = await subject.start()
      bound = (await subject.metric("relay_duplicate_bound_events")).get("http") ?? 0
      let dead = false
      const loading = sender.load(() => dead)
      await Bun.sleep(options.long ? 2_000 + random() * 8_000 : 300 + random() * 700)
      await relay.kill("SIGKILL")
      dead = true
      await loading
      // The deliveries that the next start repeats are the cost of the crash.
      const before = receiver.times
      const again = new Map<number, number>()
      receiver.times = again
      const next = await subject.start()
      if (!(await subject.drained())) broken.push(`round ${round}: the backlog did not drain within a minute`)
      await next.kill("SIGKILL")
      let repeated = 0
      for (const [number, times] of again) {
        if (before.has(number)) repeated += 1
        before.set(number, (before.get(number) ?? 0) + times)
      }
      receiver.times = before
      worst = Math.max(worst, repeated)
    }
    const kept = inFile(join(subject.directory, file))
    const lost = [...sender.acknowledged].filter((number) => !kept.has(number) || !receiver.times.has(number))
    if (receiver.altered > 0) broken.push(`${receiver.altered} deliveries were altered`)
    await receiver.goAway()
    if (lost.length + broken.length === 0) subject.remove()
    return {
      rounds: round,
      acknowledged: sender.acknowledged.size,
      lost: lost.length,
      duplicates: worst,
      bound,
      broken,
    }
  },
}
