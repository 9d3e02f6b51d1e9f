/**
 * The wall clock is set by an hour, and by ten years, forward and back, while
 * events wait to be tried again; then the relay starts under that clock.
 *
 * Waits are monotonic, so nothing is late. While wall and monotonic time
 * disagree nothing is given up or deleted by age, and the status says so.
 */
import { isEnough, type Line } from "../Line.ts"
import { Subject, skipped } from "./Subject.ts"
import { reasonToSkip, Shim } from "./shim/Shim.ts"
import { Ends } from "./Traffic.ts"

const hour = 3_600_000
const tenYears = 87_660 * hour
const jumps = [
  ["an hour forward", hour],
  ["an hour back", -hour],
  ["ten years forward", tenYears],
  ["ten years back", -tenYears],
] as const
const longRounds = 40

export const clock: Line = {
  name: "clock",
  fault: "wall clock set by an hour and by ten years",
  run: async (options) => {
    const reason = reasonToSkip()
    if (reason !== undefined) return skipped(reason)
    const broken: Array<string> = []
    let [acknowledged, lost] = [0, 0]
    const rounds = options.long ? longRounds : jumps.length
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      const [what, skew] = jumps[round % jumps.length] ?? jumps[0]
      const say = (problem: string) => broken.push(`${what}: ${problem}`)
      const ends = new Ends()
      const subject = await Subject.make(options, { sinks: ends.sinks })
      const { sender } = subject
      const shim = new Shim(subject.directory, subject.journal)
      // One in ten fails for a while, so that it waits for a retry.
      ends.late.answer = (number) => (number % 10 === 0 ? new Response(null, { status: 500 }) : undefined)
      const relay = await subject.start({ env: shim.env })
      await sender.burst(200)
      await Bun.sleep(300)
      shim.skew(skew)
      await sender.burst(200)
      // Long enough for the failing to be tried again, and for the pruning to come by.
      await Bun.sleep(2_000)
      const { journal } = await subject.status()
      if (!journal.message.includes("The wall clock was set by")) say("the status does not say so")
      if (journal.tail !== 1) say(`events were pruned up to ${journal.tail}`)
      const dead = await subject.deadLetters("late")
      if (dead.length > 0) say(`${dead.length} were given up by age`)
      ends.open()
      if (!(await subject.drained(15))) say("retries that are due did not come")
      // The next start knows no other clock: a retry is due within its delay all the same.
      ends.shut()
      await sender.burst(20)
      await Bun.sleep(500)
      await relay.kill("SIGKILL")
      shim.skew(0)
      const next = await subject.start({ env: shim.env })
      ends.open()
      if (!(await subject.drained(15))) say("what was retrying before the clock was right again did not come")
      await next.kill()
      shim.close()
      acknowledged += sender.acknowledged.size
      lost += ends.lost(sender).length
      broken.push(...ends.altered)
      await ends.close()
      if (lost + broken.length === 0) subject.remove()
    }
    return { rounds, acknowledged, lost, duplicates: 0, broken }
  },
}
