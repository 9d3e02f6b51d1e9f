/** Rules for events of one key: their order, and the digests in which they are sent. */
import type { Entry } from "../../../src/event/Event.ts"
import type { History, Receipt, Rules } from "./Facts.ts"

export class Groups {
  readonly #history: History
  /** By sink, origin and key: the highest sequence that was taken first, ever and in this life. */
  readonly #furthest = new Map<string, { ever: number; life: number; here: number }>()
  /** By sink and sequence: the sequences of its digest. */
  readonly #digests = new Map<string, Map<number, ReadonlyArray<number>>>()

  constructor(history: History) {
    this.#history = history
  }

  /**
   * A digest is of one group. A repeated digest has all its earlier events. Events that arrived meanwhile may have
   * joined it, and events that `mayBeDead` have left it.
   */
  together(
    sink: string,
    batch: ReadonlyArray<Entry>,
    mayBeDead: (sequence: number) => boolean,
    isReturned: (entry: Entry) => boolean,
  ): void {
    const groups = new Set(batch.map(({ event }) => event.accountId))
    if (groups.size > 1) this.#history.fail(`${sink} gets a digest of ${groups.size} groups`)
    const digests = this.#digests.get(sink) ?? new Map<number, ReadonlyArray<number>>()
    this.#digests.set(sink, digests)
    // Replayed dead letters are earlier events, so they may fill a digest that was sent before.
    if (batch.some(isReturned)) digests.clear()
    const sequences = batch.map(({ sequence }) => sequence)
    for (const sequence of sequences) {
      const missing = digests.get(sequence)?.filter((one) => !sequences.includes(one) && !mayBeDead(one))
      if (missing !== undefined && missing.length > 0)
        this.#history.fail(`${sink} gets #${sequence} again without all of its digest`)
    }
    for (const sequence of sequences) digests.set(sequence, sequences)
  }

  /**
   * Earlier events that a rename brought may fill a digest that was sent in the life before, because the events of a
   * digest are not stored.
   */
  startLife(isRenamed: (sink: string) => boolean): void {
    for (const sink of this.#digests.keys()) if (isRenamed(sink)) this.#digests.delete(sink)
  }

  /** A digest died of a bug: its events go one by one from now on. */
  isolated(sink: string, batch: ReadonlyArray<Entry>): void {
    for (const { sequence } of batch) this.#digests.get(sink)?.delete(sequence)
  }

  /**
   * Events of one key are taken first in the journal's order, for each `origin` separately. A crash may forget
   * that an event was a dead letter, which had released its key. Only then it comes after later ones.
   */
  ordered(sink: string, origin: string, entry: Entry, receipt: Receipt, rules: Rules): void {
    const { life } = this.#history
    const key = `${sink} ${origin} ${entry.event.accountId}`
    const furthest = this.#furthest.get(key) ?? { ever: 0, life: 0, here: 0 }
    if (furthest.life !== life) furthest.here = 0
    const forgotten = receipt.firstLife < life || rules.givesUp
    if (entry.sequence < furthest.here || (entry.sequence < furthest.ever && !forgotten)) {
      this.#history.fail(`${sink} takes #${entry.sequence} after #${furthest.ever} of its key`, receipt.known)
    }
    furthest.ever = Math.max(furthest.ever, entry.sequence)
    furthest.here = Math.max(furthest.here, entry.sequence)
    furthest.life = life
    this.#furthest.set(key, furthest)
  }
}
