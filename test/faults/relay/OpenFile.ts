/**
 * The journal's files are deleted, or replaced by a copy of themselves, while the relay writes to them. Later writes go
 * nowhere. The relay must exit before it acknowledges any of them, and name the lost events when it starts again.
 */
import { copyFileSync, renameSync, rmSync } from "node:fs"
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line } from "../Line.ts"
import { named, size } from "./Named.ts"
import { Subject } from "./Subject.ts"
import { Ends } from "./Traffic.ts"

const longRounds = 80
/** Answers that were on their way when the file went, in milliseconds. */
const underWay = 500

const replace = (file: string): void => {
  copyFileSync(file, `${file}-copy`)
  renameSync(`${file}-copy`, file)
}

const harms = [
  ["the file deleted", (journal: string) => rmSync(journal)],
  ["the log deleted", (journal: string) => rmSync(`${journal}-wal`)],
  ["the file replaced", (journal: string) => replace(journal)],
  ["the log replaced", (journal: string) => replace(`${journal}-wal`)],
] as const

export const openFile: Line = {
  name: "file-taken-away",
  fault: "journal deleted or replaced while open",
  run: async (options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    let [acknowledged, lost, told] = [0, 0, 0]
    const rounds = options.long ? longRounds : harms.length
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      const [what, harm] = harms[round % harms.length] ?? harms[0]
      const say = (problem: string) => broken.push(`${what}: ${problem}`)
      const ends = new Ends()
      const subject = await Subject.make(options, { sinks: ends.sinks })
      const { sender } = subject
      ends.shut()
      const relay = await subject.start()
      let over = false
      const loading = sender.load(() => over)
      await Bun.sleep(300 + random() * 700)
      harm(subject.journal)
      await Bun.sleep(underWay)
      const before = sender.acknowledged.size
      const exit = await Promise.race([relay.exited, Bun.sleep(5_000)])
      over = true
      if (exit === undefined) await relay.kill("SIGKILL")
      await loading
      if (exit !== 74) say(exit === undefined ? "the relay went on" : `the relay ended with ${exit}`)
      if (sender.acknowledged.size > before) say(`${sender.acknowledged.size - before} were acknowledged after it`)
      ends.open()
      const next = await subject.start()
      if (!(await subject.drained())) say("the backlog did not drain within a minute")
      const { journal } = await subject.status()
      await next.kill("SIGKILL")
      const missing = ends.lost(sender).length
      if (missing > 0 && journal.health !== "red") say(`${missing} are missing, and the journal is ${journal.health}`)
      acknowledged += sender.acknowledged.size
      lost += Math.max(0, missing - size(named(journal.message)))
      told += missing
      broken.push(...ends.altered)
      await ends.close()
      if (broken.length === 0) subject.remove()
    }
    const notes = [`${told} went with the files, and the relay named them`]
    return { rounds, acknowledged, lost, duplicates: 0, broken, notes }
  },
}
