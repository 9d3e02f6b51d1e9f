/**
 * A night, compressed. One of three sinks is down for the middle third, and one rejects events of one type. In the
 * morning an operator lists the failed events of each sink with their reasons, and replays them to that sink.
 * Receivers outside the project's code then have each event once, and only the events that were routed to them.
 *
 * Within each key, events come in ascending order: those that were delivered at night, and then the replayed ones.
 * The sink that never fails has all of them in ascending order.
 */

import { envelope } from "../../lib/kit.ts"
import * as Chromium from "../../parts/Chromium.ts"
import { type Line, mutantsOf, type Options, type Outcome } from "../Line.ts"
import { Subject, skipped } from "../relay/Subject.ts"
import { numberOf } from "../relay/Traffic.ts"
import { atCommandLine, atPage, type Failed, type Operator } from "./Operator.ts"
import { Receiver, reasonToSkip } from "./Receiver.ts"

/** A night has three parts. */
const nights = {
  normal: { events: 3_000, rate: 200, drainedWithin: 60 },
  long: { events: 300_000, rate: 250, drainedWithin: 900 },
}

const types = [
  "appointment.created",
  "client.updated",
  "appointment.updated",
  "service.updated",
  "appointment.canceled",
] as const
const rejected = "appointment.canceled"
const accounts = 199

const typeOf = (number: number) => types[number % types.length] ?? types[0]
const keyOf = (number: number) => number % accounts
const bodyOf = (number: number): string =>
  envelope(
    `evt_${number}`,
    { type: typeOf(number), object: { id: `obj_${number}`, note: `${number} `.repeat(60) } },
    { account_id: `acct_${keyOf(number)}` },
  )

/** The sinks, with the events that are routed to them. */
const patterns = { audit: [""], crm: ["appointment.", "client."], lake: ["appointment."] }
type Name = keyof typeof patterns
const isRouted = (sink: Name, number: number): boolean =>
  patterns[sink].some((prefix) => typeOf(number).startsWith(prefix))

/** The reason that each failed event of a sink is to have. */
const reasons: Readonly<Partial<Record<Name, RegExp>>> = { crm: /backlog is over its limit/, lake: /answered 422/ }

/** The number of events that came after a later event of their key. */
const disordered = (numbers: ReadonlyArray<number>): number => {
  const newest = new Map<number, number>()
  let count = 0
  for (const number of numbers) {
    if (number < (newest.get(keyOf(number)) ?? -1)) count += 1
    else newest.set(keyOf(number), number)
  }
  return count
}

class Night {
  readonly #length: (typeof nights)["normal"]
  readonly #receivers: Readonly<Record<Name, Receiver>>
  readonly #subject: Subject
  readonly broken: Array<string> = []
  readonly notes: Array<string> = []
  /** The events that came to each sink before the morning. */
  #atNight: Readonly<Record<Name, ReadonlyArray<number>>> = { audit: [], crm: [], lake: [] }
  lost = 0
  duplicates = 0

  private constructor(length: typeof nights.normal, receivers: Readonly<Record<Name, Receiver>>, subject: Subject) {
    this.#length = length
    this.#receivers = receivers
    this.#subject = subject
  }

  static async make(options: Options): Promise<Night> {
    const length = options.long ? nights.long : nights.normal
    const receivers = {
      audit: await Receiver.start(),
      crm: await Receiver.start(),
      lake: await Receiver.start(rejected),
    }
    const sink = (name: Name) => ({ type: "http", url: receivers[name].url, order: "key" })
    const backlog = { max: length.events / 30, whenFull: "deadLetter" }
    const sinks = { audit: sink("audit"), crm: { ...sink("crm"), backlog }, lake: sink("lake") }
    // On a busy machine a late answer would count as none, and the event would come twice.
    const subject = await Subject.make(options, { sinks, delivery: { timeout: "1 minute" } })
    subject.sender.bodyOf = bodyOf
    const routes = [
      { name: "all", match: "**", to: ["audit"] },
      { name: "appointments", match: "appointment.*", to: ["crm", "lake"] },
      { name: "clients", match: "client.*", to: ["crm"] },
    ]
    subject.write("relay.config.json", { routes })
    return new Night(length, receivers, subject)
  }

