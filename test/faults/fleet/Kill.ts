/**
 * One of three relays is killed under load, over and over, with sinks that work and with sinks that fail now and then.
 * The other relays deliver the events that it had acknowledged.
 */
import { seeded } from "../../lib/seeded.ts"
import type { Line } from "../Line.ts"
import { names, over, seconds, underLoad } from "./Relays.ts"

const rounds = { normal: 2, long: 100 }
const many = 1_000_000
/** Milliseconds that a takeover may take. If sinks fail now and then, this includes the arrival of retried events. */
const limit = { sound: 10_000, flaky: 20_000 }

export const kill: Line = {
  name: "fleet-kill",
  fault: "one of three relays killed under load",
  run: over(async (relays, options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    let [worst, bound, longest, round] = [0, 0, 0, 0]
    let starting: Promise<unknown> = Promise.resolve()
    const isEnough = () => (options.long ? round >= rounds.long && relays.acknowledged >= many : round >= rounds.normal)
    while (!isEnough()) {
      round += 1
      const running = names.filter((name) => relays.running.has(name))
      const victim = running[Math.floor(random() * running.length)] ?? "a"
      const before = relays.repeated
      const isFlaky = round % 2 === 0
      relays.fails = () => isFlaky && random() < 0.1
      await underLoad(relays, async () => {
        await Bun.sleep(500 + random() * 1_500)
        await relays.slowDown(victim)
        bound = Math.max(bound, await relays.bound(victim))
        await relays.kill(victim)
        relays.speedUp()
        const took = await relays.takenOver(victim, 30)
        if (took === undefined) broken.push(`round ${round}: what ${victim} had acknowledged did not come within 30 s`)
        else if (took > limit[isFlaky ? "flaky" : "sound"])
          broken.push(`round ${round}: a takeover took ${seconds(took)}`)
        else longest = Math.max(longest, took)
        // The next is killed while this one comes back.
        await starting
        if (!isEnough()) starting = relays.start(victim)
      })
      if (!(await relays.arrived(60))) broken.push(`round ${round}: not all came within a minute`)
      worst = Math.max(worst, relays.repeated - before)
    }
    await starting
    const notes = [`the longest takeover took ${seconds(longest)}`]
    return { rounds: round, duplicates: worst, bound, broken, notes }
  }),
}
