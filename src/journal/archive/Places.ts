/** The places of a copy: the sequences that a source's events have in the target. */
import type { Cursor } from "../Settlement.ts"

/** Events of a stream with adjacent sequences. Their places are adjacent too. */
interface Run {
  readonly from: number
  to: number
  /** The place of the first. */
  readonly place: number
}

/** Gives events their places, in the order in which they are added. */
export class Places {
  /** The place of the event that is added next. */
  next: number
  /** By stream, ascending. */
  readonly #runs = new Map<number, Array<Run>>()
  /** By stream, the places of events that the log was pruned of. */
  readonly #pruned = new Map<number, Map<number, number>>()

  constructor(first: number) {
    this.next = first
  }

  /** Adds the next event of a stream. All events of a stream are added before the next stream begins. */
  add(stream: number, sequence: number): number {
    const runs = this.#runs.get(stream) ?? []
    this.#runs.set(stream, runs)
    const last = runs.at(-1)
    if (last?.to === sequence - 1) last.to = sequence
    else runs.push({ from: sequence, to: sequence, place: this.next })
    return this.next++
  }

  addPruned(stream: number, sequence: number): number {
    const pruned = this.#pruned.get(stream) ?? new Map<number, number>()
    this.#pruned.set(stream, pruned.set(sequence, this.next))
    return this.next++
  }

  /** Returns `undefined` if the event has no place. */
  find(stream: number, sequence: number): number | undefined {
    const run = this.#upTo(stream, sequence)
    const isIn = run !== undefined && sequence <= run.to
    return isIn ? run.place + sequence - run.from : this.#pruned.get(stream)?.get(sequence)
  }

  /** Returns the places of the log's events in a range of sequences, or `undefined` if there are none. */
  range(stream: number, from: number, to: number): readonly [from: number, to: number] | undefined {
    const [before, last] = [this.#upTo(stream, from - 1), this.#upTo(stream, to)]
    if (last === undefined) return undefined
    const placeUpTo = ({ from, to, place }: Run, sequence: number) => place + Math.min(sequence, to) - from
    const first = before === undefined ? (this.#runs.get(stream)?.[0]?.place ?? 0) : placeUpTo(before, from - 1) + 1
    const end = placeUpTo(last, to)
    return first <= end ? [first, end] : undefined
  }

  /** Returns the last run that begins at or before a sequence. */
  #upTo(stream: number, sequence: number): Run | undefined {
    const runs = this.#runs.get(stream) ?? []
    let [low, high] = [0, runs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((runs[middle]?.from ?? 0) <= sequence) low = middle + 1
      else high = middle
    }
    return runs[low - 1]
  }
}

/** The places of the events that a lane waits for. */
export class LanePlaces {
  /** Ascending. A range also contains events of other lanes, but none that the lane has settled. */
  readonly #pending: Array<[from: number, to: number]> = []
  #isPending = false

  /** Adds the next event that is routed to the lane. */
  add(place: number, isPending: boolean): void {
    const last = this.#pending.at(-1)
    if (isPending && this.#isPending && last !== undefined) last[1] = place
    else if (isPending) this.#pending.push([place, place])
    this.#isPending = isPending
  }

  /** Returns the lane's cursor. `end` is the last place. */
  cursor(end: number): Cursor {
    const [first = [end + 1]] = this.#pending
    const settled = this.#pending.map(([, to], index): [number, number] => [
      to + 1,
      (this.#pending[index + 1]?.[0] ?? end + 1) - 1,
    ])
    return { sequence: first[0] - 1, settled: settled.filter(([from, to]) => from <= to) }
  }
}
