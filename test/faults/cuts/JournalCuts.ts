/**
 * Cuts the conversation of a PostgreSQL journal at a byte of either direction and in every way that a network has, in
 * the clear and over TLS, each with its own relay.
 *
 * After each round the process lives, every delivery was answered with 202 or 503, and `/readyz` answered. Once the
 * proxy behaves, deliveries are accepted again, and every acknowledged event has arrived unaltered.
 */
import { CutProxy, type Direction, directions, type Kind, kinds } from "../../parts/CutProxy.ts"
import { makePostgres, type Postgres, missing as reasonToSkip } from "../../parts/Postgres.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import { eventually, memory, Subject, skipped } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { Draw } from "../simulation/Draw.ts"
import { delivery } from "./Cuts.ts"

/** How many bytes of a conversation are tried, of each kind and direction. */
const places = { long: 100, normal: 2 }
const batch = 3
/** Connections that a cut breaks. */
const times = 2
/** Seconds. A delivery is answered within `commitTimeout`, 3 of them. */
const patience = { cuts: 4, answer: 8, recovery: 20, rest: 45 }
/** MiB. */
const growth = 96

type Way = "plain" | "tls"

class Stage {
  readonly broken = new Set<string>()
  cuts = 0
  ended = 0
  refused = 0
  /** The slowest recovery, in milliseconds. */
  slowest = 0
  readonly way: Way
  readonly subject: Subject
  readonly receiver: Receiver
  readonly #postgres: Postgres
  readonly #proxy: CutProxy
  #lengths: Readonly<Record<Direction, number>> = { up: 0, down: 0 }
  #before = 0
  #pid = 0
  #over = false
  #kill: () => Promise<unknown> = async () => {}
  #log: () => string = () => ""

  private constructor(way: Way, subject: Subject, receiver: Receiver, postgres: Postgres, proxy: CutProxy) {
    this.way = way
    this.subject = subject
    this.receiver = receiver
    this.#postgres = postgres
    this.#proxy = proxy
  }

  static async make(options: Options, way: Way): Promise<Stage> {
    const postgres = await makePostgres({ tls: way === "tls" })
    const proxy = new CutProxy(() => postgres.port)
    await proxy.listen()
    const url = postgres.url.replace(postgres.address, `127.0.0.1:${proxy.port}`)
    const ca = postgres.certificates?.ca
    const journal =
      ca === undefined ? { url: `${url}?sslmode=disable` } : { url: `${url}?sslmode=verify-full`, tls: { ca } }
    const receiver = new Receiver()
    const sinks = { good: { type: "http", url: receiver.url } }
    const subject = await Subject.make(options, {
      sinks,
      delivery,
      journal: { type: "postgres", name: way, ...journal },
    })
    const stage = new Stage(way, subject, receiver, postgres, proxy)
    const relay = await subject.start()
    stage.#pid = relay.pid
    stage.#kill = () => relay.kill("SIGKILL")
    stage.#log = () => relay.stderr().trimEnd().split("\n").slice(-3).join(" ")
    void relay.exited.then(() => {
      if (stage.#over) return
      stage.ended += 1
      stage.#say(`the process ended: ${stage.#log()}`)
    })
    proxy.reset()
    if (!(await stage.#recovers())) throw new Error(`uncut, the journal by ${way} takes nothing`)
    stage.#lengths = proxy.longest
    stage.#before = memory(relay.pid)
    return stage
  }

  #say(what: string): void {
    this.broken.add(`${this.way}: ${what}`)
  }

  /** Reports whether deliveries are accepted again and `/readyz` agrees. */
  async #recovers(): Promise<boolean> {
    const began = performance.now()
    const takes = async () => (await this.#send("afterwards")) === 202 && (await this.#ready()) === 200
    const isBack = await eventually(async () => this.ended > 0 || (await takes()), patience.recovery, 50)
    this.slowest = Math.max(this.slowest, performance.now() - began)
    return isBack
  }

  /** The status of `/readyz`; it answers whatever the database does. */
  async #ready(): Promise<number> {
    const signal = AbortSignal.timeout(2_000)
    return fetch(`http://${this.subject.admin}/readyz`, { signal }).then(
      ({ status }) => status,
      () => 0,
    )
  }

  async #send(what: string): Promise<number> {
    const began = performance.now()
    const status = (await this.subject.sender.send()) ?? 0
    if (this.ended > 0) return status
    if (status !== 202 && status !== 503) this.#say(`${what}: a delivery was answered ${status}`)
    if (performance.now() - began > patience.answer * 1_000) this.#say(`${what}: a delivery waited too long`)
    if (status === 503) this.refused += 1
    return status
  }

