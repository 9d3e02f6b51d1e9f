/**
 * The journal's files are damaged while no relay runs on them: bits flip, pages are zeroed, files are cut off, deleted,
 * swapped.
 *
 * Some damaged events can't be delivered. But the relay must name every missing event, and must not deliver anything
 * that was not sent. A file that was moved aside can be brought back completely.
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { decodeRow } from "../../../src/journal/stream/Record.ts"
import { seeded } from "../../lib/seeded.ts"
import { isEnough, type Line } from "../Line.ts"
import { harm } from "./Harm.ts"
import { isIn, named } from "./Named.ts"
import { Subject } from "./Subject.ts"
import { Ends, numberOf } from "./Traffic.ts"

const mutations = { long: 1_000, normal: 40 }
/** `late` rejects one event in this many, so that the journal has dead letters too. */
const rejectEvery = 7
/** Number of starts. The relay may find the damage while it runs, exit, and move the file aside at the next start. */
const starts = 3

interface Base {
  /** Copies of the journal's directory. */
  readonly killed: string
  readonly stopped: string
  /** A copy of the file from before the last events. */
  readonly older: string
  readonly sequences: ReadonlyMap<number, number>
}

/** Returns the sequence of each event in the log. */
const sequencesOf = (journal: string): Map<number, number> => {
  const db = new DatabaseSync(journal, { readOnly: true })
  const found = new Map<number, number>()
  for (const { first, count, bytes } of db.prepare("SELECT first, count, bytes FROM log").all()) {
    if (!(bytes instanceof Uint8Array)) continue
    for (const { entry } of decodeRow(bytes, Number(first), Number(count)).stored) {
      found.set(numberOf(entry.event.id), entry.sequence)
    }
  }
  db.close()
  return found
}

/** A journal with a log, retries and dead letters, as kill -9 and as a clean stop leave it. */
const prepare = async (subject: Subject, ends: Ends): Promise<Base> => {
  const from = dirname(subject.journal)
  const copy = (name: string): string => {
    const to = join(subject.directory, name)
    cpSync(from, to, { recursive: true })
    return to
  }
  ends.late.answer = (number) => new Response(null, { status: number % rejectEvery === 0 ? 400 : 500 })
  let relay = await subject.start()
  await subject.sender.burst(300)
  await subject.drained(10, ["live"])
  await relay.kill()
  const older = join(copy("older"), basename(subject.journal))
  relay = await subject.start()
  await subject.sender.burst(300)
  await subject.drained(10, ["live"])
  await subject.sender.burst(200)
  await relay.kill("SIGKILL")
  const killed = copy("killed")
  relay = await subject.start()
  await subject.drained(10, ["live"])
  await relay.kill()
  return { killed, stopped: copy("stopped"), older, sequences: sequencesOf(subject.journal) }
}

/** The outcome for a damaged journal. */
interface Fate {
  /** Everything that the relay said, on its terminal and as its status. */
  readonly said: string
  readonly isRed: boolean
  readonly deadLetters: ReadonlySet<number>
  /** The relay refused to start or exited, and reported the reason: nothing is delivered, and nothing lost. */
  readonly refused: boolean
}

const atRest = async (subject: Subject) => {
  const drained = await subject.drained(10)
  // An unreadable dead letter is noticed only when it is read, so the status is read afterwards.
  const deadLetters = new Set((await subject.deadLetters("late")).map(numberOf))
  return { drained, deadLetters, journal: (await subject.status()).journal }
}

const live = async (subject: Subject): Promise<Fate> => {
  let said = ""
  for (let start = 0; start < starts; start++) {
    const relay = await subject.start().catch((error: unknown) => {
      said += error instanceof Error ? error.message : String(error)
    })
    if (relay === undefined) continue
    const rest = await Promise.race([atRest(subject).catch(() => undefined), relay.exited])
    await relay.kill("SIGKILL")
    said += relay.stderr()
    // The relay found the damage while it ran, and exited.
    if (typeof rest !== "object") continue
    const { drained, deadLetters, journal } = rest
    said += `${journal.message}${drained ? "" : "\nNOT DRAINED"}`
    return { said, isRed: journal.health === "red", deadLetters, refused: false }
  }
  return { said, isRed: false, deadLetters: new Set(), refused: true }
}

/**
 * Imports a journal that was moved aside, as it is or by way of its salvage. Every acknowledged event is delivered or a
 * dead letter, and nothing is delivered twice.
 */
