/**
 * SIGTERM under load: the relay refuses new deliveries, ends those in progress and exits with 0 within 25 seconds, even
 * if a sink never answers. Every 202 is delivered, or pending at the next start.
 */
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line } from "../Line.ts"
import { Subject } from "./Subject.ts"
import { type Answer, Ends } from "./Traffic.ts"

const rounds = { long: 50, normal: 4 }
const limit = 25_000

const slow: Answer = async () => {
  await Bun.sleep(200)
  return new Response(null, { status: 204 })
}
const hanging: Answer = () => new Promise<Response>(() => {})

export const stop: Line = {
  name: "sigterm",
  fault: "asked to stop under load",
  run: async (options) => {
    const random = seeded(options.seed)
    const ends = new Ends()
    const subject = await Subject.make(options, { sinks: ends.sinks, delivery: { timeout: "1 minute" } })
    const { sender } = subject
    const broken: Array<string> = []
    let [longest, duplicates, bound] = [0, 0, 0]
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 1; round <= count && !isEnough(options, broken.length); round++) {
      ends.late.answer = round % 4 === 0 ? hanging : slow
      const relay = await subject.start()
      bound = (await subject.metric("relay_duplicate_bound_events")).get("live") ?? 0
      let over = false
      const loading = sender.load(() => over)
      await Bun.sleep(300 + random() * 700)
      const began = performance.now()
      relay.signal("SIGTERM")
      const exit = await Promise.race([relay.exited, Bun.sleep(limit)])
      longest = Math.max(longest, performance.now() - began)
      over = true
      if (exit === undefined) await relay.kill("SIGKILL")
      await loading
      if (exit !== 0) broken.push(exit === undefined ? "it had not ended after 25 seconds" : `it ended with ${exit}`)
      const before = ends.live.times
      ends.live.times = new Map()
      ends.open()
      const next = await subject.start()
      if (!(await subject.drained())) broken.push(`round ${round}: the backlog did not drain within a minute`)
      await next.kill()
      duplicates = Math.max(duplicates, [...ends.live.times.keys()].filter((number) => before.has(number)).length)
      ends.live.times = new Map([...before, ...ends.live.times])
    }
    if (sender.unspecific > 0) broken.push(`${sender.unspecific} answers of 503 had no Retry-After`)
    const lost = ends.lost(sender).length
    broken.push(...ends.altered)
    await ends.close()
    if (lost + broken.length === 0) subject.remove()
    const notes = [`the longest stop took ${(longest / 1_000).toFixed(1)} s`]
    return { rounds: count, acknowledged: sender.acknowledged.size, lost, duplicates, bound, broken, notes }
  },
}
