/**
 * Copies a journal into a journal of another type: one loop over the rows of both.
 *
 * The target has one log. The events of all streams of the source follow one another in it without gaps, so each
 * event gets a new sequence, its place. Everything else that names an event gets the place as well.
 *
 * **Guarantee.** Events are stored in the order of their places, and all other rows in one commit at the end. So
 * an interrupted copy reads the source again and stores only the events that are missing.
 *
 * **Gotcha.** A replayed event that isn't delivered yet is sent with another idempotency key than at the source,
 * because the key contains the sequence.
 */

import { Effect } from "effect"
import type { Entry } from "../../event/Event.ts"
import {
  type CopiedEnd,
  type CopiedOutcomes,
  type CopiedRows,
  type CopiedStream,
  type CopyCounts,
  type CopySource,
  type CopyTarget,
  each,
  type Put,
} from "../JournalCopy.ts"
import type { MaintenanceError } from "../JournalError.ts"
import type { Cursor, DeliveredRange } from "../Settlement.ts"
import { isPassed } from "../stream/Cursors.ts"
import { bucketOf, type Ended, findDelivery } from "../stream/OutcomeRecord.ts"
import { Origin, type Stored } from "../stream/Record.ts"

/** Events of a stream with adjacent sequences. Their places are adjacent too. */
interface Run {
  readonly from: number
  to: number
  /** The place of the first. */
  readonly place: number
}

/**
 * The places of a copy: the sequences that a source's events have in the target. Gives events their places, in the
 * order in which they are added.
 */
class Places {
  /** The place of the event that is added next. */
  next: number
  /** By stream, ascending. */
  readonly #runs = new Map<number, Array<Run>>()
  /** By stream, the places of retries and dead letters that are no longer in the log. */
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
class LanePlaces {
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

/** Copies everything. `onProgress` is called with the share of the events that is done, from 0 to 1. */
export const copyInto = Effect.fnUntraced(function* (
  target: CopyTarget,
  source: CopySource,
  onProgress: (share: number) => Effect.Effect<void>,
): Effect.fn.Return<CopyCounts, MaintenanceError> {
  const { known } = target
  if (target.isComplete) return { events: 0, retries: 0, deadLetters: 0, known }
  const copy = new Copy(source, target)
  for (const [index, stream] of source.streams.entries()) {
    yield* each.event(stream.events, (page) =>
      Effect.andThen(
        copy.events(index, stream, page),
        onProgress((index + (page.at(-1)?.entry.sequence ?? 0) / Math.max(1, stream.last)) / source.streams.length),
      ),
    )
  }
  const counts = yield* target.complete((put) => copy.others(put))
  return { ...counts, events: copy.count - known, known }
})

class Copy {
  readonly #source: CopySource
  readonly #target: CopyTarget
  readonly #places: Places
  readonly #lanes: ReadonlyMap<string, LanePlaces>

  constructor(source: CopySource, target: CopyTarget) {
    this.#source = source
    this.#target = target
    this.#places = new Places(target.first)
    const names = new Set(source.streams.flatMap(({ lanes }) => lanes.map(({ name }) => name)))
    this.#lanes = new Map(Array.from(names, (name) => [name, new LanePlaces()]))
  }

  /** The number of events that have a place. */
  get count(): number {
    return this.#places.next - this.#target.first
  }

  /** Gives a page of a stream's events their places, and stores those that no earlier try has stored. */
  readonly events = Effect.fnUntraced(function* (
    this: Copy,
    index: number,
    { lanes, outcomes }: CopiedStream,
    page: ReadonlyArray<Stored>,
  ) {
    const { first, known, commit } = this.#target
    const cursors = new Map(lanes.map(({ name, cursor }) => [name, cursor]))
    const fresh: Array<Stored> = []
    for (const stored of page) {
      const { sequence, sinks } = stored.entry
      const place = this.#places.add(index, sequence)
      for (const sink of sinks) {
        const cursor = cursors.get(sink)
        this.#lanes.get(sink)?.add(place, cursor !== undefined && !isPassed(cursor, sequence))
      }
      if (place >= first + known) fresh.push(stored)
    }
    const [from, to] = [fresh[0], fresh.at(-1)]
    if (from === undefined || to === undefined) return
    const found = yield* outcomes(from.entry.sequence, to.entry.sequence)
    const next = this.#places.next - fresh.length
    const events = fresh.map(({ entry, origin }, at) => ({ entry: { ...entry, sequence: next + at }, origin }))
    const delivered = deliveredOf(found, fresh, next)
    yield* commit((put) => put({ events, delivered }))
  })

