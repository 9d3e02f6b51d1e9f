/** A relay with its senders, its receivers and an operator who acts each round, and the facts about all of them. */

import { post, sign } from "../../lib/kit.ts"
import type { Relay } from "../../lib/relay.ts"
import { seeded } from "../../lib/seeded.ts"
import type { Options } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import { numberOf, path, secret } from "../relay/Traffic.ts"
import { modes, Place } from "./Place.ts"

/** Counts that restart with each start of the relay. */
const nothing = { accepted: 0, duplicates: 0, quarantined: 0, forged: 0, strays: 0 }

const undecodable = (number: number): string => `no envelope ${number}`

export class World {
  readonly random: () => number
  readonly places = ["one", "two", "three"].map((name) => new Place(name))
  readonly accepted: Array<number> = []
  counted = { ...nothing }
  /** Dead letters of the quarantine. */
  quarantined = 0
  /** Number of events in the log, whatever their outcome. */
  appended = 0
  /** The maximum number of copies beyond these: a move appends pending events again, but no retries. */
  moved = 0
  /** Erased events. */
  readonly erased = new Set<number>()
  /** Whether the last reload must be reported as refused. */
  isRefused = false
  /** Sinks came, went or changed their names since the start: a sink's counts may restart. */
  isRebuilt = false
  /**
   * Expected counts of the last hour: at most these, and at least these less `forgotten`, which a crash may have cost.
   */
  readonly hour = { received: 0, refused: 0, delivered: 0 }
  readonly forgotten = { received: 0, refused: 0, delivered: 0 }
  readonly replays: Array<{ readonly id: string; readonly sink: string; readonly count: number }> = []
  readonly startedAt = Date.now()
  #relay: Relay
  #bad = 0

  readonly subject: Subject

  private constructor(subject: Subject, relay: Relay, seed: number) {
    this.subject = subject
    this.random = seeded(seed)
    this.#relay = relay
  }

  static async make(options: Options, seed: number): Promise<World> {
    const subject = await Subject.make(options, { sinks: {} })
    const draft = new World(subject, undefined as unknown as Relay, seed)
    draft.#write()
    draft.#relay = await subject.start()
    return draft
  }

  get log(): string {
    return this.#relay.stdout() + this.#relay.stderr()
  }

