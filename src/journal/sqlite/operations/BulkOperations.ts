/**
 * Operations on many events: replays, and lanes that are moved or dropped.
 *
 * They run in slices of about a row, each in one transaction, so that the relay
 * answers in between. After a crash the slices that were committed stay, and the
 * operation can be started again.
 */
import { quarantine } from "../../../event/Event.ts"
import type { ReplayCounts, ReplayTarget, Reroute } from "../../Archive.ts"
import { unavailable } from "../../JournalError.ts"
import type { StoredDeadLetter } from "../../LaneInfo.ts"
import { Backlog } from "../../stream/Backlog.ts"
import { type Reappended, toMove, toReplay } from "../../stream/Reappended.ts"
import { Origin } from "../../stream/Record.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed, type Removal } from "../commit/LaneStore.ts"

/** A slice has at most so many dead letters or replays, so many bytes of bodies, or so many entries of the log. */
const slice = { letters: 64, bytes: 1024 * 1024, entries: 256 }
/** Milliseconds that a slice of many small changes may take. */
const budget = 2

const nothing = (): void => {}

/** Each step is one slice; the result is how many were appended. */
export const replayDeadLetters = function* (
  engine: Engine,
  ids: ReadonlyArray<string>,
  reroute: Reroute | undefined,
  why: Removal,
): Generator<void, number> {
  let count = 0
  const wanted = [...new Set(ids)]
  for (let next = 0; next < wanted.length; ) {
    const letters: Array<StoredDeadLetter> = []
    for (let size = 0; next < wanted.length && letters.length < slice.letters && size < slice.bytes; next++) {
      const letter = engine.lanes.deadLetters.get(wanted[next] ?? "")
      if (letter === undefined) continue
      letters.push(letter)
      size += letter.entry.event.body.length
    }
    if (letters.length === 0) continue
    engine.space.requireRoom(`${count} dead letters were replayed, the others stay.`)
    const again: Array<Reappended & { readonly id: string }> = []
    const routed: Array<Reappended & { readonly id: string }> = []
    for (const { id, entry, lane } of letters) {
      if (lane !== quarantine || reroute === undefined) {
        again.push({ id, event: toReplay(entry.event), sinks: [lane] })
        continue
      }
      const found = reroute(entry.event)
      if (found !== undefined) routed.push({ id, ...found })
    }
    // A delivery that was never routed is no replay: it has the key of the delivery that it came with.
    if (again.length > 0) engine.appendWith(again, Origin.replayed, (first) => removed(engine, again, why, first))
    if (routed.length > 0)
      engine.deliverWith(routed, (copies) => {
        const gone = routed.map(({ id }, index) => {
          const copy = copies[index]
          return engine.lanes.removeDeadLetter(id, { ...why, ...(copy !== undefined && { copy }) }) ?? nothing
        })
        return allOf(gone)
      })
    count += again.length + routed.length
    yield
  }
  return count
}

/** Applies changes until there are no more, as many in a transaction as fit into its time; how many. */
const sliced = function* (engine: Engine, change: () => Committed | undefined): Generator<void, number> {
  let count = 0
  for (;;) {
    const { changed, more } = engine.exclusively(() => {
      const started = performance.now()
      const committed: Array<Committed> = []
      let next: Committed | undefined
      do {
        next = change()
        if (next !== undefined) committed.push(next)
      } while (next !== undefined && performance.now() - started < budget)
      return { result: { changed: committed.length, more: next !== undefined }, committed: allOf(committed) }
    })
    count += changed
    if (!more) return count
    yield
  }
}

export const dropDeadLetters = function* (
  engine: Engine,
  ids: ReadonlyArray<string>,
  why: Removal,
): Generator<void, number> {
  let next = 0
  return yield* sliced(engine, () => {
    while (next < ids.length) {
      const committed = engine.lanes.removeDeadLetter(ids[next++] ?? "", why)
      if (committed !== undefined) return committed
    }
    return undefined
  })
}

