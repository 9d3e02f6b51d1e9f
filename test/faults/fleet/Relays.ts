/**
 * Three relays on one PostgreSQL, each with its own sender, and receivers that know which relay sent each event.
 *
 * Most events go to `plain`, through the relay that accepted them. Every fourth event goes to `ordered`, through the
 * relay that delivers for all. Another sender sends events of a single key to one relay after the other, each once the
 * previous event was accepted, so all relays have them in the same order.
 */
import type { EventReports } from "../../../src/admin/api/EventApi.ts"
import type { Relay } from "../../lib/relay.ts"
import { makePostgres, missing, type Postgres } from "../../parts/Postgres.ts"
import type { Options, Outcome } from "../Line.ts"
import { eventually, Subject, skipped } from "../relay/Subject.ts"
import { Receiver, Sender, bodyOf as usual } from "../relay/Traffic.ts"

export const names = ["a", "b", "c"] as const
export type Name = (typeof names)[number]

/** A relay's events are numbered from a multiple of this. Ordered events have the numbers after them. */
const share = 10_000_000
const inOrder = names.length * share
/** Distance between the numbers of ordered events: all of one account, and so of one key. */
const step = 100

const isOrdered = (number: number): boolean => number % 4 === 0
const bodyOf = (number: number): string =>
  isOrdered(number) ? usual(number).replace("appointment.created", "appointment.rescheduled") : usual(number)

const routes = [
  { name: "in order", match: "appointment.rescheduled", to: "ordered" },
  { name: "the rest", match: "appointment.created", to: "plain" },
]

export interface Arrival {
  readonly number: number
  readonly by: Name
  readonly at: number
}

export interface Setup {
  /** Returns the relays' URL of the database, if it isn't the database's own. */
  readonly url?: (postgres: Postgres) => string
  readonly postgres?: Postgres
  /** Further settings of the configs. */
  readonly settings?: object
}

/** Accepts an event after `millis` milliseconds. */
const taken = (millis: number): Promise<Response> => Bun.sleep(millis).then(() => new Response(null, { status: 204 }))

const byOf = (request: Request): Name => (new URL(request.url).searchParams.get("by") ?? "a") as Name

const sinksOf = (name: Name, plain: Receiver, ordered: Receiver) => ({
  // Low concurrency, so that a slowed relay has waiting events however slow the machine is.
  plain: { type: "http", url: `${plain.url}?by=${name}`, concurrency: 8 },
  ordered: { type: "http", url: ordered.url, order: "key" },
})

export class Relays {
  readonly postgres: Postgres
  readonly plain: Receiver
  readonly ordered: Receiver
  readonly subjects: ReadonlyMap<Name, Subject>
  readonly running = new Map<Name, Relay>()
  /** Ordered events that were accepted. */
  readonly sentInOrder: Array<number> = []
  /** Arrivals at `plain`, while a line records them. */
  arrivals: Array<Arrival> | undefined
  /** Returns an answer of `plain` to a relay's attempt, instead of accepting it. */
  answer: (by: Name) => Response | Promise<Response> | undefined = () => undefined
  /** Whether a sink fails at an attempt. */
  fails: () => boolean = () => false
  /** Ordered events, by their first arrival. */
  readonly #cameInOrder: Array<number> = []
  /** Events that only a former primary had. They have no order among events of the other history. */
  readonly #elsewhere = new Set<number>()

  private constructor(postgres: Postgres, plain: Receiver, ordered: Receiver, subjects: ReadonlyMap<Name, Subject>) {
    this.postgres = postgres
    this.plain = plain
    this.ordered = ordered
    this.subjects = subjects
    plain.answer = (number, request) => {
      this.arrivals?.push({ number, by: byOf(request), at: performance.now() })
      return this.fails() ? new Response(null, { status: 500 }) : this.answer(byOf(request))
    }
    // Some answers take long: a relay that does not wait for them sends the next events too early.
    ordered.answer = (number) => {
      if (this.fails()) return new Response(null, { status: 500 })
      return number >= inOrder && (number / step) % 20 === 0 ? taken(200) : undefined
    }
    ordered.onArrival = ({ number }) => {
      if (number >= inOrder && ordered.times.get(number) === 1) this.#cameInOrder.push(number)
    }
  }

  static async make(options: Options, { url = ({ url }) => url, postgres, settings = {} }: Setup = {}) {
    const server = postgres ?? (await makePostgres())
    const [plain, ordered] = [new Receiver(), new Receiver()]
    for (const receiver of [plain, ordered]) receiver.bodyOf = bodyOf
    const subjects = new Map<Name, Subject>()
    for (const [index, name] of names.entries()) {
      const subject = await Subject.make(options, {
        sinks: sinksOf(name, plain, ordered),
        journal: { type: "postgres", url: withoutTls(url(server)), name },
      })
      subject.write("relay.config.json", { routes, ...settings })
      subject.sender.next = index * share
      subject.sender.bodyOf = bodyOf
      subjects.set(name, subject)
    }
    const relays = new Relays(server, plain, ordered, subjects)
    await Promise.all(names.map((name) => relays.start(name)))
    return relays
  }

