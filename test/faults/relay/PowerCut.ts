/**
 * The power is cut, over and over: SQLite's unsynced writes are lost, or kept in part. One sink accepts everything,
 * another accepts nothing until the power is back, and a third writes a file, which gets garbage at its end.
 *
 * The line proves itself: with `synchronous=NORMAL`, which does not sync each commit, it must lose something.
 */
import { appendFileSync, copyFileSync, existsSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line, type Options } from "../Line.ts"
import { Subject, skipped } from "./Subject.ts"
import { reasonToSkip, Shim } from "./shim/Shim.ts"
import { cutPower } from "./shim/Trace.ts"
import { Ends, numberOf } from "./Traffic.ts"

const rounds = { long: 100, normal: 6, control: 2 }

const cut = async (options: Options, count: number, normal: boolean) => {
  const random = seeded(options.seed)
  const ends = new Ends()
  const { live } = ends
  const subject = await Subject.make(options, { sinks: ends.sinks })
  const { sender, journal } = subject
  const broken: Array<string> = []
  let [duplicates, bound, atRisk] = [0, 0, 0]
  for (let round = 1; round <= count && !isEnough(options, broken.length); round++) {
    const shim = new Shim(subject.directory, journal, { trace: true, normal })
    rmSync(shim.trace, { force: true })
    const files = [journal, `${journal}-wal`].filter((path) => existsSync(path))
    const before = new Map(files.map((path) => [path, readFileSync(path)]))
    ends.shut()
    const relay = await subject.start({ env: shim.env })
    // The mark is written without a sync: a cut may leave it as it was at any time before.
    copyFileSync(`${journal}-mark`, `${journal}-mark-before`)
    bound = (await subject.metric("relay_duplicate_bound_events")).get("live") ?? 0
    let dead = false
    const loading = sender.load(() => dead)
    await Bun.sleep(500 + random() * 1_000)
    shim.dieAfter(1 + Math.floor(random() * 12))
    await relay.exited
    dead = true
    await loading
    shim.close()
    atRisk += cutPower(journal, shim.trace, before, round % 2 === 0 ? random : undefined)
    if (random() < 0.5) copyFileSync(`${journal}-mark-before`, `${journal}-mark`)
    const earlier = live.times
    live.times = new Map()
    ends.open()
    const next = await subject.start()
    if (!(await subject.drained())) broken.push(`round ${round}: the backlog did not drain within a minute`)
    const { journal: state } = await subject.status()
    if (!normal && state.health !== "ok")
      broken.push(`round ${round}: the journal is ${state.health}: ${state.message}`)
    await next.kill("SIGKILL")
    duplicates = Math.max(duplicates, [...live.times.keys()].filter((number) => earlier.has(number)).length)
    live.times = new Map([...earlier, ...live.times])
  }
  const lost = ends.lost(sender).length
  broken.push(...ends.altered)
  await ends.close()
  if (normal || lost + broken.length === 0) subject.remove()
  return { acknowledged: sender.acknowledged.size, lost, duplicates, bound, broken, atRisk }
}

/**
 * Returns the rest of a file sink's output behind the last sync, as a file system leaves it: parts of lines, and blocks
 * of zeros between lines that reached the disk. Each kind in turn, whatever the seed.
 */
const garbage = (round: number, random: () => number): string => {
  const line = () => `${JSON.stringify({ id: "torn", note: "x".repeat(Math.floor(random() * 500)) })}\n`
  const part = () => line().slice(0, -2 - Math.floor(random() * 10))
  const zeros = () => "\0".repeat(1 + Math.floor(random() * 10_000))
  const kinds = [part, zeros, () => `${part()}${zeros()}\n`, () => `${zeros()}\n${line()}${zeros()}`]
  return kinds[round % kinds.length]?.() ?? ""
}

const outputRounds = 8

/** The power is cut while a file sink writes. Afterwards each line is whole, and no synced line is missing. */
const cutOutput = async (options: Options): Promise<ReadonlyArray<string>> => {
  const random = seeded(options.seed)
  const output = "events.ndjson"
  const subject = await Subject.make(options, { sinks: { output: { type: "file", path: output } } })
  const path = join(subject.directory, output)
  const broken: Array<string> = []
  for (let round = 1; round <= outputRounds && !isEnough(options, broken.length); round++) {
    const relay = await subject.start()
    await subject.sender.burst(100)
    if (!(await subject.drained())) broken.push(`round ${round}: the backlog did not drain within a minute`)
    const told = relay.stderr().includes("was repaired")
    if (round > 1 && !told) broken.push(`round ${round}: the log does not tell what was repaired`)
    await relay.kill("SIGKILL")
    const lines = readFileSync(path, "utf8").trimEnd().split("\n")
    const found = new Set<number>()
    for (const [index, line] of lines.entries()) {
      try {
        const { id } = JSON.parse(line) as { readonly id: string }
        if (id !== "torn") found.add(numberOf(id))
      } catch {
        broken.push(`round ${round}: line ${index + 1} of ${lines.length} is no JSON`)
      }
    }
    const missing = [...subject.sender.acknowledged].filter((number) => !found.has(number)).length
    if (missing > 0) broken.push(`round ${round}: ${missing} events are missing in the file`)
    appendFileSync(path, garbage(round, random))
  }
  if (broken.length === 0) subject.remove()
  return broken
}

export const powerCut: Line = {
  name: "power-cut",
  fault: "the power goes; unsynced writes are lost",
  run: async (options) => {
    const reason = reasonToSkip()
    if (reason !== undefined) return skipped(reason)
    const count = options.long ? rounds.long : rounds.normal
    const outcome = await cut(options, count, false)
    const control = await cut(options, rounds.control, true)
    const { atRisk, broken, ...counted } = outcome
    return {
      rounds: count,
      ...counted,
      broken: [
        ...broken,
        ...(await cutOutput(options)),
        ...(atRisk === 0 ? ["nothing was unsynced when the power went: the line proves nothing"] : []),
        ...(control.lost === 0 ? ["the control, synchronous=NORMAL, lost nothing: the line proves nothing"] : []),
      ],
      notes: [
        `${atRisk} writes were unsynced; the control (synchronous=NORMAL) lost ${control.lost} of ${control.acknowledged}`,
      ],
    }
  },
}
