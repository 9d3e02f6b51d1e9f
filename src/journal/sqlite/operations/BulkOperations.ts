/**
 * Operations on many events: replays, and lanes that are moved or dropped. Each
 * step of a generator is one slice, in one transaction: see `BulkSlices.ts`.
 */
import type { ReplayCounts, ReplayTarget, Reroute } from "../../Archive.ts"
import { unavailable } from "../../JournalError.ts"
import type { StoredDeadLetter } from "../../LaneInfo.ts"
import { copied, moved, moveSlice, replaySlice, slice, splitLetters } from "../../stream/BulkSlices.ts"
import type { Copies } from "../../stream/Reappended.ts"
import { Origin } from "../../stream/Record.ts"
import type { Removal } from "../../stream/Removal.ts"
import type { Engine } from "../commit/Engine.ts"
import { allOf, type Committed, nothing } from "../commit/LaneStore.ts"

/** Milliseconds that a slice of many small changes may take. */
const budget = 2

/** Appends dead letters again and removes them; how many. */
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
    const { again, routed } = splitLetters(letters, reroute)
    const remove = (some: typeof again, copies: Copies): Committed =>
      allOf(some.map(({ letter }, at) => engine.lanes.removeDeadLetter(letter.id, why, copies[at]) ?? nothing))
    if (again.length > 0) engine.appendWith(again, Origin.replayed, (copies) => remove(again, copies))
    if (routed.length > 0) engine.deliverWith(routed, (copies) => remove(routed, copies))
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

/** Removes dead letters; how many. */
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
  engine.apply(() => engine.lanes.drop(name, why, engine.head))
  return count
}

/** Appends the first of the targets again, in one transaction. */
export const replay = (engine: Engine, targets: ReadonlyArray<ReplayTarget>, why: Removal): ReplayCounts => {
  engine.space.requireRoom("Nothing is replayed until there is.")
  const logged = engine.log.finder()
  const find = (sequence: number) =>
    engine.guard(() => engine.pending.find(sequence) ?? logged(sequence) ?? engine.lanes.find(sequence))
  const { done, again, gone } = replaySlice(targets, find, slice.letters)
  if (again.length > 0) {
    engine.appendWith(again, Origin.replayed, ([first = 0]) => {
      for (const one of copied(again, first, why)) engine.lanes.outcomes.ended(one)
      return nothing
    })
  }
  return { done, gone }
}

/** Moves everything that `from` holds to `to`; `from` is left empty, at the head. How many events. */
export const moveLane = function* (engine: Engine, from: string, to: string, why: Removal): Generator<void, number> {
  engine.flush()
  const source = engine.lanes.backlogs.get(from)
  if (source === undefined) throw unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  if (from === to) return 0
  const end = engine.head
  if (!engine.lanes.backlogs.has(to)) engine.apply(() => engine.lanes.begin([to], end))
  // First: a move that is cut short must not leave them behind later events of their key.
  let count = yield* sliced(engine, () => engine.lanes.takeRetry(from, why, to))
  while (source.cursor.sequence < end) {
    const { again, cursor } = moveSlice(engine.read(source.cursor.sequence, slice.entries), source, to, end)
    const { pausedFor } = source
    const nothingElse = { takeBack: [], retry: [], endRetry: [], deadLetter: [], delivered: [], late: [] }
    const advance = () => engine.lanes.settle({ lane: from, cursor, ...nothingElse, pausedFor })
    if (again.length > 0) {
      engine.appendWith(again, Origin.moved, ([first = 0]) => {
        for (const one of moved(again, first, why, from, to)) engine.lanes.outcomes.ended(one)
        return advance()
      })
    } else engine.apply(advance)
    count += again.length
    yield
  }
  return count + (yield* sliced(engine, () => engine.lanes.takeDeadLetter(from, why, to)))
}
