/**
 * The stage of an unlucky operation: a relay with the sink `steady`, two more receivers for each case to use, and
 * honest events all the while.
 *
 * **Guarantee.** Whatever a case does, `steady` has every event that was acknowledged, no event is refused unless the
 * case says so, and in the end the relay is alive and reports the truth.
 */
import { writeFileSync } from "node:fs"
import type { Replay } from "../../../src/admin/replay/ReplayReport.ts"
import { type Finished, relay as program, type Relay } from "../../lib/relay.ts"
import type { Options } from "../Line.ts"
import { eventually, Subject } from "../relay/Subject.ts"
import { path, Receiver, secret } from "../relay/Traffic.ts"
import { troubles } from "./Attack.ts"

export interface Case {
  readonly name: string
  /** The work that must continue, for readers of the table. */
  readonly meanwhile: string
  readonly run: (play: Play) => Promise<void>
}

export const attackWhile = (name: string, meanwhile: string, run: Case["run"]): Case => ({ name, meanwhile, run })

export const attack = (name: string, run: Case["run"]): Case =>
  attackWhile(name, "the other sink has every event; none is refused", run)

type Sinks = Readonly<Record<string, object>>

const perSecond = 20
/** Attempts follow each other soon, and no event is given up unless a case says so. */
const delivery = { timeout: "2 seconds", retry: { initial: "50 millis", max: "300 millis" } }

export class Play {
  readonly broken: Array<string> = []
  readonly steady = new Receiver()
  readonly a = new Receiver()
  readonly b = new Receiver()
  readonly subject: Subject
  /** Set by a case that stops the relay or makes it refuse deliveries. */
  mayRefuse = false
  relay: Relay | undefined
  #over = false
  #load: Promise<void> = Promise.resolve()
  #log = ""
  readonly #binary: string | undefined

  private constructor(subject: Subject, options: Options) {
    this.subject = subject
    this.#binary = options.binary
  }

  static async make(options: Options): Promise<Play> {
    return new Play(await Subject.make(options, { sinks: {}, delivery }), options)
  }

  /** A sink that delivers to a receiver. */
  to(receiver: Receiver, more: object = {}): object {
    return { type: "http", url: receiver.url, ...more }
  }

  /** Writes the config: `steady` and these sinks, with every event routed to all of them. */
  config(sinks: Sinks, changes: object = {}): void {
    const all: Sinks = { steady: this.to(this.steady), ...sinks }
    const routes = [{ name: "everything", match: "**", to: Object.keys(all) }]
    this.subject.write("relay.config.json", { sinks: all, routes, ...changes })
  }

  /** Replaces the config with another text. */
  text(text: string | Uint8Array): void {
    writeFileSync(this.subject.config, text)
  }

  webhooks(
    secrets: ReadonlyArray<object> = [{ name: "faults", value: secret }],
    name = "scheduling",
    at = path,
  ): object {
    return { webhooks: { [name]: { path: at, secrets } } }
  }

  /** Starts the relay with these sinks, and honest events. */
  async start(sinks: Sinks, changes: object = {}): Promise<void> {
    this.config(sinks, changes)
    this.relay = await this.subject.start()
    this.#load = this.#honest()
  }