  subject(name: Name): Subject {
    const subject = this.subjects.get(name)
    if (subject === undefined) throw new Error(`no relay ${name}`)
    return subject
  }

  readonly routes = routes

  /** The sinks of a relay's config. */
  sinksOf(name: Name): ReturnType<typeof sinksOf> {
    return sinksOf(name, this.plain, this.ordered)
  }

  async start(name: Name): Promise<void> {
    this.running.set(name, await this.subject(name).start())
  }

  async kill(name: Name, signal: NodeJS.Signals = "SIGKILL"): Promise<number | undefined> {
    const relay = this.running.get(name)
    this.running.delete(name)
    return relay?.kill(signal)
  }

  signal(name: Name, signal: NodeJS.Signals): void {
    this.running.get(name)?.signal(signal)
  }

  get acknowledged(): number {
    return this.accepted.length
  }

  /** The numbers of the events that were answered 202. */
  get accepted(): ReadonlyArray<number> {
    return [...this.subjects.values()].flatMap(({ sender }) => [...sender.acknowledged]).concat(this.sentInOrder)
  }

  #isMissing(number: number): boolean {
    return !(isOrdered(number) ? this.ordered : this.plain).times.has(number)
  }

  /** Events that a relay acknowledged and that are not at their sink. */
  missingOf(name: Name): ReadonlyArray<number> {
    return [...this.subject(name).sender.acknowledged].filter((number) => this.#isMissing(number))
  }

  /** Events that any relay acknowledged and that are not at their sink. */
  get missing(): ReadonlyArray<number> {
    const inOrder = this.sentInOrder.filter((number) => this.#isMissing(number))
    return [...names.flatMap((name) => this.missingOf(name)), ...inOrder]
  }

  /** Finds the ordered events that the journal lacks: only a former primary had them. */
  async findElsewhere(): Promise<void> {
    for (const number of this.#cameInOrder) {
      const { kept } = JSON.parse(await this.subject("b").ask(`/api/v1/events/evt_${number}`)) as EventReports
      if (kept !== undefined) this.#elsewhere.add(number)
    }
  }

  /** Number of ordered events that arrived after a later event of the same history. */
  get disorder(): number {
    const came = this.#cameInOrder.filter((number) => !this.#elsewhere.has(number))
    let newest = 0
    return came.filter((number) => {
      newest = Math.max(newest, number)
      return number < newest
    }).length
  }

  /** Number of repeated deliveries at the sinks. */
  get repeated(): number {
    let repeated = 0
    for (const { times } of [this.plain, this.ordered]) for (const count of times.values()) repeated += count - 1
    return repeated
  }

  /**
   * Makes `plain` slow for a relay, so that it has many events in flight, more that wait, and always some to settle.
   */
  slowDown(name: Name, most = 500): Promise<void> {
    let count = 0
    this.answer = (by) => (by === name ? taken(most * (0.6 + (count++ % 20) * 0.02)) : undefined)
    return Bun.sleep(700)
  }

  /** Makes `plain` accept events immediately. */
  speedUp(): void {
    this.answer = () => undefined
  }

  /** Loads all running relays until `until` is true. */
  async load(until: () => boolean, connections = 8): Promise<void> {
    const own = names.map((name) => this.subject(name).sender.load(until, connections))
    await Promise.all([...own, this.#sendInOrder(until)])
  }

  async #sendInOrder(until: () => boolean): Promise<void> {
    const senders = names.map((name) => new Sender(`127.0.0.1:${this.subject(name).port}`))
    for (const sender of senders) sender.bodyOf = bodyOf
    let next = (this.sentInOrder.at(-1) ?? inOrder) + step
    for (let turn = 0; !until(); turn++) {
      // A frozen relay does not answer, so the same event goes to the next relay.
      const answer = senders[turn % senders.length]?.send(next)
      if ((await Promise.race([answer, Bun.sleep(4_000)])) === 202) {
        this.sentInOrder.push(next)
        next += step
      }
      await Bun.sleep(5)
    }
  }

  /** Waits until every event acknowledged by one relay, or by all, has arrived. */
  async arrived(seconds: number, name?: Name): Promise<boolean> {
    let missing = name === undefined ? this.missing : this.missingOf(name)
    return eventually(
      () => {
        missing = missing.filter((number) => this.#isMissing(number))
        return missing.length === 0
      },
      seconds,
      25,
    )
  }

  /** Waits until nothing has arrived for two seconds. */
  async settled(): Promise<void> {
    for (let before = -1, requests = 0; before !== requests; ) {
      before = requests
      await Bun.sleep(2_000)
      requests = this.plain.requests + this.ordered.requests
    }
  }

  /** Returns the milliseconds until a relay's acknowledged events are delivered, or `undefined` after `seconds`. */
  async takenOver(name: Name, seconds: number): Promise<number | undefined> {
    const began = performance.now()
    return (await this.arrived(seconds, name)) ? performance.now() - began : undefined
  }

  /** Returns the milliseconds until every relay has accepted a delivery, or `undefined` after `seconds`. */
  async accepts(seconds: number): Promise<number | undefined> {
    const began = performance.now()
    const end = began + seconds * 1_000
    const one = async (name: Name) => {
      while (performance.now() < end) {
        if ((await this.subject(name).sender.send()) === 202) return true
        await Bun.sleep(50)
      }
      return false
    }
    return (await Promise.all(names.map(one))).every(Boolean) ? performance.now() - began : undefined
  }

  /** The most that a crash of a relay repeats, as the relay reports it. */
  async bound(name: Name): Promise<number> {
    const bounds = await this.subject(name).metric("relay_duplicate_bound_events")
    return [...bounds.values()].reduce((sum, bound) => sum + bound, 0)
  }

  /** A metric without labels. */
  async metric(name: Name, metric: string): Promise<number> {
    const text = await this.subject(name).ask("/metrics")
    return Number(new RegExp(`^${metric} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN)
  }

  /** Asks the database, as its superuser. */
  async sql<Row>(text: string): Promise<ReadonlyArray<Row>> {
    return (await this.postgres.sql(`SET search_path = relay; ${text}`)) as ReadonlyArray<Row>
  }

  /** Returns the problems of the journal that relays still report after `seconds`. */
  async troubles(seconds: number): Promise<ReadonlyArray<string>> {
    let troubles: ReadonlyArray<string> = []
    await eventually(async () => {
      const statuses = await Promise.all([...this.running.keys()].map((name) => this.subject(name).status()))
      troubles = statuses.flatMap(({ journal }, index) =>
        journal.health === "ok"
          ? []
          : [`${[...this.running.keys()][index]} reports the journal as ${journal.health}: ${journal.message}`],
      )
      return troubles.length === 0
    }, seconds)
    return troubles
  }

  get broken(): ReadonlyArray<string> {
    const altered = this.plain.altered + this.ordered.altered
    const other = [...this.subjects.values()].flatMap(({ sender }) => [...sender.refused.keys()])
    const unexpected = [...new Set(other)].filter((status) => status !== 503)
    return [
      ...(altered === 0 ? [] : [`${altered} deliveries were altered`]),
      ...(this.disorder === 0 ? [] : [`${this.disorder} came out of the order of their key`]),
      ...(unexpected.length === 0 ? [] : [`answers that are neither 202 nor 503: ${unexpected.join(", ")}`]),
    ]
  }

  async close(holds: boolean): Promise<void> {
    for (const name of names) this.signal(name, "SIGCONT")
    await Promise.all(names.map((name) => this.kill(name)))
    await Promise.all([this.plain.goAway(), this.ordered.goAway(), this.postgres.stop()])
    if (holds) for (const subject of this.subjects.values()) subject.remove()
  }
}

const withoutTls = (url: string): string => `${url}${url.includes("?") ? "&" : "?"}sslmode=disable`

/** Keeps the relays under load during `work`. */
export const underLoad = async (relays: Relays, work: () => Promise<void>, connections?: number): Promise<void> => {
  let isOver = false
  const loading = relays.load(() => isOver, connections)
  try {
    await work()
  } finally {
    isOver = true
    await loading
  }
}

/** The result of a line. Lost events are counted for it unless it has its own count. */
export type Said = Omit<Outcome, "acknowledged" | "lost"> & { readonly lost?: number }

/** A line over relays. It is skipped without PostgreSQL. */
export const over =
  (
    line: (relays: Relays, options: Options) => Promise<Said>,
    make: (options: Options) => Promise<Relays> = (options) => Relays.make(options),
  ) =>
  async (options: Options): Promise<Outcome> => {
    const lacking = missing()
    if (lacking !== undefined) return skipped(lacking)
    const relays = await make(options)
    let holds = false
    try {
      const said = await line(relays, options)
      const lost = said.lost ?? relays.missing.length
      const broken = [...said.broken, ...relays.broken]
      holds = lost + broken.length === 0
      return { ...said, acknowledged: relays.acknowledged, lost, broken }
    } finally {
      await relays.close(holds)
    }
  }

export const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`
