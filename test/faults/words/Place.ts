/**
 * A sink's receiver, and the facts about the sink: the events routed to it, the events that the receiver took and
 * refused, and the operator's acts.
 */
import { bodyOf, numberOf, Receiver } from "../relay/Traffic.ts"

/** `refusing` refuses every fifth event for good, and takes the others; `denying` wants other credentials. */
export const modes = ["taking", "slow", "refusing", "failing", "denying", "away"] as const
export type Mode = (typeof modes)[number]
const passing: ReadonlySet<Mode> = new Set(["taking", "slow", "refusing"])

const refuses = (number: number): boolean => number % 5 === 0

/** Copies of an event by its number: a delivery has one idempotency key, and each replay another. */
class Keys {
  readonly #keys = new Map<number, Set<string>>()

  add(number: number, key: string): void {
    this.#keys.set(number, (this.#keys.get(number) ?? new Set()).add(key))
  }

  delete(number: number, key: string): void {
    this.#keys.get(number)?.delete(key)
  }

  clear(number: number): void {
    this.#keys.delete(number)
  }

  of(number: number): number {
    return this.#keys.get(number)?.size ?? 0
  }
}

export class Place {
  readonly receiver = new Receiver()
  mode: Mode = "taking"
  /** The mode of its last answer: the relay knows of no other until its next attempt. */
  answered: Mode = "taking"
  isPaused = false
  isInConfig = true
  /** All names that the sink has had. */
  readonly names = new Set<string>()
  /** Receipts since the relay's last start; a crash may repeat one. */
  receipts = 0
  /** Refusals since then. */
  refusals = 0
  /** Whether it refused, or could not be reached, since then. */
  readonly was = { refusing: false, unreachable: false, paused: false }
  /** How many copies of each event were routed to it. */
  readonly copies = new Map<number, number>()
  readonly #taken = new Keys()
  readonly #refused = new Keys()
  readonly #dropped = new Map<number, number>()
  readonly #givenUp = new Map<number, number>()
  readonly #moved = new Map<number, { readonly least: number; readonly most: number }>()
  /** The name before a rename. */
  renamedFrom: string | undefined

  name: string

  constructor(name: string) {
    this.name = name
    this.names.add(name)
    this.receiver.answer = (number, request) => this.#answer(number, request.headers.get("idempotency-key") ?? "")
  }

  async become(mode: Mode): Promise<void> {
    this.mode = mode
    if (mode === "away") await this.receiver.goAway()
    else this.receiver.comeBack()
    this.#note()
  }

  /** The relay has started, so its counts start again. */
  restarted(): void {
    this.receipts = 0
    this.refusals = 0
    Object.assign(this.was, { refusing: false, unreachable: false, paused: false })
    this.#note()
  }

  #note(): void {
    if (!passing.has(this.mode)) this.was.unreachable = true
  }

  async #answer(number: number, key: string): Promise<Response | undefined> {
    this.answered = this.mode
    if (this.mode === "slow") await Bun.sleep(30)
    if (this.mode === "failing") return new Response(null, { status: 500 })
    if (this.mode === "denying") return new Response(null, { status: 401 })
    if (this.mode === "refusing" && refuses(number)) {
      this.was.refusing = true
      this.refusals += 1
      this.#refused.add(number, key)
      return new Response(bodyOf(number), { status: 413 })
    }
    // A crash before the refusal was stored sends it again.
    this.#refused.delete(number, key)
    this.#taken.add(number, key)
    this.receipts += 1
    return undefined
  }

  /** Whether the sink gets the events routed to it. */
  get passes(): boolean {
    return this.isInConfig && !this.isPaused && passing.has(this.mode)
  }

  routed(number: number): void {
    this.copies.set(number, (this.copies.get(number) ?? 0) + 1)
  }

  taken(number: number): number {
    return this.#taken.of(number)
  }

  refused(number: number): number {
    return this.#refused.of(number)
  }

  /** Copies of an event that an operator dropped, or that an erasure gave up. */
  dropped(number: number): number {
    return (this.#dropped.get(number) ?? 0) + this.givenUp(number)
  }

  givenUp(number: number): number {
    return this.#givenUp.get(number) ?? 0
  }

  dead(number: number): number {
    return this.refused(number) - (this.#dropped.get(number) ?? 0)
  }

  waiting(number: number): number {
    return (this.copies.get(number) ?? 0) - this.taken(number) - this.refused(number) - this.givenUp(number)
  }

  /** An erasure gives up the copies that wait. */
  giveUp(number: number): void {
    this.#givenUp.set(number, this.givenUp(number) + this.waiting(number))
  }

  /** Sums a count over all events. */
  total(count: (number: number) => number): number {
    let total = 0
    for (const number of this.copies.keys()) total += count(number)
    return total
  }

  get owed(): number {
    return this.total((number) => this.waiting(number))
  }

  /** Describes the events that the sink has not got. */
  get missing(): ReadonlyArray<string> {
    return [...this.copies]
      .filter(([number]) => this.waiting(number) !== 0)
      .map(
        ([number, copies]) =>
          `evt_${number} of ${copies} copies, ${this.taken(number)} taken and ${this.refused(number)} refused`,
      )
  }

  /** A rename moves no event. */
  rename(name: string): void {
    this.renamedFrom = this.name
    this.name = name
    this.names.add(name)
  }

  /** An operator moves the events to another sink of the same receiver. */
  move(name: string): void {
    this.rename(name)
    this.renamedFrom = undefined
    this.isPaused = false
    for (const number of this.copies.keys()) {
      const held = this.waiting(number) + this.dead(number)
      const { least, most } = this.moved(number)
      this.#moved.set(number, { least: Math.max(least, held), most: most + held })
    }
  }

  /** The least and most moves that a search may list for an event: each move may miss it, if it had ended. */
  moved(number: number): { readonly least: number; readonly most: number } {
    return this.#moved.get(number) ?? { least: 0, most: 0 }
  }

  get deadLetters(): ReadonlyArray<number> {
    return [...this.copies.keys()].flatMap((number) => Array.from({ length: this.dead(number) }, () => number))
  }

  /** An operator dropped these dead letters, by event id. */
  drop(eventIds: ReadonlyArray<string>): void {
    for (const number of eventIds.map(numberOf)) this.#dropped.set(number, (this.#dropped.get(number) ?? 0) + 1)
  }

  /** An operator replayed all dead letters of these: each waits again, as if it had not been refused. */
  replay(eventIds: ReadonlyArray<string>): void {
    for (const number of eventIds.map(numberOf)) this.#refused.clear(number)
  }
}
