/**
 * The rules that must always hold: the relay's promise as code of its own, which knows nothing of how the relay keeps
 * it.
 *
 * It observes from outside: the answers to senders, the arrivals at sinks and their answers, the journal's
 * confirmations, and at the end the dead letters. It outlives every crash. The first broken rule ends the seed.
 */

import type { Entry, Event } from "../../../src/event/Event.ts"
import { idempotencyKey } from "../../../src/event/IdempotencyKey.ts"
import type { Settlement, StoredDeadLetter } from "../../../src/journal/Journal.ts"
import { History, type Known, type Receipt, type Rules, type Sending, type Verdict } from "./Facts.ts"
import { Groups } from "./Groups.ts"
import { Moves } from "./Moves.ts"

/** Longer than any seed's events grow old, in milliseconds. */
const aSeed = 300_000
const hour = 3_600_000

const isNamesake = (one: Event, other: Event): boolean =>
  one.id !== "" && one.id === other.id && one.problem === undefined && other.problem === undefined

/** Kept again after the window, a body's copy may have been the first of its id. */
const isKeptOnce = ({ sendings }: Known): boolean =>
  sendings.filter(({ state }) => state === "appended" || state === "open").length === 1

export class Oracle extends History {
  steps = 0
  clockJumped = false
  /** A rename appends events again if events of the new name came first. Then the two have no common order. */
  isRenamedApart = false
  /** By how much the wall clock was set in this life, in milliseconds, and when it was last. */
  #clockSet = { by: 0, at: 0 }
  readonly rules = new Map<string, Rules>()
  readonly #known = new Map<number | bigint, Known>()
  readonly #receipts = new Map<string, Map<number, Receipt>>()
  /** By lane, the receipts that the sink has taken and no settlement has yet. */
  #unsettled = new Map<string, Array<Receipt>>()
  /** By sink, webhook and idempotency key. */
  readonly #byKey = new Map<string, Known>()
  /** Dead letters that the operator has replayed: newer events of their keys may have been sent before. */
  readonly #returned = new Set<number>()
  #replays: Array<{ readonly sequence: number; readonly sink: string; readonly known: Known }> = []
  /** Deliveries that one crash repeated, by life and sink. */
  readonly #repeats = new Map<string, number>()
  readonly #asked: Array<{ readonly type: string; readonly sink: string }> = []
  #settlingFails = false
  #lost = 0
  readonly moves = new Moves()
  readonly #groups = new Groups(this)

  // --- what happens ---------------------------------------------------------