  async #honest(): Promise<void> {
    while (!this.#over) {
      void this.subject.sender.send()
      await Bun.sleep(1_000 / perSecond)
    }
  }

  /** Sends `count` events, as fast as they are accepted. */
  async burst(count: number): Promise<void> {
    await this.subject.sender.burst(count, 16)
  }

  /** Applies a config. Records the answer if it has another status. */
  async reload(sinks: Sinks, changes: object = {}, status = 200): Promise<string> {
    this.config(sinks, changes)
    return this.apply(status)
  }

  async apply(status = 200): Promise<string> {
    const [got, text] = await this.subject.reload()
    this.check(got === status, `a reload was answered ${got} instead of ${status}: ${text.slice(0, 200)}`)
    return text
  }

  /** Sends a request to the admin API and returns its answer. Records the answer if it has another status. */
  async tell(to: string, payload?: object, status = 200): Promise<{ readonly count?: number }> {
    const [got, text] = await this.subject.tell(to, payload)
    this.check(got === status, `${to} was answered ${got} instead of ${status}: ${text.slice(0, 200)}`)
    try {
      return JSON.parse(text) as { readonly count?: number }
    } catch {
      return {}
    }
  }

  /** Replays the events received before `until` to a sink. Returns their number once all are queued. */
  async replay(sink: string, until: number): Promise<number> {
    let [status, text] = await this.subject.tell("/replays", { events: { until }, to: { sink } })
    let replay = JSON.parse(text) as Replay
    while (replay.endedAt === undefined) {
      await Bun.sleep(20)
      text = await this.subject.ask(`/api/v1/replays/${replay.id}`)
      replay = JSON.parse(text) as Replay
    }
    status = replay.state === "finished" ? status : 0
    this.check(status === 200, `a replay ended with ${status}: ${text.slice(0, 200)}`)
    return replay.count
  }

  /** Runs a command of the program. */
  command(...args: ReadonlyArray<string>): Promise<Finished> {
    const binary = this.#binary === undefined ? {} : { binary: this.#binary }
    return program([...args, "-c", this.subject.config], { cwd: this.subject.directory, ...binary })
  }

  check(holds: boolean, otherwise: string): void {
    if (!holds) this.broken.push(otherwise)
  }

  /** Waits until a condition holds, and records `otherwise` if it does not. */
  async until(holds: () => boolean | Promise<boolean>, otherwise: string, seconds = 15): Promise<void> {
    this.check(await eventually(holds, seconds, 40), otherwise)
  }

  /** Ends the relay, and starts it again with the config as it is then. */
  async restart(signal: NodeJS.Signals = "SIGKILL", sinks?: Sinks): Promise<void> {
    this.mayRefuse = true
    await this.end(signal)
    if (sinks !== undefined) this.config(sinks)
    this.relay = await this.subject.start()
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number> {
    const code = (await this.relay?.kill(signal)) ?? -1
    this.#log += (this.relay?.stdout() ?? "") + (this.relay?.stderr() ?? "")
    this.relay = undefined
    return code
  }

  /** Makes the receiver fail, so that its events are retried. */
  shut(receiver: Receiver): void {
    receiver.answer = () => new Response(null, { status: 500 })
  }

  open(receiver: Receiver): void {
    receiver.answer = () => undefined
  }

  /** Numbers of all acknowledged events. */
  get acknowledged(): ReadonlyArray<number> {
    return [...this.subject.sender.acknowledged]
  }

  async lane(name: string) {
    return (await this.subject.status()).lanes.find((lane) => lane.name === name)
  }

  /** Waits until at least `count` events are pending for a sink. */
  async waiting(name: string, count: number): Promise<void> {
    await this.until(async () => ((await this.lane(name))?.backlog ?? 0) >= count, `${name} has no ${count} waiting`)
  }

  /** Waits until a receiver has all these events, and records the missing ones. */
  async has(receiver: Receiver, numbers: ReadonlyArray<number>, name: string, seconds = 20): Promise<void> {
    await eventually(() => receiver.missing(numbers).length === 0, seconds, 50)
    const missing = receiver.missing(numbers).length
    if (missing === 0) return
    this.lost += missing
    const lanes = await this.subject.status().then(
      ({ lanes }) => lanes,
      () => [],
    )
    const states = lanes.filter(({ backlog, condition }) => backlog > 0 || condition !== "running")
    const told = states.map(
      ({ name, condition, backlog, message }) => `${name} is ${condition} with ${backlog}: ${message}`,
    )
    this.broken.push(
      `${missing} of ${numbers.length} are not at ${name}${told.length > 0 ? ` (${told.join("; ").slice(0, 300)})` : ""}`,
    )
  }

  /** Returns the largest number of times that a receiver got one event. */
  most(receiver: Receiver): number {
    return Math.max(0, ...receiver.times.values())
  }

  lost = 0

  /** Checks the work that must have continued. */
  async finish(): Promise<void> {
    this.#over = true
    await this.#load
    this.open(this.steady)
    if (this.relay !== undefined) {
      await this.has(this.steady, this.acknowledged, "the other sink")
      const { status } = await fetch(`http://${this.subject.admin}/healthz`).catch(() => ({ status: 0 }))
      this.check(status === 200, `/healthz answers ${status} in the end`)
    }
    const { refused } = this.subject.sender
    if (!this.mayRefuse && refused.size > 0)
      this.broken.push(`honest events were answered ${[...refused.keys()].join(", ")}`)
    if (this.steady.altered + this.a.altered + this.b.altered > 0) this.broken.push("events came altered")
    this.relay?.signal("SIGCONT")
    await this.end("SIGKILL")
    this.broken.push(...troubles(this.#log).map((line) => `the log holds a stack: ${line}`))
    await Promise.all([this.steady.goAway(), this.a.goAway(), this.b.goAway()])
    if (this.broken.length === 0) this.subject.remove()
  }
}