/** Removes a lane with all that it holds; how many events were given up. */
export const dropLane = function* (engine: Engine, name: string, why: Removal): Generator<void, number> {
  engine.flush()
  const backlog = engine.lanes.backlogs.get(name)
  const count = backlog === undefined ? 0 : backlog.size + backlog.deadLetters
  yield* sliced(engine, () => engine.lanes.takeRetry(name, why))
  yield* sliced(engine, () => engine.lanes.takeDeadLetter(name, why))
  engine.exclusively(() => ({ result: undefined, committed: engine.lanes.drop(name, why, engine.head) }))
  return count
}

const removed = (
  engine: Engine,
  letters: ReadonlyArray<{ readonly id: string }>,
  why: Removal,
  first: number,
): Committed =>
  allOf(letters.map(({ id }, index) => engine.lanes.removeDeadLetter(id, { ...why, copy: first + index }) ?? nothing))

/** One slice: the first of the targets, in one transaction. */
export const replay = (engine: Engine, targets: ReadonlyArray<ReplayTarget>, { at, by }: Removal): ReplayCounts => {
  engine.space.requireRoom("Nothing is replayed until there is.")
  const again: Array<Reappended & { readonly sequence: number }> = []
  const gone: Array<number> = []
  const logged = engine.log.finder()
  const find = (sequence: number) =>
    engine.guard(() => engine.pending.find(sequence) ?? logged(sequence) ?? engine.lanes.find(sequence))
  let done = 0
  for (let size = 0; done < targets.length && again.length < slice.letters && size < slice.bytes; done++) {
    const { sequence, sinks } = targets[done] as ReplayTarget
    const event = find(sequence)?.event
    if (event === undefined) gone.push(sequence)
    else again.push({ event: toReplay(event), sinks, sequence })
    size += event?.body.length ?? 0
  }
  if (again.length > 0) {
    engine.appendWith(again, Origin.replayed, (first) => {
      for (const [index, { sequence }] of again.entries()) {
        engine.lanes.outcomes.ended({ sequence, lane: "", at, outcome: "copied", copy: first + index, note: { by } })
      }
      return nothing
    })
  }
  return { done, gone }
}

/** Moves everything that `from` holds to `to`; `from` is left empty, at the head. */
export const moveLane = function* (engine: Engine, from: string, to: string, why: Removal): Generator<void, number> {
  engine.flush()
  const source = engine.lanes.backlogs.get(from)
  if (source === undefined) throw unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  if (from === to) return 0
  const end = engine.head
  if (!engine.lanes.backlogs.has(to)) {
    engine.exclusively(() => {
      engine.lanes.insert(to, end)
      const committed = () => engine.lanes.backlogs.set(to, new Backlog(to, { sequence: end, settled: [] }))
      return { result: undefined, committed }
    })
  }
  // First: a move that is cut short must not leave them behind later events of their key.
  let count = yield* sliced(engine, () => engine.lanes.takeRetry(from, why, to))
  const sinks = [to]
  while (source.cursor.sequence < end) {
    const again: Array<Reappended & { readonly sequence: number }> = []
    let last = end
    let size = 0
    for (const entry of engine.read(source.cursor.sequence, slice.entries)) {
      const { sequence, event, sinks: routed } = entry
      if (sequence > end) break
      last = sequence
      if (!routed.includes(from) || !source.isPending(sequence)) continue
      again.push({ event: toMove(entry), sinks, sequence })
      size += event.body.length
      if (size >= slice.bytes) break
    }
    const cursor = { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) }
    const { pausedFor } = source
    const nothingElse = { retry: [], endRetry: [], deadLetter: [], delivered: [], late: [] }
    const advance = () => engine.lanes.settle({ lane: from, cursor, ...nothingElse, pausedFor })
    const move = (first: number) => {
      for (const [index, { sequence }] of again.entries()) {
        engine.lanes.movesTo(sequence, from, { ...why, copy: first + index }, to)
      }
      return advance()
    }
    if (again.length > 0) engine.appendWith(again, Origin.moved, move)
    else engine.exclusively(() => ({ result: undefined, committed: advance() }))
    count += again.length
    yield
  }
  return count + (yield* sliced(engine, () => engine.lanes.takeDeadLetter(from, why, to)))
}
