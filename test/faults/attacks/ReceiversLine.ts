/**
 * Receivers that mistreat one event.
 *
 * **Guarantee.** That event is delivered, becomes a dead letter with the reason, or makes its lane wait and report the
 * cause. Honest events to the same sink succeed unless the sink asked for a wait. Honest events to other sinks always
 * succeed.
 */
import type { Line, Options, Outcome } from "../Line.ts"
import { eventually, Subject } from "../relay/Subject.ts"
import { path } from "../relay/Traffic.ts"
import { deliver, found, inTurns, troubles } from "./Attack.ts"
import { type Case, cases } from "./Receivers.ts"
import { Wild } from "./Wild.ts"

const steady = "steady"
/** Events in front of the hostile one, and behind it. */
const [before, behind] = [2, 6]
const delivery = { timeout: "1500 millis", retry: { initial: "50 millis", max: "200 millis", maxAttempts: 3 } }

const nameOf = ({ name }: Case): string => name.replace(/[^a-z0-9]+/gi, "-")

const eventOf = (sink: string, id: string): string =>
  JSON.stringify({
    id,
    account_id: `acct_${sink}`,
    version: "1",
    created_at: "2026-11-21T00:00:00Z",
    data: { type: "appointment.meeting.create_failed", object: { id: `apt_${id}` } },
  })

const run = async (options: Options): Promise<Outcome> => {
  const wild = new Wild(
    new Map(cases.map((one) => [nameOf(one), one.does])),
    Object.fromEntries(cases.flatMap((one) => (one.taken === undefined ? [] : [[nameOf(one), one.taken]]))),
  )
  await wild.listen()
  const subject = await Subject.make(options, { sinks: {}, delivery })
  const url = (name: string) => `http://127.0.0.1:${wild.port}/${name}`
  // The head of an alert doesn't contain its event's id, so a header has it.
  const named = { headers: { "x-relay-event-id": "{{id}}" } }
  subject.write("relay.config.json", {
    sinks: Object.fromEntries([
      [steady, { type: "http", url: url(steady) }],
      ...cases.map((one) => [nameOf(one), { type: "http", ...named, url: url(nameOf(one)), ...one.sink }]),
    ]),
    routes: [
      { name: steady, match: "**", to: steady },
      ...cases.map(nameOf).map((name) => ({ name, match: "**", where: { "/account_id": `acct_${name}` }, to: name })),
    ],
  })
  const relay = await subject.start()
  const broken: Array<string> = []
  let acknowledged = 0
  let lost = 0

  const send = async (name: string, id: string): Promise<void> => {
    const status = await deliver(`http://127.0.0.1:${subject.port}${path}`, eventOf(name, id))
    if (status === 202) acknowledged += 1
    else broken.push(`${name}: ${id} was answered ${status ?? "nothing"}`)
  }
  const has = (sink: string, ids: ReadonlyArray<string>) =>
    eventually(() => ids.every((id) => wild.honest.get(sink)?.has(id)), 20, 50)
  const letter = async (name: string) => {
    const letters = JSON.parse(await subject.ask(`/api/v1/dead-letters?sink=${name}`)) as ReadonlyArray<{
      readonly eventId: string
      readonly attempts: ReadonlyArray<{ readonly message: string }>
    }>
    const bad = letters.find(({ eventId }) => eventId.startsWith("evtBad"))
    for (const { eventId, attempts } of letters)
      if (!eventId.startsWith("evtBad")) {
        lost += 1
        broken.push(`${name}: the honest ${eventId} is a dead letter: ${attempts.at(-1)?.message}`)
      }
    return bad?.attempts.at(-1)?.message
  }
  const lane = async (name: string) => (await subject.status()).lanes.find((one) => one.name === name)

  const attack = async (one: Case): Promise<void> => {
    const name = nameOf(one)
    const ids = (count: number, word: string) => Array.from({ length: count }, (_, n) => `evt${word}${n}${name}`)
    const [first, last, bad] = [ids(before, "First"), ids(behind, "Last"), `evtBad${name}`]
    for (const id of [...first, bad, ...last]) await send(name, id)
    const say = (what: string) => {
      lost += 1
      broken.push(`${one.name}: ${what}`)
    }
    if (!(await has(steady, [...first, bad, ...last]))) say("the other sink did not get all of it")
    const { end } = one
    if ("waits" in end) {
      const told = await found(async () => {
        const { condition = "", message = "", backlog = 0, retrying = 0 } = (await lane(name)) ?? {}
        if (end.alone === true && retrying === 1 && backlog === 1) return "the event waits by itself"
        return condition !== "running" && end.waits.test(message) ? message : undefined
      }, 10)
      const letterOfIt = told === undefined ? await letter(name) : undefined
      // An operator fixes the sink. An event that became a dead letter or waits by itself isn't lost.
      if (told === undefined && letterOfIt === undefined)
        say(`its lane does not say what it waits for: ${(await lane(name))?.condition}`)
      return
    }
    if (!(await has(name, [...first, ...last]))) say("honest events to the same sink did not pass")
    if ("delivered" in end) {
      const isEmpty = async () => (await lane(name))?.backlog === 0
      if (!(await eventually(isEmpty, 15, 100))) say("it is not settled")
      const message = await letter(name)
      if (message !== undefined) say(`it became a dead letter: ${message}`)
    } else if ("settled" in end) {
      const isEmpty = async () => (await lane(name))?.backlog === 0
      if (!(await eventually(isEmpty, 15, 100)))
        say(`it is not settled after ${wild.attempts.get(name)} attempts: ${(await lane(name))?.message}`)
    } else if ("dead" in end) {
      const message = await found(() => letter(name), 15)
      if (message === undefined)
        say(`it is no dead letter after ${wild.attempts.get(name)} attempts: ${(await lane(name))?.condition}`)
      else if (!end.dead.test(message)) say(`it is dead for "${message}"`)
    }
  }

  try {
    await inTurns(cases, 16, attack)
    const many = [...wild.attempts].filter(([, attempts]) => attempts > 100)
    for (const [name, attempts] of many) broken.push(`${name}: tried ${attempts} times`)
    // Waiting lanes are resumed and the receivers are healed: nothing may be left.
    wild.healed = true
    for (const one of cases) if ("waits" in one.end) await subject.tell(`/lanes/${nameOf(one)}/resume`)
    if (!(await subject.drained(20))) {
      for (const { name, backlog, condition, message } of (await subject.status()).lanes)
        if (backlog > 0) broken.push(`in the end ${backlog} wait for ${name}, ${condition}: ${message}`)
    }
    for (const line of wild.strange) broken.push(`somebody asked for ${line}`)
    if ((await fetch(`http://${subject.admin}/healthz`)).status !== 200) broken.push("/healthz is not 200 in the end")
    broken.push(...troubles(relay.stdout() + relay.stderr()).map((line) => `the log holds a stack: ${line}`))
  } finally {
    await relay.kill()
    wild.close()
  }
  if (lost + broken.length === 0) subject.remove()
  return { rounds: cases.length, acknowledged, lost, duplicates: 0, broken, notes: [`${cases.length} cases`] }
}

export const receivers: Line = { name: "attacks-receivers", fault: "receivers that misbehave over one event", run }
