/**
 * Hostile content through the whole relay. It is signed and therefore accepted, and then meets the sinks, the templates
 * and the receivers.
 *
 * **Guarantee.** Each event affects only itself: honest events to its sink and to another sink, sent right behind it,
 * have arrived before the next case starts.
 */
import type { Line, Options, Outcome } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { found, inTurns, troubles } from "./Attack.ts"
import * as Aftermath from "./content/Aftermath.ts"
import type { Content } from "./content/Content.ts"
import * as Depths from "./content/Depths.ts"
import * as Floods from "./content/Floods.ts"
import * as Names from "./content/Names.ts"
import * as Texts from "./content/Texts.ts"
import { Stage } from "./Stage.ts"

const cases: ReadonlyArray<Content> = [...Depths.cases, ...Texts.cases, ...Names.cases]

/** Honest events behind each hostile event: few rejections among many deliveries don't stop a lane. */
const honestBehind = 2
/** Reported once for a lane that stalls. */
const stuck = "honest events behind it do not come any more"
/** Seconds that an honest event may take to its sink. */
const timeoutSeconds = 10

interface Letter {
  readonly eventId: string
  readonly attempts: ReadonlyArray<{ readonly message: string }>
  readonly id: string
}

const letters = async (stage: Stage, lane: string): Promise<ReadonlyArray<Letter>> =>
  JSON.parse(await stage.subject.ask(`/api/v1/dead-letters?limit=1000&sink=${lane}`)) as ReadonlyArray<Letter>

/** A quarantined delivery without an envelope has no id, so it is identified by its bytes. */
const bodyOf = async (stage: Stage, id: string): Promise<Buffer> =>
  Buffer.from(
    (JSON.parse(await stage.subject.ask(`/api/v1/dead-letters/${encodeURIComponent(id)}`)) as { body: string }).body,
    "base64",
  )

const letterOf = (stage: Stage, lane: string, body: string | Uint8Array) => async (): Promise<Letter | undefined> => {
  for (const letter of await letters(stage, lane)) {
    if ((await bodyOf(stage, letter.id)).equals(Buffer.from(body))) return letter
  }
  return undefined
}

/** Returns the outcome of a hostile event if it is not the required one. */
const fateOf = async (stage: Stage, one: Content): Promise<string | undefined> => {
  const { fate, to, bodies, id, within } = one
  const [body = ""] = bodies
  if ("delivered" in fate) {
    // A route must not match this event: `looks` checks that.
    if (to === "chosen") return undefined
    const all = () => bodies.every((body) => stage.has(to, id === "" ? "\u0000none" : id, body))
    if (await eventually(all, within)) return undefined
    const letter = await letterOf(stage, to, body)()
    return letter === undefined ? "it was not delivered" : `it became a dead letter: ${letter.attempts.at(-1)?.message}`
  }
  if ("refused" in fate) return undefined
  if ("settled" in fate) {
    const isSettled = async () => stage.has(to, id, body) || (await letterOf(stage, to, body)()) !== undefined
    return (await eventually(isSettled, within)) ? undefined : "it is neither delivered nor a dead letter"
  }
  const lane = "dead" in fate ? to : "_quarantine"
  const why = "dead" in fate ? fate.dead : fate.quarantined
  const letter = await found(letterOf(stage, lane, body), within)
  if (letter === undefined) return `it did not come to the dead letters of ${lane}`
  const message = letter.attempts.at(-1)?.message ?? ""
  return why.test(message) ? undefined : `it is dead for "${message}"`
}

const attack = async (stage: Stage, one: Content): Promise<Floods.Result> => {
  const broken: Array<string> = []
  const { fate, to, bodies } = one
  let acknowledged = 0
  let lost = 0
  const expected = "refused" in fate ? fate.refused : 202
  for (const body of bodies) {
    const status = await stage.send(body, one.webhook, one.headers)
    if (status === 202) acknowledged += 1
    if (status !== expected) broken.push(`answered ${status ?? "nothing"} instead of ${expected}`)
  }
  const behind = Array.from({ length: honestBehind }, () => stage.honest(to))
  for (const { body } of behind) {
    const status = await stage.send(body)
    if (status === 202) acknowledged += 1
    else broken.push(`an honest event behind it was answered ${status ?? "nothing"}`)
  }
  for (const { id, body } of behind) {
    const places = to === "steady" ? [to] : [to, "steady"]
    for (const place of places) {
      if (await eventually(() => stage.has(place, id, body), timeoutSeconds)) continue
      broken.push(place === to ? stuck : `an honest event behind it did not come to ${place}`)
      lost += 1
      if (place === to) return { acknowledged, lost, broken }
    }
  }
  if (acknowledged >= bodies.length) {
    const wrong = await fateOf(stage, one)
    if (wrong !== undefined) {
      broken.push(wrong)
      lost += 1
    }
  }
  // The other sink has the bytes, whatever the first made of them.
  if (expected === 202 && !("quarantined" in fate)) {
    for (const body of bodies) {
      if (await eventually(() => stage.times("steady", body) > 0, timeoutSeconds)) continue
      broken.push("the other sink did not get it")
      lost += 1
    }
  }
  const told = one.looks(stage.at(to).filter(({ body }) => isOf(one, body)))
  if (told !== undefined) broken.push(told)
  return { acknowledged, lost, broken }
}

const isOf = ({ bodies, id }: Content, sent: Uint8Array): boolean => {
  const buffer = Buffer.from(sent)
  return (
    bodies.some((body) => buffer.equals(Buffer.from(body))) ||
    (id !== "" && buffer.includes(JSON.stringify(id).slice(1, -1)))
  )
}

const run = async (options: Options): Promise<Outcome> => {
  const stage = await Stage.make(options)
  const broken: Array<string> = []
  let acknowledged = 0
  let lost = 0
  let count = 0
  const dead = new Set<string>()
  const note = (name: string, result: Floods.Result) => {
    count += 1
    acknowledged += result.acknowledged
    lost += result.lost
    broken.push(...result.broken.map((what) => `${name}: ${what}`))
  }
  try {
    // One sink's cases after each other, the sinks side by side.
    const bySink = Map.groupBy(cases, ({ to }) => to)
    await inTurns(bySink.values(), bySink.size, async (some) => {
      for (const one of some) {
        const result = await attack(stage, one)
        note(`${one.to}: ${one.name}`, result)
        if (!result.broken.includes(stuck)) continue
        // Each of the other cases would wait for events that never come.
        dead.add(one.to)
        broken.push(`${one.to}: no further case was tried`)
        break
      }
    })
    for (const flood of Floods.cases.filter(({ to }) => !dead.has(to))) note(flood.name, await flood.run(stage))
    for (const after of Aftermath.cases) note(after.name, await after.run(stage))
    const health = await fetch(`http://${stage.subject.admin}/healthz`)
    if (health.status !== 200) broken.push(`/healthz answers ${health.status} in the end`)
    const { lanes, journal } = await stage.subject.status()
    for (const { name, condition, message } of lanes)
      if (condition !== "running") broken.push(`in the end the lane ${name} is ${condition}: ${message}`)
    if (journal.health !== "ok") broken.push(`in the end the journal is ${journal.health}: ${journal.message}`)
    const log = stage.relay.stdout() + stage.relay.stderr()
    broken.push(...troubles(log).map((line) => `the log holds a stack: ${line}`))
  } finally {
    await stage.close()
  }
  if (lost + broken.length === 0) stage.subject.remove()
  return { rounds: count, acknowledged, lost, duplicates: 0, broken, notes: [`${count} cases`] }
}

export const content: Line = { name: "attacks-content", fault: "signed events that are made to harm", run }