  /** A body is appended to the journal. */
  sending(event: Event, sinks: ReadonlyArray<string>): { readonly known: Known; readonly sending: Sending } {
    const id = Bun.hash(event.body)
    const known = this.#known.get(id) ?? {
      name:
        event.id === ""
          ? `the body that starts with ${JSON.stringify(new TextDecoder().decode(event.body.slice(0, 20)))}`
          : event.id,
      event,
      sendings: [],
      promised: new Set<string>(),
      namesakes: new Set<Known>(),
    }
    this.#known.set(id, known)
    const sending: Sending = { sinks, at: event.receivedAt, life: this.life, state: "open" }
    known.sendings.push(sending)
    this.note(`${known.name} is sent, for ${sinks.join(", ") || "nobody"}`, known)
    return { known, sending }
  }

  refused(known: Known, sending: Sending, final: boolean, why: string): void {
    // After a failed fsync the contents of the disk are unknown.
    if (!final) sending.state = "refused"
    this.note(`${known.name} is refused: ${why}`, known)
  }

  /** The sender was answered. `remembered` reports whether the relay must still recognise a duplicate of it. */
  acknowledged(
    known: Known,
    sending: Sending,
    as: "appended" | "duplicate",
    remembered: (first: Sending) => boolean,
  ): void {
    this.note(`${known.name} is acknowledged: ${as}`, known)
    const before = known.sendings.filter(
      (other) => other !== sending && other.state !== "refused" && other.state !== "duplicate",
    )
    sending.state = as
    if (as === "appended") {
      for (const sink of sending.sinks) known.promised.add(sink)
      const first = before.findLast((other) => other.state === "appended")
      if (first !== undefined && remembered(first)) this.fail("a duplicate was kept as an event of its own", known)
      for (const other of this.#known.values()) {
        if (
          other !== known &&
          isNamesake(other.event, known.event) &&
          other.sendings.some((sending) => sending.state === "appended" && remembered(sending))
        )
          known.namesakes.add(other)
      }
      return
    }
    if (before.length === 0) this.fail("answered as a duplicate, and nothing like it was kept", known)
    // From outside, any of the possible bodies may be in the journal.
    for (const sink of before[0]?.sinks ?? []) {
      if (before.every(({ sinks }) => sinks.includes(sink))) known.promised.add(sink)
    }
  }

  // --- at the sinks ---------------------------------------------------------

  sent(sink: string, entry: Entry): void {
    const receipt = this.#receipt(sink, entry)
    if (receipt === undefined) return
    // A moved event that waited for a retry keeps its sequence, so it may have been here before.
    if (!this.moves.isMixed(sink)) this.#again(sink, receipt)
    receipt.sends += 1
    receipt.answer = "open"
    receipt.life = this.life
  }

  /** Events that the operator moved have no groups. */
  together(sink: string, batch: ReadonlyArray<Entry>): void {
    if (this.moves.isMixed(sink)) return
    const mayBeDead = (sequence: number) => this.#mayBeDead(sink, sequence)
    this.#groups.together(sink, batch, mayBeDead, (entry) => this.#isReplay(entry))
  }

  isolated(sink: string, batch: ReadonlyArray<Entry>): void {
    this.#groups.isolated(sink, batch)
  }

  #mayBeDead(sink: string, sequence: number): boolean {
    const receipt = this.#receipts.get(sink)?.get(sequence)
    const { maxAttempts = 0, maxAge = 0 } = this.rules.get(sink) ?? {}
    const givesUp = maxAttempts < Number.POSITIVE_INFINITY || maxAge < aSeed || this.clockJumped
    return receipt?.rejected === true || (givesUp && receipt?.answer === "not taken")
  }

  /** The sink has taken the event, but may still answer otherwise. */
  took(sink: string, entry: Entry): void {
    const receipt = this.#receipt(sink, entry)
    if (receipt === undefined) return
    this.note(`${sink} takes ${receipt.known.name} as #${entry.sequence}`, receipt.known)
    receipt.applied += 1
    this.#compareByKey(sink, entry, receipt.known)
    const rules = this.rules.get(sink)
    if (rules?.order !== true || this.moves.isMixed(sink)) return
    const [origin, ...others] = this.#origins(sink, receipt.known)
    // If a body was sent under both names, nobody outside can tell which of them this is.
    if (origin === undefined || others.length > 0) return
    if (receipt.applied === 1 && !this.#isReplay(entry) && entry.event.accountId !== "")
      this.#groups.ordered(sink, this.isRenamedApart ? origin : sink, entry, receipt, rules)
  }

  #isReplay({ sequence, replayed }: Entry): boolean {
    return replayed || this.#returned.has(sequence)
  }

  /**
   * Returns the lanes that the event was routed to and that may have brought it to the sink: its own lane, and
   * the lanes of its former names.
   */
  #origins(sink: string, { sendings }: Known): ReadonlyArray<string> {
    const routed = new Set(sendings.flatMap(({ sinks }) => sinks))
    return [...routed].filter((lane) => this.moves.after(lane).has(sink))
  }

  /** Checks that different events have different idempotency keys: a receiver may drop known keys. */
  #compareByKey(sink: string, entry: Entry, known: Known): void {
    const key = `${sink} ${entry.event.webhook} ${idempotencyKey(entry)}`
    const before = this.#byKey.get(key) ?? known
    this.#byKey.set(key, before)
    const apart = before.namesakes.has(known) || known.namesakes.has(before)
    if (apart && isKeptOnce(before) && isKeptOnce(known))
      this.fail(`${sink} gets two events under one idempotency key, ${idempotencyKey(entry)}`, known)
  }

  answered(sink: string, entry: Entry, answer: "taken" | "rejected" | "not taken", why: string): void {
    const receipt = this.#receipt(sink, entry)
    if (receipt === undefined) return
    if (answer === "taken") {
      const unsettled = this.#unsettled.get(sink) ?? []
      unsettled.push(receipt)
      this.#unsettled.set(sink, unsettled)
    } else this.note(`${sink} answers for ${receipt.known.name}, #${entry.sequence}: ${why}`, receipt.known)
    receipt.answer = answer === "taken" ? "taken" : "not taken"
    receipt.rejected ||= answer === "rejected"
  }

  #receipt(sink: string, entry: Entry): Receipt | undefined {
    const receipts = this.#receipts.get(sink) ?? new Map<number, Receipt>()
    this.#receipts.set(sink, receipts)
    const found = receipts.get(entry.sequence)
    const known = this.#recognise(sink, entry)
    if (known === undefined) return undefined
    if (found !== undefined) {
      if (found.known !== known) this.fail(`#${entry.sequence} was ${found.known.name} before`, known)
      return found
    }
    const receipt: Receipt = {
      known,
      firstSentAt: this.now(),
      firstLife: this.life,
      sends: 0,
      applied: 0,
      rejected: false,
      answer: "open",
      life: this.life,
      stored: false,
    }
    receipts.set(entry.sequence, receipt)
    return receipt
  }

  /** Checks that the bytes are as they were sent, and that the entry is at a right place. */
  #recognise(where: string, entry: Entry): Known | undefined {
    const { event } = entry
    const known = this.#known.get(Bun.hash(event.body))
    if (known === undefined || Buffer.compare(known.event.body, event.body) !== 0) {
      this.fail(`at ${where}, #${entry.sequence} (${event.id}) has a body that nobody sent`)
      return undefined
    }
    const { id, type, accountId, webhook, webhookId, signature } = known.event
    const same =
      event.id === id &&
      event.type === type &&
      event.accountId === accountId &&
      event.webhook === webhook &&
      event.webhookId === webhookId &&
      event.signature === signature
    if (!same) this.fail(`at ${where}, what stands beside the body is not what was sent`, known)
    const replayed = this.#asked.some((one) => one.type === event.type && this.moves.after(one.sink).has(where))
    const routed = known.sendings.some(({ sinks }) => sinks.some((sink) => this.moves.after(sink).has(where)))
    if (!routed && !replayed) this.fail(`${where} gets an event that was not routed to it`, known)
    return known
  }

  /**
   * Checks an event that is sent again although the sink has taken it. Only a crash may repeat events, up to the bound.
   */
  #again(sink: string, receipt: Receipt): void {
    if (receipt.stored) this.fail(`${sink} gets it again although its end was on disk`, receipt.known)
    if (receipt.applied === 0 || receipt.answer === "not taken") return
    if (receipt.life === this.life) {
      this.fail(
        `${sink} gets it again in the same life, and had ${receipt.answer === "taken" ? "taken it" : "not answered"}`,
        receipt.known,
      )
      return
    }
    const crash = `${receipt.life} ${sink}`
    const repeats = (this.#repeats.get(crash) ?? 0) + 1
    this.#repeats.set(crash, repeats)
    const bound = this.rules.get(sink)?.bound
    this.note(`${sink} gets ${receipt.known.name} again after a crash`, receipt.known)
    if (bound !== undefined && repeats > bound)
      this.fail(`a crash repeated ${repeats} deliveries at ${sink}, its bound is ${bound}`, receipt.known)
  }

  // --- the journal's confirmations, and the operator's acts ---------------------

  /** A settlement is on its way; the answer says how it ended. */
  settling(settlements: ReadonlyArray<Settlement>): (isStored: (lane: string) => boolean) => void {
    const taken = settlements.map(({ lane }) => [lane, this.#unsettled.get(lane) ?? []] as const)
    for (const [lane] of taken) this.#unsettled.delete(lane)
    if (Math.abs(this.#clockSet.by) >= hour && this.now() > this.#clockSet.at + 1_000) this.#notByAge(settlements)
    return (isStored) => {
      this.#settlingFails = !taken.every(([lane]) => isStored(lane))
      for (const [lane, receipts] of taken) {
        if (isStored(lane)) for (const receipt of receipts) receipt.stored = true
        else this.#unsettled.set(lane, [...receipts, ...(this.#unsettled.get(lane) ?? [])])
      }
    }
  }

  /** The wall clock was set some time ago and can't be trusted: nothing is too old now. */
  #notByAge(settlements: ReadonlyArray<Settlement>): void {
    for (const { lane, deadLetter } of settlements) {
      if (this.rules.get(lane)?.maxAttempts !== Number.POSITIVE_INFINITY) continue
      for (const { sequence, failed } of deadLetter) {
        if (failed.at(-1)?.reason !== "DeliveryFailed") continue
        const known = this.#receipts.get(lane)?.get(sequence)?.known
        this.fail(`${lane} gives up #${sequence} by its age while the wall clock can't be trusted`, known)
      }
    }
  }

  clockSet(by: number): void {
    this.clockJumped = true
    this.#clockSet = { by: this.#clockSet.by + by, at: this.now() }
    this.note(`the wall clock jumps by ${by / hour} h`)
  }

  /** The relay stopped as requested, so all that it knows is on disk. */
  stopped(): void {
    for (const [lane, receipts] of this.#unsettled) {
      const [first] = receipts
      if (first !== undefined && !this.#settlingFails)
        this.fail(`it stopped and did not store what ${lane} had taken`, first.known)
    }
  }

  startLife(life: number): void {
    this.life = life
    this.#clockSet = { by: 0, at: 0 }
    this.#unsettled = new Map()
    this.#groups.startLife((sink) => this.moves.isTarget(sink))
  }

  droppedLetter(lane: string, event: Event): void {
    const known = this.#known.get(Bun.hash(event.body))
    if (known === undefined) return
    this.moves.gaveUp(lane, known)
    this.note(`the operator drops the dead letter of ${known.name} at ${lane}`, known)
  }

  /** The operator asks for a replay: a crash may leave it half done and the operator without an answer. */
  asked(type: string, sink: string): void {
    this.#asked.push({ type, sink })
  }

  /** A dead letter is about to be replayed. */
  replayedDeadLetter(lane: string, sequence: number): void {
    this.#returned.add(sequence)
    this.#replays = this.#replays.filter((replay) => replay.sink !== lane || replay.sequence !== sequence)
  }

  /** A replay by the operator is a promise of its own. */
  replayed(entry: Entry, sink: string): void {
    const known = this.#known.get(Bun.hash(entry.event.body))
    if (known === undefined) this.fail(`#${entry.sequence} is replayed with a body that nobody sent`)
    else this.#replays.push({ sequence: entry.sequence, sink, known })
  }

  // --- the end ---------------------------------------------------------------

  /** Checks at the end, after the faults, that everything is at its promised place. */
  finish(letters: ReadonlyArray<StoredDeadLetter>): void {
    const dead = new Set<string>()
    for (const letter of letters) {
      const known = this.#recognise(letter.lane, letter.entry)
      if (known === undefined) continue
      dead.add(`${letter.lane} ${known.name}`)
      dead.add(`${letter.lane} #${letter.sequence}`)
      this.#deserved(letter, known)
    }
    for (const known of this.#known.values()) {
      for (const sink of known.promised) {
        const lanes = [...this.moves.after(sink)]
        const settled = lanes.some((lane) => this.#hasTaken(lane, known) || dead.has(`${lane} ${known.name}`))
        const released = this.moves.released(lanes, known)
        if (!settled && !released) this.#lose(`${sink} was promised an event that it never got`, known)
      }
    }
    for (const { sequence, sink, known } of this.#replays) {
      const lanes = [...this.moves.after(sink)]
      const settled = lanes.some(
        (lane) => (this.#receipts.get(lane)?.get(sequence)?.applied ?? 0) > 0 || dead.has(`${lane} #${sequence}`),
      )
      const released = this.moves.released(lanes, known)
      // An event that moved to another lane on its way has another sequence there, and a later one if it has come back.
      const moved =
        lanes.length > 1 &&
        (this.#hasTaken(sink, known, sequence) ||
          lanes.slice(1).some((lane) => this.#hasTaken(lane, known) || dead.has(`${lane} ${known.name}`)))
      if (!settled && !released && !moved)
        this.#lose(`#${sequence} was replayed for ${sink} and never got there`, known)
    }
  }

  #lose(rule: string, known: Known): void {
    this.#lost += 1
    this.fail(rule, known)
  }

  #hasTaken(lane: string, known: Known, from = 0): boolean {
    for (const [sequence, receipt] of this.#receipts.get(lane) ?? [])
      if (receipt.known === known && receipt.applied > 0 && sequence >= from) return true
    return false
  }

  /** A dead letter must state a reason, and the reason must be true. */
  #deserved({ lane, sequence, attempts, entry }: StoredDeadLetter, known: Known): void {
    const last = attempts.at(-1)
    if (last === undefined || last.message === "") {
      this.fail(`a dead letter at ${lane} does not say why`, known)
      return
    }
    const rules = this.rules.get(lane)
    const receipt = this.#receipts.get(lane)?.get(sequence)
    if (rules === undefined || receipt === undefined || this.moves.isMixed(lane)) {
      const keyless = last.reason === "DeliveryRejected" && rules?.unrenderable(entry.event) === true
      if (rules !== undefined && receipt === undefined && last.reason !== "BacklogFull" && !keyless && !this.moves.any)
        this.fail(`a dead letter at ${lane} was never sent there`, known)
      return
    }
    const isBug = attempts.length >= 3 && attempts.slice(-3).every(({ reason }) => reason === "Defect")
    const unfounded =
      last.reason === "DeliveryRejected"
        ? !receipt.rejected && !rules.unrenderable(entry.event)
        : last.reason === "BacklogFull"
          ? !rules.givesUp
          : !isBug &&
            attempts.length < rules.maxAttempts &&
            // A restart believes the wall clock, whatever was written under another.
            !(this.clockJumped && receipt.firstLife < receipt.life) &&
            !this.moves.isTarget(lane) &&
            this.now() - receipt.firstSentAt < rules.maxAge &&
            !this.#isReplay(entry)
    if (unfounded)
      this.fail(
        `a dead letter at ${lane} is dead without need: ${last.reason} after ${attempts.length} attempts`,
        known,
      )
  }

  verdict(): Verdict {
    let acknowledged = 0
    for (const { sendings } of this.#known.values()) {
      for (const { state } of sendings) if (state === "appended" || state === "duplicate") acknowledged += 1
    }
    return {
      acknowledged,
      lost: this.#lost,
      duplicates: Math.max(0, ...this.#repeats.values()),
      bound: Math.max(0, ...[...this.rules.values()].map(({ bound = 0 }) => bound)),
      steps: this.steps,
      broken: this.broken === undefined ? [] : [this.broken],
    }
  }
}
