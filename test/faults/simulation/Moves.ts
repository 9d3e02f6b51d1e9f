/** Where the events of a lane may be by now: the operator moved them, gave them up, or renamed their sink. */
import type { Known } from "./Facts.ts"

export class Moves {
  readonly #movedTo = new Map<string, Set<string>>()
  /** Lanes that took over another lane's promises. */
  readonly #targets = new Set<string>()
  /** Lanes into which the operator moved events of other lanes. Events that waited for a retry have no order there. */
  readonly #mixed = new Set<string>()
  /** Lanes whose events the operator gave up, and dropped dead letters: `lane` and the event's name. */
  readonly #givenUp = new Set<string>()
  /** By former name, the names that a config gave a lane. */
  readonly #renamedTo = new Map<string, string>()

  /** A config renames a lane. */
  renamed(from: string, to: string): void {
    this.#renamedTo.set(from, to)
    this.moved(from, to, false)
  }

  /**
   * The lane's name, and its next names if `exists` says that the journal has none of these: a crash can come after
   * an event was routed to the new name, and before the lane has it. The event is then in the lane with the old name.
   */
  namesOf(lane: string, exists: (name: string) => boolean): ReadonlyArray<string> {
    const names = [lane]
    for (let next = this.#renamedTo.get(lane); next !== undefined && !exists(next); next = this.#renamedTo.get(next)) {
      names.push(next)
    }
    return names
  }

  /** Another lane now has the pending and dead events of a lane. */
  moved(from: string, to: string, mixed: boolean): void {
    this.#movedTo.set(from, (this.#movedTo.get(from) ?? new Set()).add(to))
    this.#targets.add(to)
    if (mixed || this.#mixed.has(from)) this.#mixed.add(to)
  }

  gaveUp(lane: string, known?: Known): void {
    this.#givenUp.add(known === undefined ? lane : `${lane} ${known.name}`)
  }

  /** Whether the operator has ended the lane, so that a new lane of its name starts empty. */
  isGone(lane: string): boolean {
    return this.#givenUp.has(lane) || this.#movedTo.has(lane)
  }

  isMixed(lane: string): boolean {
    return this.#mixed.has(lane)
  }

  isTarget(lane: string): boolean {
    return this.#targets.has(lane)
  }

  get any(): boolean {
    return this.#movedTo.size > 0
  }

  /** The lane itself, and all lanes that took over from it. */
  after(lane: string): ReadonlySet<string> {
    const found = new Set([lane])
    for (const one of found) for (const target of this.#movedTo.get(one) ?? []) found.add(target)
    return found
  }

  /** Whether the operator gave up the event in any of these lanes. */
  released(lanes: ReadonlyArray<string>, known: Known): boolean {
    return lanes.some((lane) => this.#givenUp.has(lane) || this.#givenUp.has(`${lane} ${known.name}`))
  }
}
