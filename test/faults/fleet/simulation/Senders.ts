/** Those who send events to a simulated fleet, and send again what was not acknowledged. */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../../../src/journal/Journal.ts"
import { event } from "../../../journal/samples.ts"
import type { Draw } from "../../simulation/Draw.ts"
import { deniedAppend, type Time } from "./Machines.ts"
import { guest, hasGuest } from "./Operators.ts"
import type { Life, Relays } from "./Relays.ts"
import type { Shard } from "./Shards.ts"
import { named, type SinkKind } from "./Sinks.ts"

export interface SendersOptions {
  readonly time: Time
  readonly draw: Draw
  readonly relays: Relays
  readonly shards: ReadonlyArray<Shard>
  /** Odd while what is stored may be lost by a failover; another number once it was. */
  readonly losses: () => number
  /** An event was acknowledged; no failover can have lost one that `isBound`. */
  readonly accept: (id: string, isBound: boolean) => void
  /** What did not hold. */
  readonly broken: Set<string>
}

export class Senders {
  readonly #options: SendersOptions
  /** By key, the number of the event that is being sent, or the next. */
  readonly #next = new Map<string, { number: number; isUnderWay: boolean }>()
  /** Events for the guest. */
  readonly guests: Array<string> = []
  /** Acknowledged in one database while another was away. */
  meanwhile = 0
  readonly #sent = new Set<string>()

  constructor(options: SendersOptions) {
    this.#options = options
  }

  /** To the database of its account, by the next relay that is drawn; `over` hears whether it was acknowledged. */
  #append(
    id: string,
    accountId: string,
    kinds: ReadonlyArray<SinkKind>,
    over: (isTaken: boolean) => void,
    suits: (life: Life) => boolean = () => true,
  ): boolean {
    const { time, relays, shards, losses, accept, broken } = this.#options
    const life = relays.any
    if (life === undefined || life.machine.isFrozen || !suits(life)) return false
    const { machine, parts, directory } = life
    if (parts.every(({ journal }) => journal === undefined)) return false
    const receivedAt = machine.clock.currentTimeMillisUnsafe()
    const before = losses()
    let isLate = false
    const isFirst = !this.#sent.has(id)
    this.#sent.add(id)
    const appended = Effect.gen(function* () {
      const shard = shards.length === 1 ? 0 : yield* directory.shardOf(accountId)
      const journal = parts[shard]?.journal
      if (journal === undefined) return yield* unavailable("simulated: the database is not there")
      const sinks = kinds.map((kind) => named(kind, life.version))
      return { shard, answer: yield* journal.append(event(id, { accountId, receivedAt }), sinks) }
    })
    // What a machine that stands still, or is dead, has not answered in time is sent again elsewhere.
    const cancel = time.after(3_000, () => {
      isLate = true
      over(false)
    })
    void Effect.runPromise(Effect.result(appended)).then((result) => {
      if (isLate || machine.isDead || machine.isFrozen) return
      cancel()
      if (result._tag === "Success") {
        accept(id, before % 2 === 0 && before === losses())
        const { shard, answer } = result.success
        if (isFirst && answer === "duplicate") broken.add(`${id} was sent once, and answered as a duplicate`)
        const { link } = shards[shard] ?? {}
        if (link?.isCut === false && shards.some(({ link }) => link.isCut)) this.meanwhile += 1
      } else this.#refused(result.failure, parts)
      over(result._tag === "Success")
    })
    return true
  }

  /** No event may be refused for want of room, and a relay knows of each refusal by the database. */
  #refused({ message, reason }: JournalError, parts: Life["parts"]): void {
    const { broken } = this.#options
    if (reason._tag === "JournalFull") broken.add(`an event was refused: ${message}`)
    // A refusal that names the failed append is the relay's own, and the relay may be ready again by now.
    if (!message.includes(deniedAppend) || message.includes("deliveries are refused until")) return
    const healths = parts.flatMap(({ journal }) => (journal === undefined ? [] : Effect.runSync(journal.status).health))
    if (healths.every((health) => health === "ok" || health === "red"))
      broken.add(`a relay whose append failed says that it is ready: ${message}`)
  }

  /** Sends the next event of a key to some relay, if the one before it was acknowledged; one that was not is sent again. */
  send(keys: number): void {
    const key = `key_${this.#options.draw.int(1, keys)}`
    const next = this.#next.get(key) ?? { number: 0, isUnderWay: false }
    this.#next.set(key, next)
    if (next.isUnderWay) return
    next.isUnderWay = this.#append(`${key}-${next.number}`, key, ["plain", "ordered"], (isTaken) => {
      next.isUnderWay = false
      if (isTaken) next.number += 1
    })
  }

  /** The same without an order: to the plain sink alone. */
  sendPlain(number: number): void {
    this.#append(`plain-${number}`, `acct_${Math.floor(number / 15)}`, ["plain"], () => {})
  }

  /** To the guest alone, by a relay that has it. */
  sendGuest(number: number): void {
    const id = `guest-${number}`
    this.guests.push(id)
    this.#append(
      id,
      `acct_${number}`,
      [guest],
      () => {},
      ({ version }) => hasGuest(version),
    )
  }
}