  #write(more: object = {}): void {
    const there = this.places.filter(({ isInConfig }) => isInConfig)
    const sinks = there.map(({ name, renamedFrom, receiver }) => [
      name,
      { type: "http", url: receiver.url, ...(renamedFrom !== undefined && { renamedFrom }) },
    ])
    this.subject.write("relay.config.json", {
      sinks: Object.fromEntries(sinks),
      routes: [{ name: "everything", match: "**", to: there.map(({ name }) => name) }],
      ...more,
    })
  }

  pick<A>(from: ReadonlyArray<A>): A | undefined {
    return from[Math.floor(this.random() * from.length)]
  }

  /**
   * Plays a step of the operator or of a fault, drawn by the seed, and returns its name. No step repeats before the
   * others have come.
   */
  async step(): Promise<string> {
    for (;;) {
      if (this.#deck.length === 0) this.#deck = [...this.#steps]
      const [step] = this.#deck.splice(Math.floor(this.random() * this.#deck.length), 1)
      const done = await step?.()
      if (done !== "") return done ?? ""
    }
  }

  readonly #steps: ReadonlyArray<() => Promise<string>> = [
    () => this.#change(),
    () => this.#change(),
    () => this.#pause(),
    () => this.#settleDeadLetters(),
    () => this.#settleDeadLetters(),
    () => this.#replay(),
    () => this.#rename(),
    () => this.moveReplay(),
    () => this.erase(),
    () => this.#comeOrGo(),
    () => this.#spoil(),
    () => this.#restart("SIGTERM"),
    () => this.#restart("SIGKILL"),
  ]
  #deck: Array<() => Promise<string>> = []

  /** Every life has dead letters: a sink refuses some of its events. */
  async refuse(): Promise<string> {
    const place = this.pick(this.places)
    await place?.become("refusing")
    return `${place?.name} is refusing`
  }

  /** Each sink gets its events. */
  async mend(): Promise<void> {
    for (const place of this.places) {
      if (place.mode !== "taking") await place.become("taking")
      if (place.isPaused && place.isInConfig) await this.#tell(place, "resume")
    }
  }

  async send(): Promise<void> {
    const count = 3 + Math.floor(this.random() * 8)
    for (let sent = 0; sent < count; sent++) await this.#deliver()
    const draw = this.random()
    if (draw < 0.2) await this.#repeat()
    else if (draw < 0.4) await this.#quarantine()
    else if (draw < 0.6) await this.#forge()
    else if (draw < 0.8) await this.#stray()
  }

  async #deliver(): Promise<void> {
    const number = this.subject.sender.next
    await this.#expect("a delivery", 202, this.subject.sender.send())
    this.accepted.push(number)
    this.appended += 1
    this.#received()
    for (const place of this.places) if (place.isInConfig) place.routed(number)
  }

  #received(): void {
    this.counted.accepted += 1
    this.hour.received += 1
  }

  async #repeat(): Promise<void> {
    const number = this.random() < 0.5 ? this.accepted.at(-1) : [...this.erased].at(-1)
    if (number === undefined) return
    await this.#expect("a repeated delivery", 202, this.subject.sender.send(number))
    this.counted.duplicates += 1
    this.#received()
  }

  async #quarantine(): Promise<void> {
    await this.#expect("what is no envelope", 202, this.#post(undecodable(this.#bad++)))
    this.counted.quarantined += 1
    this.quarantined += 1
    this.appended += 1
    this.#received()
  }

  async #forge(): Promise<void> {
    await this.#expect("a forged delivery", 401, this.#post("{}", "another secret"))
    this.counted.forged += 1
    this.hour.refused += 1
  }

  async #stray(): Promise<void> {
    await this.#expect("an unknown path", 404, this.#post("{}", secret, "/nowhere"))
    this.counted.strays += 1
    this.hour.refused += 1
  }

  async #post(body: string, key = secret, to = path): Promise<number> {
    const url = `http://127.0.0.1:${this.subject.port}${to}`
    return (await post(url, body, { "x-service-signature": sign(body, key) })).status
  }

  async #expect(what: string, wanted: number, status: Promise<number | undefined>): Promise<void> {
    const found = await status
    if (found !== wanted) throw new Error(`${what} was answered ${found}, not ${wanted}`)
  }

  async #change(): Promise<string> {
    const place = this.pick(this.places)
    const mode = this.pick(modes.filter((one) => one !== place?.mode))
    if (place === undefined || mode === undefined) return ""
    await place.become(mode)
    return `${place.name} is ${mode}`
  }

  async #tell(place: Place, verb: "pause" | "resume"): Promise<void> {
    await this.#ask(`/lanes/${place.name}/${verb}`)
    place.isPaused = verb === "pause"
    if (place.isPaused) place.was.paused = true
  }

  async #ask<A>(path: string, payload?: object): Promise<A> {
    const [status, text] = await this.subject.tell(path, payload)
    if (status >= 300) throw new Error(`${path} was answered ${status}: ${text}`)
    return (text === "" ? undefined : JSON.parse(text)) as A
  }

  async #pause(): Promise<string> {
    const place = this.pick(this.places.filter(({ isInConfig }) => isInConfig))
    if (place === undefined) return ""
    const verb = place.isPaused ? "resume" : "pause"
    await this.#tell(place, verb)
    return `${verb} ${place.name}`
  }

  /** Drops dead letters, or replays them once the receiver takes them. */
  async #settleDeadLetters(): Promise<string> {
    if (this.quarantined > 0 && this.random() < 0.2) {
      const { count } = await this.#ask<{ count: number }>("/dead-letters/drop", { sink: "_quarantine" })
      if (count !== this.quarantined) throw new Error(`${count} of ${this.quarantined} quarantined were dropped`)
      this.quarantined = 0
      return "drop the quarantine"
    }
    const place = this.pick(this.places.filter(({ isInConfig, deadLetters }) => isInConfig && deadLetters.length > 0))
    if (place === undefined) return ""
    const letters = await this.#letters(place)
    const isDropped = place.mode === "refusing" || this.random() < 0.5
    const chosen = isDropped
      ? letters.filter(() => this.random() < 0.6)
      : letters.filter((letter) => this.#isWhole(place, letter))
    if (chosen.length === 0) return ""
    await this.#ask(`/dead-letters/${isDropped ? "drop" : "replay"}`, { ids: chosen.map(({ id }) => id) })
    const events = chosen.map(({ eventId }) => eventId)
    if (isDropped) place.drop(events)
    else place.replay(events)
    return `${isDropped ? "drop" : "replay"} ${chosen.length} dead letters of ${place.name}`
  }

  /** Reports whether all letters of an event can be replayed: none was dropped or erased. */
  #isWhole(place: Place, { eventId }: { readonly eventId: string }): boolean {
    const number = numberOf(eventId)
    return place.dropped(number) === 0 && !this.erased.has(number)
  }

  /**
   * Erases an event with all its copies, if possible with a dead letter or pending at a paused sink. The sink gives it
   * up. Elsewhere an attempt may be under way.
   */
  async erase(): Promise<string> {
    const isStill = (place: Place, number: number) =>
      place.waiting(number) === 0 || (place.isPaused && place.isInConfig)
    const still = this.accepted.filter(
      (number) => !this.erased.has(number) && this.places.every((place) => isStill(place, number)),
    )
    const isHeld = (number: number) => this.places.some((place) => place.waiting(number) + place.dead(number) > 0)
    const number = this.pick(still.filter(isHeld)) ?? this.pick(still)
    if (number === undefined) return ""
    await this.#ask("/events/erase", { event: `evt_${number}`, giveUp: true })
    this.erased.add(number)
    for (const place of this.places) place.giveUp(number)
    return `erase ${number}`
  }

  async #letters(place: Place): Promise<ReadonlyArray<{ readonly id: string; readonly eventId: string }>> {
    return JSON.parse(await this.subject.ask(`/api/v1/dead-letters?limit=1000&sink=${place.name}`))
  }

  /** Every life moves a replay: it waits while another sink of the same receiver replaces its sink. */
  async moveReplay(): Promise<string> {
    const place = this.pick(this.places.filter(({ mode, isInConfig }) => isInConfig && mode !== "refusing"))
    if (place === undefined) return ""
    await this.#tell(place, "pause")
    const replay = await this.#replay([place])
    const before = place.name
    this.moved += place.owed
    place.move(`${before}-${place.names.size}`)
    this.isRebuilt = true
    await this.#reload()
    await this.#ask(`/lanes/${before}/move`, { to: place.name })
    return `pause ${before}, ${replay}, move ${before} to ${place.name}`
  }

  /** Sends an event again to one sink. */
  async #replay(places: ReadonlyArray<Place> = this.places): Promise<string> {
    const place = this.pick(places.filter(({ isInConfig, mode }) => isInConfig && mode !== "refusing"))
    const number = this.pick(this.accepted.filter((one) => !this.erased.has(one)))
    if (place === undefined || number === undefined) return ""
    const request = { events: { id: `evt_${number}` }, to: { sink: place.name } }
    const { id } = await this.#ask<{ id: string }>("/replays", request)
    place.routed(number)
    this.appended += 1
    this.replays.unshift({ id, sink: place.name, count: 1 })
    return `replay ${number} to ${place.name}`
  }

  async #reload(): Promise<void> {
    this.#write()
    await this.#ask("/reload")
    this.isRefused = false
  }

  async #rename(): Promise<string> {
    const place = this.pick(this.places.filter(({ isInConfig }) => isInConfig))
    if (place === undefined) return ""
    const before = place.name
    place.rename(before.endsWith("-b") ? before.slice(0, -2) : `${before}-b`)
    this.isRebuilt = true
    await this.#reload()
    return `${before} becomes ${place.name}`
  }

  async #comeOrGo(): Promise<string> {
    const place =
      this.places.find(({ isInConfig }) => !isInConfig) ?? this.pick(this.places.filter((place) => !place.isPaused))
    if (place === undefined) return ""
    place.isInConfig = !place.isInConfig
    this.isRebuilt = true
    await this.#reload()
    return `${place.name} ${place.isInConfig ? "comes back" : "leaves the config"}`
  }

  /** Reloads a config that is wrong, and puts the right one back without a reload. */
  async #spoil(): Promise<string> {
    this.#write({ routes: [{ name: "everything", match: "**", to: "nobody" }] })
    const [status] = await this.subject.reload()
    if (status < 400) throw new Error(`a wrong config was answered ${status}`)
    this.#write()
    this.isRefused = true
    return "a wrong config is refused"
  }

  async #restart(signal: NodeJS.Signals): Promise<string> {
    this.#endLife(signal === "SIGKILL")
    await this.#relay.kill(signal)
    this.#relay = await this.subject.start()
    this.counted = { ...nothing }
    this.isRefused = false
    this.isRebuilt = false
    this.replays.length = 0
    for (const place of this.places) place.restarted()
    return signal
  }

  /** A crash may lose the counts since the start. It loses no more, because a stop stores all of them. */
  #endLife(isCrash: boolean): void {
    const delivered = this.delivered
    this.hour.delivered += delivered
    if (!isCrash) return
    const { accepted, forged, strays } = this.counted
    this.forgotten.received += accepted
    this.forgotten.refused += forged + strays
    this.forgotten.delivered += delivered
  }

  /** Receipts at all sinks since the start. */
  get delivered(): number {
    return this.places.reduce((sum, { receipts }) => sum + receipts, 0)
  }

  async end(): Promise<void> {
    await this.#relay.kill()
    await Promise.all(this.places.map(({ receiver }) => receiver.goAway()))
  }
}
