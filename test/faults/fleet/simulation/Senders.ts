/** Senders of events to a simulated fleet. They resend events that were not acknowledged. */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../../../src/journal/Journal.ts"
import { event } from "../../../journal/samples.ts"
import type { Draw } from "../../simulation/Draw.ts"
import type { Time } from "./Machines.ts"
import { guest, hasGuest } from "./Operators.ts"
import { deniedTable, deniedText, unheldAccount } from "./Refusals.ts"
import type { Life, Relays } from "./Relays.ts"
import type { Shard } from "./Shards.ts"
import { named, type SinkKind } from "./Sinks.ts"

export interface SendersOptions {
  readonly time: Time
  readonly draw: Draw
  readonly relays: Relays
  readonly shards: ReadonlyArray<Shard>
  /** Odd while a failover may lose stored events, and a new number after it did. */
  readonly losses: () => number
  /** Called when an event was acknowledged. If `isBound`, no failover can have lost it. */
  readonly accept: (id: string, isBound: boolean) => void
  /**
   * The journal deletes events seconds after their delivery. Then a commit whose answer was lost may be gone when it is
   * sent again, and only its delivery's key is left: it counts as a duplicate.
   */
  readonly isPruned: boolean
  /** Violations of the guarantees. */
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
    life = this.#options.relays.any,
  ): boolean {
    const { time, shards, losses, accept, isPruned, broken } = this.#options
    if (life === undefined || life.machine.isFrozen) return false
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
    // If a frozen or dead machine has not answered in time, the event is resent elsewhere.
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
        if (isFirst && answer === "duplicate" && !isPruned)
          broken.add(`${id} was sent once, and answered as a duplicate`)
        if (accountId === unheldAccount) broken.add(`${id} was acknowledged, and the database can't hold it`)
        const { link } = shards[shard] ?? {}
        if (link?.isCut === false && shards.some(({ link }) => link.isCut)) this.meanwhile += 1
      } else {
        const { message } = result.failure
        // An event that is resent while its commit is in progress may get another event's refusal.
        if (isFirst && accountId !== unheldAccount && message.includes(deniedText))
          broken.add(`${id} was refused for another event's text: ${message}`)
        this.#refused(result.failure, parts)
      }
      over(result._tag === "Success")
    })
    return true
  }

  /**
   * Checks that no event is refused for lack of space, and that a relay knows of each refusal by the database except
   * those for text.
   */
  #refused({ message, reason }: JournalError, parts: Life["parts"]): void {
    const { broken } = this.#options
    if (reason._tag === "JournalFull" && reason.cause !== "disk") broken.add(`an event was refused: ${message}`)
    const states = parts.flatMap(({ journal }) => (journal === undefined ? [] : Effect.runSync(journal.status)))
    for (const state of states)
      if (state.message.includes(deniedText)) broken.add(`a relay isn't ready because of one event: ${state.message}`)
    // A refusal that names the failed append is the relay's own, and the relay may be ready again by now.
    if (!message.includes(deniedTable) || message.includes("deliveries are refused until")) return
    if (states.length > 0 && states.every(({ health }) => health === "ok" || health === "red"))
      broken.add(`a relay whose append failed says that it is ready: ${message}`)
  }

  /**
   * Sends the next event of a key to some relay once the previous event was acknowledged. An unacknowledged event is
   * resent.
   */
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

  /** Sends an event without an order, to the plain sink alone. */
  sendPlain(number: number): void {
    this.#append(`plain-${number}`, `acct_${Math.floor(number / 15)}`, ["plain"], () => {})
  }

  /** To the guest alone, by a relay that has it. */
  sendGuest(number: number): void {
    const id = `guest-${number}`
    this.guests.push(id)
    const life = this.#options.relays.any
    if (life !== undefined && hasGuest(life.version)) this.#append(id, `acct_${number}`, [guest], () => {}, life)
  }

  /** An event that the database can't hold, and another to the same relay at the same moment: they may share a commit. */
  sendUnheld(number: number): void {
    const life = this.#options.relays.any
    const kinds: ReadonlyArray<SinkKind> = number % 2 === 0 ? ["plain"] : ["plain", "ordered"]
    this.#append(`unheld-${number}`, unheldAccount, kinds, () => {}, life)
    this.#append(`beside-${number}`, `acct_beside_${number}`, kinds, () => {}, life)
  }
}