  get #names(): ReadonlyArray<Name> {
    return Object.keys(patterns) as ReadonlyArray<Name>
  }

  #sentTo(sink: Name): ReadonlyArray<number> {
    return [...this.#subject.sender.acknowledged].filter((number) => isRouted(sink, number))
  }

  #arrivals(): Readonly<Record<Name, ReadonlyArray<number>>> {
    const { audit, crm, lake } = this.#receivers
    return { audit: audit.arrivals(), crm: crm.arrivals(), lake: lake.arrivals() }
  }

  /** Sends an event until it is accepted. */
  async #send(number: number): Promise<void> {
    while ((await this.#subject.sender.send(number)) !== 202) await Bun.sleep(100)
  }

  /** Sends a third of the events. An event waits for the answer to the one before it of its key. */
  async #third(): Promise<void> {
    const { sender } = this.#subject
    const { events, rate } = this.#length
    const newest = new Map<number, Promise<void>>()
    await sender.paced(rate, events / 3 / rate, () => {
      const number = sender.next++
      const sent = (newest.get(keyOf(number)) ?? Promise.resolve()).then(() => this.#send(number))
      newest.set(keyOf(number), sent)
      return sent
    })
  }

  /**
   * Sends events of a type that no sink rejects. Without them, the last rejected events would wait: a sink that
   * rejects all that it gets may be misconfigured.
   */
  async #goOn(until: Promise<void>): Promise<void> {
    const { sender } = this.#subject
    let isOver = false
    void until.then(() => {
      isOver = true
    })
    for (; !isOver; await Bun.sleep(250)) {
      while (typeOf(sender.next) !== types[0]) sender.next += 1
      await this.#send(sender.next++)
    }
  }

  async #drain(when: string): Promise<void> {
    const began = performance.now()
    if (!(await this.#subject.drained(this.#length.drainedWithin))) this.broken.push(`${when}: sinks have a backlog`)
    this.notes.push(`${when}: nothing waits after ${((performance.now() - began) / 1_000).toFixed(0)} s`)
  }

  async #pass(): Promise<void> {
    const { crm, lake } = this.#receivers
    await this.#third()
    await crm.down()
    await this.#third()
    await crm.up()
    await this.#third()
    const drained = this.#drain("at the end of the night")
    await Promise.all([drained, this.#goOn(drained)])
    await this.#drain("in the morning")
    await lake.down()
    await lake.up()
    this.#atNight = this.#arrivals()
  }

  /** Compares the list of a sink's failed events with the log of its receiver. */
  #compare(sink: Name, failed: ReadonlyArray<Failed>): void {
    const came = new Set(this.#atNight[sink])
    const isListed = new Set(failed.map(({ id }) => numberOf(id)))
    const missing = this.#sentTo(sink).filter((number) => !came.has(number))
    const unlisted = missing.filter((number) => !isListed.has(number))
    if (unlisted.length > 0) this.broken.push(`${sink}: the list lacks ${unlisted.length} events that never came`)
    if (failed.length !== missing.length) this.broken.push(`${sink}: ${failed.length} listed, ${missing.length} failed`)
    const byReason = Map.groupBy(failed, ({ why }) => why)
    const odd = [...byReason.keys()].filter((why) => reasons[sink]?.test(why) !== true)
    if (odd.length > 0) this.broken.push(`${sink}: listed with the reason ${odd.slice(0, 3).join("; ")}`)
    for (const [why, some] of byReason) this.notes.push(`${sink}: ${some.length} failed, "${why}"`)
  }

  async #morning(operator: Operator): Promise<void> {
    const counts = await operator.sinks()
    const failing = Object.keys(reasons).toSorted().join()
    const named = [...counts.keys()].toSorted().join()
    if (named !== failing) this.broken.push(`sinks with failed events: ${named}`)
    for (const sink of this.#names.filter((name) => counts.has(name))) {
      const began = performance.now()
      const failed = await operator.failed(sink)
      const listed = performance.now()
      this.#compare(sink, failed)
      if (counts.get(sink) !== failed.length) this.broken.push(`${sink}: ${counts.get(sink)} counted, not listed`)
      const { announced, queued } = await operator.replay(sink)
      const [seconds, replay] = [listed - began, performance.now() - listed].map((took) => (took / 1_000).toFixed(1))
      this.notes.push(`${sink}: listed in ${seconds} s, replayed in ${replay} s`)
      if (announced !== failed.length || queued !== failed.length)
        this.broken.push(`${sink}: ${failed.length} listed, ${announced} announced, ${queued} replayed`)
    }
    await this.#drain("after the replays")
    const left = await operator.sinks()
    if (left.size > 0) this.broken.push(`failed events after the replays: ${[...left].join(" ")}`)
  }

  /** The receivers' verdict. */
  #count(): void {
    const arrivals = this.#arrivals()
    for (const sink of this.#names) {
      const [came, atNight] = [arrivals[sink], this.#atNight[sink].length]
      const distinct = new Set(came)
      const sent = new Set(this.#sentTo(sink))
      const own = distinct.intersection(sent).size
      this.lost += sent.size - own
      this.duplicates += came.length - distinct.size
      if (own < distinct.size) this.broken.push(`${sink}: ${distinct.size - own} events that were not routed to it`)
      const late = disordered(came.slice(0, atNight)) + disordered(came.slice(atNight))
      if (late > 0) this.broken.push(`${sink}: ${late} events came after a later one of their key`)
      this.notes.push(`${sink}: ${sent.size} routed, ${atNight} came at night, ${came.length - atNight} by replay`)
    }
  }

  async run(operatorOf: (subject: Subject) => Promise<Operator>): Promise<Outcome> {
    const relay = await this.#subject.start()
    await this.#pass()
    const operator = await operatorOf(this.#subject)
    await this.#morning(operator).finally(operator.leave)
    await relay.kill()
    this.#count()
    const { broken, notes, lost, duplicates } = this
    if (lost + duplicates + broken.length === 0) this.#subject.remove()
    return {
      rounds: 1,
      acknowledged: this.#subject.sender.acknowledged.size,
      lost,
      duplicates,
      bound: 0,
      broken,
      notes,
    }
  }

  async end(): Promise<void> {
    for (const name of this.#names) await this.#receivers[name].stop()
  }
}

const line = (
  by: string,
  lacking: () => string | undefined,
  operatorOf: (subject: Subject) => Promise<Operator>,
): Line => ({
  name: `night-${by}`,
  fault: `a night's failures, listed and replayed by ${by}`,
  run: async (options) => {
    const why = reasonToSkip ?? lacking()
    if (why !== undefined) return skipped(why)
    const night = await Night.make(options)
    return night.run(operatorOf).finally(() => night.end())
  },
})

const cli = line("cli", () => undefined, atCommandLine)

export const lines: ReadonlyArray<Line> = [cli, line("page", Chromium.reasonToSkip, atPage)]
export const mutants = mutantsOf({
  [cli.name]: {
    "a replay of dead letters leaves room in the backlog": [
      "src/admin/api/DeadLetterHandlers.ts",
      "if (limited.length === 0) return Number.POSITIVE_INFINITY",
      "if (limited.length >= 0) return Number.POSITIVE_INFINITY",
    ],
  },
})
