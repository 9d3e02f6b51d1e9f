/**
 * Entries that are appended anew: dead letters and the retained log when a
 * person replays them, a lane's backlog when another takes it over.
 *
 * In slices of one row, each one transaction, so that the relay goes on
 * answering in between. A crash leaves what is done done and the rest where it
 * was.
 */
import type { Event } from "../event/Event.ts"
import { Backlog } from "./Backlog.ts"
import type { Engine } from "./Engine.ts"
import type { ReplayQuery } from "./Journal.ts"
import { Origin } from "./Record.ts"
import { unavailable } from "./Sqlite.ts"

type Again = { readonly event: Event; readonly sinks: ReadonlyArray<string> }

/** How many dead letters are taken up at a time. */
const lettersASlice = 64

const nothing = (): void => {}

/** Each step is one slice; the result is how many were appended. */
export const replayDeadLetters = function* (engine: Engine, ids: ReadonlyArray<string>): Generator<void, number> {
  let count = 0
  const wanted = [...new Set(ids)]
  for (let from = 0; from < wanted.length; from += lettersASlice) {
    const letters = wanted.slice(from, from + lettersASlice).flatMap((id) => engine.lanes.deadLetter(id) ?? [])
    if (letters.length === 0) continue
    engine.requireRoom(`${count} dead letters were replayed, the others stay.`)
    engine.appendWith(
      letters.map(({ entry, lane }) => ({ event: entry.event, sinks: [lane] })),
      Origin.replayed,
      () => {
        const committed = letters.map((letter) => engine.lanes.exhume(letter.id) ?? nothing)
        return () => {
          for (const apply of committed) apply()
        }
      },
    )
    count += letters.length
    yield
  }
  return count
}

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

/** Hands everything pending of `from` to `to`; `from` is left empty, at the head. */
export const moveLane = function* (engine: Engine, from: string, to: string): Generator<void, number> {
  engine.flush()
  const source = engine.lanes.backlogs.get(from)
  if (source === undefined) throw unavailable(`There is no lane ${from} in the journal. See \`relay lanes list\`.`)
  if (from === to) return 0
  const end = engine.head
  if (!engine.lanes.backlogs.has(to)) {
    engine.exclusively(() => {
      engine.lanes.insert(to, end)
      // A pause is a person's word, whatever the sink is called by now.
      const paused = engine.lanes.setPaused(to, source.paused)
      const committed = () => {
        engine.lanes.backlogs.set(to, new Backlog(to, { sequence: end, settled: [] }))
        paused()
      }
      return { result: undefined, committed }
    })
  }
  let count = 0
  const sinks = [to]
  while (source.cursor.sequence < end) {
    const row = engine.log.rowFrom(source.cursor.sequence + 1)
    const last = row === undefined ? end : Math.min(row.last, end)
    const again: Array<Again> = []
    for (const { entry } of row?.stored ?? []) {
      if (entry.sinks.includes(from) && source.isPending(entry.sequence)) again.push({ event: entry.event, sinks })
    }
    const cursor = { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) }
    const advance = () => engine.lanes.settle({ lane: from, cursor, park: [], unpark: [], bury: [] })
    if (again.length > 0) engine.appendWith(again, Origin.moved, advance)
    else engine.exclusively(() => ({ result: undefined, committed: advance() }))
    count += again.length
    yield
  }
  return (
    count +
    engine.exclusively(() => {
      const { moved, committed } = engine.lanes.moveKept(from, to)
      return { result: moved, committed }
    })
  )
}