  /** Stores everything but the events in the logs. */
  readonly others = Effect.fnUntraced(function* (this: Copy, put: Put) {
    const { streams, imported, audit, paused } = this.#source
    const counts = { retries: 0, deadLetters: 0 }
    for (const [index, { retries, letters }] of streams.entries()) {
      yield* each.retry(retries, (some) => {
        counts.retries += some.length
        return this.#kept(index, put, some, (placed) => ({
          retries: placed.map(({ lane, attempts, entry, ...wait }) => ({
            ...{ lane, attempts, entry },
            change: { ...wait, sequence: entry.sequence, refunded: 0, failed: [] },
          })),
        }))
      })
      yield* each.letter(letters, (some) => {
        counts.deadLetters += some.length
        return this.#kept(index, put, some, (letters) => ({ letters }))
      })
    }
    // An event may have been copied into another stream, so all events need their places first.
    for (const [index, { ends }] of streams.entries()) {
      yield* each.end(ends, (some) => put({ ended: some.flatMap((end) => this.#endOf(index, end) ?? []) }))
    }
    yield* each.import(imported, (some) => put({ imported: some }))
    yield* each.record(audit, (some) => put({ audit: some }))
    const last = this.#places.next - 1
    const lanes = Array.from(this.#lanes, ([name, places]) => ({
      name,
      cursor: places.cursor(last),
      pausedFor: Math.max(
        ...streams.flatMap(({ lanes }) => lanes.filter((lane) => lane.name === name).map((lane) => lane.pausedFor)),
      ),
      ...(paused.get(name) ?? { paused: false }),
    }))
    yield* put({ lanes })
    return counts
  })

  /**
   * Stores rows that have one entry each. An entry that is no longer in the log is appended too, to get a sequence. No
   * lane sends it from there.
   */
  #kept<Row extends { readonly entry: Entry }>(
    index: number,
    put: Put,
    some: ReadonlyArray<Row>,
    rowsOf: (placed: ReadonlyArray<Row>) => Partial<CopiedRows>,
  ) {
    const events: Array<Stored> = []
    const placed = some.map((row) => {
      const { entry } = row
      const known = this.#places.find(index, entry.sequence)
      const sequence = known ?? this.#places.addPruned(index, entry.sequence)
      if (known === undefined) events.push({ entry: { ...entry, sequence, sinks: [] }, origin: Origin.moved })
      return { ...row, entry: { ...entry, sequence } }
    })
    return put({ events, ...rowsOf(placed) })
  }

  /** Returns `undefined` if the log has none of the events any more. */
  #endOf(index: number, { id: _, sequence, last, copy, ...end }: CopiedEnd): Ended | undefined {
    if (last !== undefined) {
      const range = this.#places.range(index, sequence, last)
      return range && { ...end, sequence: range[0], last: range[1] }
    }
    const own = this.#places.find(index, sequence)
    const to = copy && this.#places.find(copy.stream, copy.sequence)
    if (own === undefined || (end.outcome === "copied" && to === undefined)) return undefined
    return { ...end, sequence: own, ...(to !== undefined && { copy: to }) }
  }
}

/** Returns the deliveries of events that have the places from `first` on. */
const deliveredOf = (outcomes: ReadonlyArray<CopiedOutcomes>, events: ReadonlyArray<Stored>, first: number) => {
  const delivered = new Map<string, Array<DeliveredRange>>()
  const buckets = Map.groupBy(outcomes, ({ bucket }) => bucket)
  for (const [index, { entry }] of events.entries()) {
    const place = first + index
    for (const { lane, bytes } of buckets.get(bucketOf(entry.sequence)) ?? []) {
      const found = findDelivery(bytes, entry.sequence)
      if (found === undefined) continue
      const ranges = delivered.get(lane) ?? []
      delivered.set(lane, ranges)
      const last = ranges.at(-1)
      const continues = last?.to === place - 1 && last.at === found.at && last.took === found.took
      if (continues && last.code === found.code) ranges[ranges.length - 1] = { ...last, to: place }
      else ranges.push({ from: place, to: place, ...found })
    }
  }
  return [...delivered].map(([lane, ranges]) => ({ lane, delivered: ranges }))
}