  /** Returns false if later rounds make no sense. */
  async play(kind: Kind, direction: Direction, share: number): Promise<boolean> {
    const what = `${kind} ${direction} at ${share.toFixed(3)}`
    this.#proxy.arm({ kind, direction, at: Math.floor(share * this.#lengths[direction]), times })
    const isCut = async () => {
      await Promise.all(Array.from({ length: batch }, () => this.#send(what)))
      const ready = await this.#ready()
      if (ready !== 200 && ready !== 503 && this.ended === 0) this.#say(`${what}: /readyz answered ${ready}`)
      return this.#proxy.broken >= times || this.ended > 0
    }
    await eventually(isCut, patience.cuts, 50)
    this.cuts += this.#proxy.broken
    this.#proxy.behave()
    if (!(await this.#recovers()))
      this.#say(`${what}: nothing was accepted for ${patience.recovery} seconds afterwards: ${this.#log()}`)
    else if (!(await this.subject.drained(patience.rest))) this.#say(`${what}: it did not drain`)
    else return this.ended === 0
    return false
  }

  /** Returns the number of acknowledged events that never arrived, and records other violations. */
  async end(): Promise<number> {
    const grown = memory(this.#pid) - this.#before
    if (grown > growth) this.#say(`it grew by ${grown.toFixed(0)} MiB`)
    this.#over = true
    await this.#kill()
    const lost = this.receiver.missing(this.subject.sender.acknowledged).length
    if (this.receiver.altered > 0) this.#say(`${this.receiver.altered} came altered`)
    if (this.subject.sender.unspecific > 0) this.#say("a 503 did not say when to come back")
    await Promise.all([this.#proxy.close(), this.receiver.goAway(), this.#postgres.stop()])
    if (lost + this.broken.size === 0) this.subject.remove()
    return lost
  }
}

const run = async (options: Options): Promise<Outcome> => {
  const why = reasonToSkip()
  if (why !== undefined) return skipped(why)
  const stages = await Promise.all((["plain", "tls"] as const).map((way) => Stage.make(options, way)))
  const count = options.long ? places.long : places.normal
  const rounds = Array.from({ length: count }, (_, place) =>
    kinds.flatMap((kind) => directions.map((direction) => ({ kind, direction, place }))),
  ).flat()
  let played = 0
  const lost = await Promise.all(
    stages.map(async (stage) => {
      const draw = new Draw(options.seed, `journal-${stage.way}`)
      for (const { kind, direction, place } of rounds) {
        const share = options.long ? place / count : draw.next()
        // A freeze takes its whole wait, so the short form has only one.
        if (kind === "freeze" && place > 0 && !options.long) continue
        played += 1
        if (!(await stage.play(kind, direction, share))) break
      }
      return stage.end()
    }),
  )
  const sum = (of: (stage: Stage) => number) => stages.reduce((all, stage) => all + of(stage), 0)
  return {
    rounds: played,
    acknowledged: sum(({ subject }) => subject.sender.acknowledged.size),
    lost: lost.reduce((all, one) => all + one, 0),
    duplicates: 0,
    broken: stages.flatMap(({ broken }) => [...broken]),
    notes: [
      `PostgreSQL in the clear and by TLS × ${directions.length} directions × ${kinds.length} kinds: ${sum(({ cuts }) => cuts)} cuts; processes ended: ${sum(({ ended }) => ended)}`,
      `refused with 503: ${sum(({ refused }) => refused)}; accepted again after ${Math.max(...stages.map(({ slowest }) => slowest)).toFixed(0)} ms at most`,
    ],
  }
}

export const journalCuts: Line = {
  name: "cuts-journal",
  fault: "the conversation with PostgreSQL is cut at any byte",
  run,
}