const bringBack = async (
  subject: Subject,
  ends: Ends,
  base: Base,
  salvages: boolean,
): Promise<ReadonlyArray<string>> => {
  const directory = dirname(subject.journal)
  rmSync(directory, { recursive: true })
  cpSync(base.stopped, directory, { recursive: true })
  const file = readFileSync(subject.journal)
  writeFileSync(subject.journal, file.fill(0, 0, 32_768))
  ends.open()
  ends.late.times = new Map()
  const broken: Array<string> = []
  const relay = await subject.start()
  const aside = readdirSync(directory).find((name) => name.endsWith(".damaged"))
  const from = join(directory, aside ?? "none")
  const to = `${from}.ndjson`
  const done = salvages ? [await subject.run("journal", "salvage", to, from)] : []
  const imported = salvages ? to : from
  done.push(await subject.run("journal", "import", imported))
  const again = await subject.run("journal", "import", imported)
  if (done.some(({ code }) => code !== 0)) broken.push(`it could not be brought back: ${JSON.stringify(done)}`)
  if (!again.said.startsWith("0 events queued for delivery,")) broken.push(`it was imported twice: ${again.said}`)
  if (!(await subject.drained(20))) broken.push("what was imported was not delivered")
  const deadLetters = new Set((await subject.deadLetters("late")).map(numberOf))
  const missing = [...subject.sender.acknowledged].filter(
    (number) => !(ends.late.times.has(number) || deadLetters.has(number)) || !ends.live.times.has(number),
  )
  if (missing.length > 0) broken.push(`${missing.length} events were not brought back`)
  const twice = [...ends.late.times.values()].filter((times) => times > 1).length
  if (twice > 0) broken.push(`${twice} events were delivered twice`)
  if ((await subject.status()).journal.health !== "red") broken.push("the journal was set aside, and is not red")
  await relay.kill("SIGKILL")
  return broken.map((what) => `${what}, after an import${salvages ? " of what was salvaged" : ""}`)
}

export const damage: Line = {
  name: "damaged-journal",
  fault: "bits flip, pages go, files are swapped",
  run: async (options) => {
    const random = seeded(options.seed)
    const ends = new Ends()
    const subject = await Subject.make(options, { sinks: ends.sinks })
    const { sender, journal } = subject
    const base = await prepare(subject, ends)
    const broken: Array<string> = []
    let [lost, said, refused, missed] = [0, 0, 0, 0]
    const rounds = options.long ? mutations.long : mutations.normal
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      rmSync(dirname(journal), { recursive: true })
      cpSync(random() < 0.5 ? base.killed : base.stopped, dirname(journal), { recursive: true })
      const done = harm(round, journal, base.older, random)
      ends.open()
      ends.late.times = new Map()
      const altered = ends.late.altered + ends.live.altered
      const fate = await live(subject)
      const missing = [...sender.acknowledged].filter(
        (number) => !ends.late.times.has(number) && !fate.deadLetters.has(number),
      )
      const told = named(fate.said)
      const unnamed = missing.filter((number) => !isIn(told, base.sequences.get(number) ?? -1)).length
      // If a sequence itself was altered, the relay names another one for it.
      const unreadable = new Set(fate.said.match(/^.*can't be read as it was written.*$/gm)).size
      const silent = fate.refused ? 0 : Math.max(0, unnamed - unreadable)
      if (fate.refused) refused += 1
      else if (missing.length > 0) missed += 1
      if (fate.isRed) said += 1
      lost += silent
      const say = (what: string) => broken.push(`${what}, after: ${done}\n${fate.said}`)
      if (silent > 0) say(`${silent} silently lost`)
      else if (!fate.refused && missing.length > 0 && !fate.isRed)
        say(`${missing.length} lost, and the journal not red`)
      if (ends.late.altered + ends.live.altered > altered) say("an altered payload was delivered")
      if (/NOT DRAINED/.test(fate.said)) say("the relay did not come to rest")
      if (/internal error/.test(fate.said)) say("the relay took it for a bug of its own")
    }
    const salvaging = isEnough(options, broken.length) ? [] : [false, true]
    for (const salvages of salvaging) broken.push(...(await bringBack(subject, ends, base, salvages)))
    await ends.close()
    if (broken.length === 0) subject.remove()
    const notes = [
      `the relay turned red or refused to start in ${said} rounds, refused in ${refused}; events were missing, and named, in ${missed}`,
    ]
    return { rounds, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
