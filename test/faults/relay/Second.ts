/**
 * A second relay on the same journal is refused immediately, even if it opens the file by a hard link, and the first
 * relay does not notice. When the first is killed, its lock is released.
 */
import { linkSync, rmSync } from "node:fs"
import { join } from "node:path"
import { freePort } from "../../lib/port.ts"
import { isEnough, type Line } from "../Line.ts"
import { Subject } from "./Subject.ts"
import { Ends } from "./Traffic.ts"

const rounds = { long: 50, normal: 3 }
/** Milliseconds; a start takes a fraction of it. */
const atOnce = 5_000

export const second: Line = {
  name: "second-instance",
  fault: "another relay on the same journal",
  run: async (options) => {
    const ends = new Ends()
    const subject = await Subject.make(options, { sinks: ends.sinks })
    const { sender } = subject
    const listen = `127.0.0.1:${await freePort()}`
    const other = subject.write("other.json", { listen, admin: { listen: `127.0.0.1:${await freePort()}` } })
    const link = join(subject.directory, "link.db")
    const linked = subject.write("linked.json", {
      listen,
      admin: { listen: `127.0.0.1:${await freePort()}` },
      journal: { type: "sqlite", path: link, minFree: "1 MiB" },
    })
    const broken: Array<string> = []
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 0; round < count && !isEnough(options, broken.length); round++) {
      const first = await subject.start()
      let over = false
      const loading = sender.load(() => over, 8)
      await sender.burst(100)
      linkSync(subject.journal, link)
      for (const [config, expected] of [
        [linked, /has 2 names \(hard links\)/],
        [other, /Another relay is running on the journal|has 2 names/],
      ] as const) {
        const began = performance.now()
        const refusal = await subject.start({}, config).then(
          async (relay) => {
            await relay.kill("SIGKILL")
            return "it was not refused"
          },
          (error: unknown) => (expected.test(String(error)) ? "" : String(error)),
        )
        if (refusal !== "") broken.push(`the second: ${refusal}`)
        if (performance.now() - began > atOnce) broken.push("the second took more than five seconds to refuse")
      }
      rmSync(link)
      await sender.burst(100)
      over = true
      await loading
      if (!(await subject.drained())) broken.push("the first did not drain")
      await first.kill("SIGKILL")
    }
    const last = await subject.start()
    const { journal } = await subject.status()
    if (journal.health !== "ok") broken.push(`the journal is ${journal.health}: ${journal.message}`)
    await last.kill()
    const refused = [...sender.refused].map(([status, times]) => `${times} times ${status}`)
    if (refused.length > 0) broken.push(`the first answered ${refused.join(", ")}`)
    const lost = ends.lost(sender).length
    broken.push(...ends.altered)
    await ends.close()
    if (lost + broken.length === 0) subject.remove()
    return { rounds: count, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken }
  },
}
