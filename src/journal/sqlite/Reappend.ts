/**
 * Entries that are appended anew: dead letters and the retained log when a
 * person replays them, a lane's backlog when another takes it over.
 *
 * In slices of about a row, each one transaction, so that the relay goes on
 * answering in between. A crash leaves what is done done and the rest where it
 * was: whoever asks again goes on there.
 */
import { quarantine } from "../../event/Event.ts"
import type { ReplayQuery, Reroute, StoredDeadLetter } from "../Journal.ts"
import { Backlog } from "./Backlog.ts"
import type { Again, Engine } from "./Engine.ts"
import { unavailable } from "./file/SqliteErrors.ts"
import type { Committed } from "./LaneStore.ts"
import { Origin } from "./Record.ts"

/** What is taken up at a time: so many dead letters, of so many bytes. */
const lettersASlice = 64
const bytesASlice = 1024 * 1024
/** Entries of the log that are looked at together. */
const entriesASlice = 256
/** Milliseconds that a slice of many small changes may take. */
const budget = 2

const nothing = (): void => {}

const all = (committed: ReadonlyArray<Committed>) => (): void => {
  for (const apply of committed) apply()
}

/** Each step is one slice; the result is how many were appended. */
export const replayDeadLetters = function* (
  engine: Engine,
  ids: ReadonlyArray<string>,
  reroute: Reroute | undefined,
): Generator<void, number> {
  let count = 0
  const wanted = [...new Set(ids)]
  for (let next = 0; next < wanted.length; ) {
    const letters: Array<StoredDeadLetter> = []
    for (let size = 0; next < wanted.length && letters.length < lettersASlice && size < bytesASlice; next++) {
      const letter = engine.lanes.deadLetter(wanted[next] ?? "")
      if (letter === undefined) continue
      letters.push(letter)
      size += letter.entry.event.body.length
    }
    if (letters.length === 0) continue
    engine.requireRoom(`${count} dead letters were replayed, the others stay.`)
    const again: Array<Again & { readonly id: string }> = []
    const routed: Array<Again & { readonly id: string }> = []
    for (const { id, entry, lane } of letters) {
      if (lane !== quarantine || reroute === undefined) {
        again.push({ id, event: entry.event, sinks: [lane] })
        continue
      }
      const found = reroute(entry.event)
      if (found !== undefined) routed.push({ id, ...found })
    }
    // What was never routed is no replay: it has the place and the key of the delivery that it came by.
    if (again.length > 0) engine.appendWith(again, Origin.replayed, () => exhumed(engine, again))
    if (routed.length > 0) engine.deliverWith(routed, () => exhumed(engine, routed))
    count += again.length + routed.length
    yield
  }
  return count
}

/** Changes one thing after the other, as many in a transaction as fit into its time, until there is none; how many. */
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
      return { result: { changed: committed.length, more: next !== undefined }, committed: all(committed) }
    })
    count += changed
    if (!more) return count
    yield
  }
}

export const dropDeadLetters = function* (engine: Engine, ids: ReadonlyArray<string>): Generator<void, number> {
  let next = 0
  return yield* sliced(engine, () => {
    while (next < ids.length) {
      const committed = engine.lanes.removeDeadLetter(ids[next++] ?? "")
      if (committed !== undefined) return committed
    }
    return undefined
  })
}

/** Forgets a lane with all that it holds; the number of events given up. */
export const dropLane = function* (engine: Engine, name: string): Generator<void, number> {
  engine.flush()
  const backlog = engine.lanes.backlogs.get(name)
  const count = backlog === undefined ? 0 : backlog.size + backlog.deadLetters
  yield* sliced(engine, () => engine.lanes.takeRetry(name))
  yield* sliced(engine, () => engine.lanes.takeDead(name))
  engine.exclusively(() => ({ result: undefined, committed: engine.lanes.drop(name) }))
  return count
}

const exhumed = (engine: Engine, letters: ReadonlyArray<{ readonly id: string }>): Committed =>
  all(letters.map(({ id }) => engine.lanes.removeDeadLetter(id) ?? nothing))

export const replay = function* (engine: Engine, query: ReplayQuery): Generator<void, number> {
  const end = engine.head
  const sinks = [query.sink]
  let count = 0
  let next = 1
  let first: number | undefined
  for (;;) {
    const keys = engine.log.keysOf(next - 1, 1)[0]
    if (keys === undefined || keys.first > end) return count
    next = keys.first + 1
    first ??= keys.first
    query.progress?.((keys.first - first) / (end - first + 1))
    if (keys.receivedTo < query.since || keys.receivedFrom >= query.until) continue
    const again: Array<Again> = []
    for (const { entry, origin } of engine.log.rowFrom(keys.first)?.stored ?? []) {
      const { receivedAt, type, problem } = entry.event
      // Copies are left out: what they are copies of is in the log, or was given up with it.
      if (origin !== Origin.delivered || problem !== undefined) continue
      if (receivedAt >= query.since && receivedAt < query.until && query.types(type)) {
        again.push({ event: entry.event, sinks })
      }
    }
    if (again.length > 0) {
      engine.requireRoom(`${count} events were replayed, the others not.`)
      engine.appendWith(again, Origin.replayed, () => nothing)
      count += again.length
    }
    yield
  }
}

/** Hands everything that `from` holds to `to`; `from` is left empty, at the head. */
export const moveLane = function* (engine: Engine, from: string, to: string): Generator<void, number> {
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
  let count = 0
  const sinks = [to]
  while (source.cursor.sequence < end) {
    const again: Array<Again> = []
    let last = end
    let size = 0
    for (const { sequence, event, sinks: routed } of engine.read(source.cursor.sequence, entriesASlice)) {
      if (sequence > end) break
      last = sequence
      if (!routed.includes(from) || !source.isPending(sequence)) continue
      again.push({ event, sinks })
      size += event.body.length
      if (size >= bytesASlice) break
    }
    const cursor = { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) }
    const advance = () =>
      engine.lanes.settle({ lane: from, cursor, retry: [], endRetry: [], deadLetter: [], pausedFor: source.pausedFor })
    if (again.length > 0) engine.appendWith(again, Origin.moved, advance)
    else engine.exclusively(() => ({ result: undefined, committed: advance() }))
    count += again.length
    yield
  }
  count += yield* sliced(engine, () => engine.lanes.takeRetry(from, to))
  return count + (yield* sliced(engine, () => engine.lanes.takeDead(from, to)))
}
