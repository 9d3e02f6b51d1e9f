/**
 * The disk fails a sync, or ten writes in a row, of the journal's file or of its write-ahead log. Or it fails a few
 * reads, and later reads succeed.
 *
 * A sync that fails is final: 503, exit 74, because later commits would seem to succeed. A write that fails isn't
 * final: SQLite undoes it, and the sender gets a 503. When writes succeed again the relay continues, and so do its
 * checkpoints. A read that fails looks like damage to SQLite, and must not cost the journal.
 */
import { readdirSync, statSync } from "node:fs"
import { dirname } from "node:path"
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line } from "../Line.ts"
import { eventually, Subject, skipped } from "./Subject.ts"
import { type Fault, reasonToSkip, Shim } from "./shim/Shim.ts"
import { Ends } from "./Traffic.ts"

const each: ReadonlyArray<Omit<Fault, "times"> & { readonly call: "write" | "sync" }> = (
  ["wal", "file"] as const
).flatMap((on) =>
  (["write", "sync"] as const).flatMap((call) => (["EIO", "ENOSPC"] as const).map((error) => ({ call, error, on }))),
)
/**
 * SQLite syncs the file when a pass ends the log, and the checkpointer syncs it after each pass. So the second sync in
 * a row is the checkpointer's own.
 */
const ownSyncs = [1, 2].map((): (typeof each)[number] => ({ call: "sync", error: "EIO", on: "file", passFirst: 1 }))
const faults = [...each, ...ownSyncs]
/** One sync fails, and the next would succeed: that is the trap. Writes fail for long enough to be reported. */
const times = { sync: 1, write: 10 }
const longRounds = 200
const exitCode = 74
/**
 * Number of reads at a start that succeed before some fail: while the file is opened, and while its content is read.
 */
const readsPassed = [0, 2, 5, 9, 14]
const readsFailed = 3
/** The relay may exit because of a failed read, and is started again. */
const starts = 4

/** Reads fail during a start, and again while the relay runs. Every event is kept, and the relay reports the cause. */
const passingReads = async (subject: Subject, ends: Ends): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  let [hits, found] = [0, 0]
  for (const passFirst of readsPassed) {
    const say = (what: string) => broken.push(`${readsFailed} reads failed after ${passFirst}: ${what}`)
    ends.shut()
    const relay = await subject.start()
    await subject.sender.burst(200)
    await relay.kill("SIGKILL")
    const shim = new Shim(subject.directory, subject.journal)
    shim.fail({ call: "read", error: "EIO", on: "file", times: readsFailed, passFirst })
    ends.open()
    let next: Awaited<ReturnType<typeof subject.start>> | undefined
    for (let start = 0; start < starts && next === undefined; start++) {
      const relay = await subject.start({ env: shim.env }).catch(() => undefined)
      if (relay === undefined) continue
      const isDrained = await Promise.race([subject.drained(20).catch(() => false), relay.exited.then(() => false)])
      if (isDrained) next = relay
      else await relay.kill("SIGKILL")
    }
    if (next === undefined) say(`it did not come to rest in ${starts} starts`)
    else if ((await subject.status()).journal.message.includes("is sound")) found++
    hits += shim.hits
    shim.close()
    await next?.kill("SIGKILL")
    const aside = readdirSync(dirname(subject.journal)).filter((name) => name.endsWith(".damaged"))
    if (aside.length > 0) say(`the journal was set aside: ${aside.join(", ")}`)
  }
  if (hits === 0) broken.push("no read failed, so nothing is proved")
  if (found === 0) broken.push("no failed read was taken for damage, so nothing is proved")
  return broken
}

export const diskErrors: Line = {
  name: "disk-errors",
  fault: "EIO and ENOSPC on write, fsync and read",
  run: async (options) => {
    const reason = reasonToSkip()
    if (reason !== undefined) return skipped(reason)
    const random = seeded(options.seed)
    const ends = new Ends()
    const subject = await Subject.make(options, { sinks: ends.sinks })
    const { sender } = subject
    const broken: Array<string> = []
    const rounds = options.long ? longRounds : faults.length
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      const chosen = faults[round % faults.length]
      if (chosen === undefined) break
      const fault: Fault = { ...chosen, times: times[chosen.call] }
      const say = (what: string) =>
        broken.push(`${fault.error} on ${fault.call} of the ${fault.on}, ${fault.times} times: ${what}`)
      const shim = new Shim(subject.directory, subject.journal)
      ends.shut()
      const relay = await subject.start({ env: shim.env })
      let over = false
      const loading = sender.load(() => over)
      await Bun.sleep(200 + random() * 400)
      const refusedBefore = sender.refused.get(503) ?? 0
      shim.fail(fault)
      if (fault.call === "sync") {
        const exit = await Promise.race([relay.exited, Bun.sleep(10_000)])
        if (exit !== exitCode) say(exit === undefined ? "the relay went on" : `the relay ended with ${exit}`)
      } else {
        if (!(await eventually(() => shim.hits >= fault.times, 10))) say(`${shim.hits} calls failed`)
        const kept = sender.acknowledged.size
        if (!(await eventually(() => sender.acknowledged.size > kept + 100, 10))) say("it accepts nothing more")
        const { mtimeMs } = statSync(subject.journal)
        if (!(await eventually(() => statSync(subject.journal).mtimeMs > mtimeMs, 5)))
          say("no checkpoint is made any more")
        if (fault.on === "wal" && sender.refused.get(503) === refusedBefore) say("nobody was told to come again")
      }
      if (shim.hits === 0) say("no call failed, so nothing is proved")
      over = true
      await relay.kill("SIGKILL")
      await loading
      shim.close()
      ends.open()
      const next = await subject.start()
      if (!(await subject.drained())) say("the backlog did not drain within a minute")
      const { journal } = await subject.status()
      if (journal.health !== "ok") say(`the journal is ${journal.health}: ${journal.message}`)
      await next.kill("SIGKILL")
    }
    if (!isEnough(options, broken.length)) broken.push(...(await passingReads(subject, ends)))
    if ((sender.refused.get(503) ?? 0) === 0) broken.push("nobody was answered 503")
    if (sender.unspecific > 0) broken.push(`${sender.unspecific} answers of 503 had no Retry-After`)
    const lost = ends.lost(sender).length
    broken.push(...ends.altered)
    await ends.close()
    if (lost + broken.length === 0) subject.remove()
    const notes = [`answered 503: ${sender.refused.get(503) ?? 0}`]
    return { rounds, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
