/** One of three relays is stopped while its events wait for a retry. Two seconds later other relays own its streams. */
import { seeded } from "../../lib/seeded.ts"
import type { Line } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { names, over, seconds, underLoad } from "./Relays.ts"

const rounds = { normal: 2, long: 20 }
const limit = 2_000

export const stop: Line = {
  name: "fleet-sigterm",
  fault: "one of three relays stopped under load",
  run: over(async (relays, options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    let [worst, longest, left] = [0, 0, 0]
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 1; round <= count; round++) {
      const victim = names[Math.floor(random() * names.length)] ?? "a"
      const before = relays.repeated
      await underLoad(relays, async () => {
        await Bun.sleep(500 + random() * 1_000)
        relays.answer = (by) => (by === victim ? new Response(null, { status: 500 }) : undefined)
        await Bun.sleep(300)
        const exit = await relays.kill(victim, "SIGTERM")
        if (exit !== 0) broken.push(`round ${round}: ${victim} ended with ${exit}`)
        left += relays.missingOf(victim).length
        const ended = performance.now()
        const unowned = `SELECT 1 FROM stream WHERE owner IS NULL OR owner = '${victim}'`
        const isOwned = await eventually(async () => (await relays.sql(unowned)).length === 0, 10, 50)
        if (!isOwned) broken.push(`round ${round}: nobody took what ${victim} left within ten seconds`)
        longest = Math.max(longest, performance.now() - ended)
        if (!(await relays.arrived(10, victim))) broken.push(`round ${round}: what ${victim} left did not come`)
        relays.speedUp()
        await relays.start(victim)
      })
      if (!(await relays.arrived(30))) broken.push(`round ${round}: not all came within half a minute`)
      worst = Math.max(worst, relays.repeated - before)
    }
    if (longest > limit) broken.push(`it took ${seconds(longest)} until all was owned`)
    if (left === 0) broken.push("nothing was left by those that stopped: this has shown nothing")
    const notes = [`all of it owned again after ${seconds(longest)} at most, ${left} events with it`]
    return { rounds: count, duplicates: worst, bound: 0, broken, notes }
  }),
}
