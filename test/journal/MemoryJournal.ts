/**
 * The journal in memory, for tests: the simplest journal that keeps the contract.
 *
 * Everything is durable immediately, so an append never waits. It remembers every delivery, limits its size and the
 * backlog of lanes, and never prunes. If it is opened again, it has its last state.
 */

import { Effect, Exit, Layer } from "effect"
import type { Entry, Event } from "../../src/event/Event.ts"
import type { Archive } from "../../src/journal/Archive.ts"
import { type AuditRecord, kept } from "../../src/journal/AuditLog.ts"
import * as DeadLetterChanges from "../../src/journal/archive/DeadLetterChanges.ts"
import {
  chooseErased,
  erasedEvent,
  erasedNote,
  eraseEvents,
  resultOf,
  sendable,
  withoutAnswers,
} from "../../src/journal/archive/Erasure.ts"
import { importEvents } from "../../src/journal/archive/Imports.ts"
import type { JournalTables, RemovedLetters, SliceRows } from "../../src/journal/archive/JournalTables.ts"
import * as MovedLanes from "../../src/journal/archive/MovedLanes.ts"
import * as Reappending from "../../src/journal/archive/Reappending.ts"
import type { Attempt } from "../../src/journal/DeliveryStatus.ts"
import { type FoundEvent, matchOf } from "../../src/journal/EventQuery.ts"
import type { AppendExit, Journal } from "../../src/journal/Journal.ts"
import { full } from "../../src/journal/JournalError.ts"
import { servicesOf, type WholeJournal } from "../../src/journal/JournalType.ts"
import {
  type LaneInfo,
  type Mute,
  type Paused,
  returnedDelay,
  returning,
  type StoredDeadLetter,
} from "../../src/journal/LaneInfo.ts"
import {
  attemptsOf,
  type Cursor,
  type DeliveredRange,
  keptAttempts,
  type RefusedSettlement,
  type Tries,
  type Wait,
} from "../../src/journal/Settlement.ts"
import { type Reappended, type Removal, toReplay } from "../../src/journal/stream/BulkSlices.ts"
import { isPassed, letterColumns, settledAt, whyUnstorable } from "../../src/journal/stream/Cursors.ts"
import { keyOf } from "../../src/journal/stream/DuplicateKey.ts"
import type { Ended } from "../../src/journal/stream/OutcomeRecord.ts"
import { encode, Origin } from "../../src/journal/stream/Record.ts"
import { SearchIds } from "../../src/journal/stream/SearchIds.ts"
import { usualSearchIds } from "../../src/journal/stream/SearchIdsConfig.ts"
import { heldStatus, type LaneStates, laneStates, noPlace } from "../../src/journal/stream/SearchResult.ts"
import * as Pattern from "../../src/routing/Pattern.ts"
import { copying, type MemoryCopying } from "./MemoryCopy.ts"

type Attempts = ReadonlyArray<Attempt>

export interface Lane {
  cursor: Cursor
  max: number
  maxBytes: number
  paused: Paused
  mute: Mute | undefined
  pausedFor: number
  readonly retrying: Map<number, { readonly retrying: Wait; readonly entry: Entry; readonly attempts: Attempts }>
  readonly dead: Map<number, { readonly at: number; readonly entry: Entry; readonly attempts: Attempts }>
  /** The states of the lane's alerts, by key. */
  readonly alerts: Map<string, string>
}

const size = (entry: Entry): number => entry.event.body.length

/** Returns a new, empty journal. */
export const make = (maxSize = Number.MAX_SAFE_INTEGER): WholeJournal & MemoryCopying => {
  const searchIds = new SearchIds(usualSearchIds)
  const log: Array<Entry> = []
  /** The lanes that an event was imported for, by its place in the other journal. */
  const importedFor = new Map<string, ReadonlyArray<string>>()
  const copies = new Map<number, "replayed" | "moved">()
  const delivered = new Map<string, Array<DeliveredRange>>()
  const ended: Array<Ended> = []
  const seen = new Map<string, Set<number>>()
  const lanes = new Map<string, Lane>()
  /** The current names of renamed lanes, by former name. */
  const renamedTo = new Map<string, string>()
  const waiting = new Set<{ readonly after: number; readonly wake: () => void }>()
  const counters = { appended: 0, duplicates: 0, altered: 0, commits: 0, commitMillis: 0 }
  let hour: string | undefined
  const audit: Array<AuditRecord> = []

  const newLane = (): Lane => ({
    cursor: { sequence: log.length, settled: [] },
    max: Number.POSITIVE_INFINITY,
    maxBytes: Number.POSITIVE_INFINITY,
    paused: false,
    mute: undefined,
    pausedFor: 0,
    retrying: new Map(),
    dead: new Map(),
    alerts: new Map(),
  })

  const laneOf = (name: string): Lane => {
    const lane = lanes.get(name) ?? newLane()
    lanes.set(name, lane)
    return lane
  }

  const pending = (name: string, lane: Lane): ReadonlyArray<Entry> =>
    log.slice(lane.cursor.sequence).filter((e) => e.sinks.includes(name) && !isPassed(lane.cursor, e.sequence))

  /** Returns the present name of the lane that has or had this name. */
  const presentName = (name: string): string => {
    const to = lanes.has(name) ? undefined : renamedTo.get(name)
    return to !== undefined && lanes.has(to) ? to : name
  }

  /** A rename changes the name wherever it is kept. Nothing moves. */
  const renameLane = (from: string, to: string, lane: Lane): void => {
    const renamed = (name: string) => (name === from ? to : name)
    const inEntry = (entry: Entry): Entry => ({ ...entry, sinks: entry.sinks.map(renamed) })
    lanes.delete(from)
    lanes.set(to, lane)
    for (const [name, present] of [...renamedTo, [from, to] as const]) renamedTo.set(name, renamed(present))
    log.splice(0, log.length, ...log.map(inEntry))
    for (const kept of [lane.retrying, lane.dead] as ReadonlyArray<Map<number, { readonly entry: Entry }>>) {
      for (const [sequence, one] of kept) kept.set(sequence, { ...one, entry: inEntry(one.entry) })
    }
    for (const [key, names] of importedFor) importedFor.set(key, names.map(renamed))
    delivered.set(to, [...(delivered.get(to) ?? []), ...(delivered.get(from) ?? [])])
    delivered.delete(from)
    for (const [index, one] of ended.entries()) {
      const { to: target } = one.note
      const note = { ...one.note, ...(target !== undefined && { to: renamed(target) }) }
      ended[index] = { ...one, lane: renamed(one.lane), note }
    }
  }

  const put = (event: Event, names: ReadonlyArray<string>, origin: "delivered" | "replayed" | "moved"): void => {
    const sinks = renamedTo.size === 0 ? names : [...new Set(names.map(presentName))]
    for (const sink of sinks) laneOf(sink)
    const sequence = log.length + 1
    const own = origin === "replayed" ? toReplay(event) : event
    log.push({ sequence, event: own, sinks, replayed: origin === "replayed" || own.replay !== undefined })
    if (origin !== "delivered") copies.set(sequence, origin)
    counters.commits++
    for (const waiter of waiting) {
      if (waiter.after >= sequence) continue
      waiting.delete(waiter)
      waiter.wake()
    }
  }

  /** Returns the checksums of all events with the event's key. */
  const bodiesLike = (event: Event): Set<number> => {
    const { hi, lo } = keyOf(event)
    const key = `${hi} ${lo}`
    const bodies = seen.get(key) ?? new Set()
    seen.set(key, bodies)
    return bodies
  }

  const isSeen = (event: Event): boolean => bodiesLike(event).has(keyOf(event).bodyCrc)

  const keep = (event: Event, sinks: ReadonlyArray<string>): void => {
    const bodies = bodiesLike(event)
    const altered = bodies.size > 0
    if (altered) counters.altered++
    bodies.add(keyOf(event).bodyCrc)
    put(altered ? { ...event, altered } : event, sinks, "delivered")
  }

  const appendUnsafe = (event: Event, sinks: ReadonlyArray<string>): AppendExit => {
    if (isSeen(event)) {
      counters.duplicates++
      return Exit.succeed("duplicate")
    }
    // Tests append thousands of events, so without a limit the bytes aren't counted.
    if (maxSize < Number.MAX_SAFE_INTEGER && whyFull() !== "") return Exit.fail(full("maxSize", whyFull()))
    for (const sink of sinks) {
      const lane = lanes.get(sink)
      // Tests append thousands of events, so lanes without a limit are not counted.
      if (lane === undefined || Math.min(lane.max, lane.maxBytes) === Number.POSITIVE_INFINITY) continue
      const waiting = pending(sink, lane)
      const backlog = waiting.length + lane.retrying.size
      if (lane.maxBytes < Number.POSITIVE_INFINITY) {
        const kept = [...waiting, ...[...lane.dead.values()].map(({ entry }) => entry)]
        const bytesOf = (some: ReadonlyArray<Entry>) => some.reduce((sum, entry) => sum + size(entry), 0)
        const own = bytesOf(kept.filter((entry) => entry.event.webhook === event.webhook))
        if (own >= lane.maxBytes - bytesOf(kept)) return Exit.fail(full("backlog", `The webhook keeps ${own} bytes.`))
      }
      if (backlog >= lane.max) return Exit.fail(full("backlog", `The sink ${sink} has ${backlog} events waiting.`))
    }
    keep(event, sinks)
    counters.appended++
    return Exit.succeed("appended")
  }

  /** Returns the replayed dead letters that the lane hasn't taken up yet. */
  const returnedOf = (lane: Lane) =>
    [...lane.retrying.values()]
      .filter(({ retrying }) => retrying.delay === returnedDelay)
      .map(({ retrying: { sequence }, attempts }) => ({ sequence, attempts: attemptsOf(attempts) }))
      .sort((a, b) => a.sequence - b.sequence)

  const state = (name: string, lane: Lane): LaneInfo => ({
    name,
    cursor: lane.cursor,
    retrying: lane.retrying.size - returnedOf(lane).length,
    returned: returnedOf(lane).length,
    deadLetters: lane.dead.size,
    deadLetterBytes: [...lane.dead.values()].reduce(
      (sum, { entry, attempts }) => sum + letterColumns(encode(entry), attempts).size,
      0,
    ),
    backlog: pending(name, lane).length + lane.retrying.size,
    oldest:
      [...pending(name, lane).map(({ sequence }) => sequence), ...lane.retrying.keys()].sort((a, b) => a - b)[0] ?? 0,
    paused: lane.paused,
    ...(lane.mute !== undefined && { mute: lane.mute }),
  })

  const letters = (): ReadonlyArray<StoredDeadLetter> =>
    [...lanes]
      .flatMap(([lane, { dead }]) =>
        [...dead].map(([sequence, letter]) => ({ id: `${lane}:${sequence}`, lane, sequence, ...letter })),
      )
      .sort((a, b) => b.sequence - a.sequence || (a.lane < b.lane ? 1 : -1))

  const leaves = (
    outcome: Ended["outcome"],
    lane: string,
    sequence: number,
    { at, by }: Removal,
    more: Partial<Ended>,
  ) => ended.push({ sequence, lane, at, outcome, ...more, note: { by, ...more.note } })
  /** Reports whether the log has the event, and it was not erased before. */
  const eraseOne = (sequence: number, at: number): boolean => {
    const forget = (entry: Entry): Entry => ({ ...entry, event: erasedEvent(entry.event, at) })
    const entry = log[sequence - 1]
    const isFound = entry !== undefined && entry.event.erased === undefined
    if (isFound) log[sequence - 1] = forget(entry)
    for (const { dead } of lanes.values()) {
      const letter = dead.get(sequence)
      if (letter === undefined) continue
      dead.set(sequence, { ...letter, entry: forget(letter.entry), attempts: withoutAnswers(letter.attempts) })
    }
    for (const [index, one] of ended.entries()) {
      if (one.sequence !== sequence && one.copy !== sequence) continue
      ended[index] = { ...one, note: erasedNote(one.note) ?? one.note }
    }
    return isFound
  }

  const noteOf = (lane: Lane | undefined, sequence: number): Ended["note"] => {
    const dead = lane?.dead.get(sequence)
    const attempts = dead?.attempts ?? lane?.retrying.get(sequence)?.attempts ?? []
    return { ...(dead !== undefined && { deadAt: dead.at }), attempts }
  }

  const statesOf = (sequence: number, sinks: ReadonlyArray<string>): LaneStates => {
    const holding = [...lanes]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([name, { dead, retrying }]) => {
        const [letter, retry] = [dead.get(sequence), retrying.get(sequence)]
        if (letter !== undefined) return [heldStatus(name, { at: letter.at }, letter.attempts)]
        return retry === undefined ? [] : [heldStatus(name, { due: retry.retrying.due }, retry.attempts)]
      })
    return laneStates(sequence, sinks, {
      held: new Map(holding.map((status) => [status.sink, status])),
      ended,
      cursorOf: (name) => lanes.get(name)?.cursor,
      deliveryOf: (isName) => {
        const ranges = [...delivered].flatMap(([name, ranges]) => (isName(name) ? ranges : []))
        const range = ranges.findLast(({ from, to }) => from <= sequence && sequence <= to)
        if (range === undefined) return undefined
        const { from: _, to: __, ...delivery } = range
        return delivery
      },
    })
  }

  const found = ({ sequence, event: { body, ...event }, sinks }: Entry): FoundEvent => {
    return {
      sequence,
      place: String(sequence),
      origin: copies.get(sequence) ?? "delivered",
      event,
      body,
      ...statesOf(sequence, sinks),
    }
  }

  const moveKept = (source: Lane, from: string, to: string, why: Removal): number => {
    const target = laneOf(to)
    const count = source.retrying.size + source.dead.size
    const ahead = source.pausedFor - target.pausedFor
    for (const [sequence, item] of source.dead) {
      leaves("moved", from, sequence, why, { note: { to, deadAt: item.at } })
      target.dead.set(sequence, item)
    }
    for (const [sequence, item] of source.retrying) {
      const before = item.retrying.firstAttemptAt
      const firstAttemptAt = before === 0 ? 0 : Math.max(before + ahead, 1)
      leaves("moved", from, sequence, why, { note: { to } })
      target.retrying.set(sequence, { ...item, retrying: { ...item.retrying, firstAttemptAt } })
    }
    source.dead.clear()
    source.retrying.clear()
    return count
  }
  const movingLog = (lane: Lane, name: string, to: string): MovedLanes.MovingLog => ({
    source: {
      lane: name,
      get cursor() {
        return lane.cursor
      },
      isPending: (sequence) => !isPassed(lane.cursor, sequence),
    },
    to,
    end: log.length,
    slice: (work) => work,
    read: (after, limit) => Effect.sync(() => log.slice(after, after + limit)),
    append: (again, more, cursor) =>
      Effect.sync(() => {
        ended.push(...more(log.length + 1))
        for (const { event, sinks } of again) put(event, sinks, "moved")
        lane.cursor = cursor
      }),
  })
  const sizeOf = (name: string, lane: Lane) => pending(name, lane).length + lane.retrying.size + lane.dead.size
  const lanesNamed = (name: string) =>
    Effect.sync((): ReadonlyArray<MovedLanes.LaneRows> => {
      const lane = lanes.get(name)
      if (lane === undefined) return []
      return [
        {
          moveKept: (to, why) =>
            Effect.sync(() => ({ count: moveKept(lane, name, to, why), log: movingLog(lane, name, to) })),
          removeEmpty: () => Effect.sync(() => sizeOf(name, lane) === 0 && lanes.delete(name)),
          drop: (why) =>
            Effect.sync(() => {
              const count = sizeOf(name, lane)
              for (const sequence of [...lane.retrying.keys(), ...lane.dead.keys()]) {
                leaves("dropped", name, sequence, why, { note: noteOf(lane, sequence) })
              }
              leaves("laneRemoved", name, lane.cursor.sequence + 1, why, { last: log.length })
              lanes.delete(name)
              return count
            }),
        },
      ]
    })
  const moveLane = (from: string, to: string) => MovedLanes.move(lanesNamed(from), from, to)

  const removeAll = ({ keys, outcome, copies, why }: RemovedLetters): number =>
    keys.filter(({ lane: name, sequence }, index) => {
      const [lane, copy] = [lanes.get(name), copies[index]]
      if (lane?.dead.has(sequence) !== true) return false
      leaves(outcome, name, sequence, why, { ...(copy !== undefined && { copy }), note: noteOf(lane, sequence) })
      return lane.dead.delete(sequence)
    }).length
  const appendAgain = ({ event, sinks }: Reappended, origin: Origin): number | undefined => {
    if (origin === Origin.delivered && isSeen(event)) return undefined
    if (origin === Origin.delivered) keep(event, sinks)
    else put(event, sinks, origin === Origin.replayed ? "replayed" : "moved")
    return log.length
  }

  const rows: SliceRows = {
    letters: (keys) => {
      const all = letters()
      const found = keys.flatMap(
        (key) => all.find((one) => one.lane === key.lane && one.sequence === key.sequence) ?? [],
      )
      return Effect.succeed({ done: keys.length, letters: found })
    },
    entries: (sequences) =>
      Effect.succeed({
        done: sequences.length,
        entries: new Map(log.filter(({ sequence }) => sequences.includes(sequence)).map((one) => [one.sequence, one])),
      }),
    received: (entries) => Effect.succeed(new Set(entries.filter(({ event }) => isSeen(event)))),
    importedFor: (journal, sequences) =>
      Effect.succeed(
        new Map(sequences.map((sequence) => [sequence, importedFor.get(JSON.stringify([journal, sequence])) ?? []])),
      ),
    append: (entries, origin, also) =>
      Effect.sync(() => {
        const copies = entries.map((entry) => appendAgain(entry, origin))
        const { removed, ended: more = [], imported = [], letters = [] } = also(copies)
        if (removed !== undefined) removeAll(removed)
        ended.push(...more)
        for (const { journal, sequence, lanes } of imported) importedFor.set(JSON.stringify([journal, sequence]), lanes)
        for (const { lane, entry, ...letter } of letters) laneOf(lane).dead.set(entry.sequence, { ...letter, entry })
      }),
    giveBack: (keys, why) =>
      Effect.sync(
        () =>
          keys.filter(({ lane: name, sequence }) => {
            const lane = lanes.get(name)
            const letter = lane?.dead.get(sequence)
            if (lane === undefined || letter === undefined) return false
            const { entry, attempts } = letter
            lane.retrying.set(sequence, { retrying: returning(sequence, why.at), entry, attempts })
            leaves("returned", name, sequence, why, { note: { deadAt: letter.at } })
            return lane.dead.delete(sequence)
          }).length,
      ),
    remove: (removed) => Effect.sync(() => removeAll(removed)),
  }
  const usedBytes = () => log.reduce((sum, entry) => sum + size(entry), 0)
  const whyFull = () => (usedBytes() < maxSize ? "" : 'The journal has reached its largest size ("journal.maxSize").')
  const tables: JournalTables = {
    whyFull,
    logOf: () => "own",
    importable: (_, events) => Effect.succeed(events),
    slice: (work) => work(rows),
  }

  const remember = (event: Event) => bodiesLike(event).add(keyOf(event).bodyCrc)
  return {
    ...copying({ log, lanes, laneOf, delivered, ended, copies, importedFor, audit, remember }),
    appendUnsafe,
    append: (event, sinks) => Effect.suspend(() => appendUnsafe(event, sinks)),
    read: (after, limit) => Effect.sync(() => log.slice(after, after + limit).map(sendable)),
    settle: (settlements) =>
      Effect.sync(() => {
        const refused: Array<RefusedSettlement> = []
        for (const settlement of settlements) {
          const lane = lanes.get(settlement.lane)
          if (lane === undefined) continue
          const error = whyUnstorable(settlement)
          if (error !== undefined) {
            refused.push({ lane: settlement.lane, error })
            continue
          }
          const find = (sequence: number) => lane.retrying.get(sequence)?.entry ?? log[sequence - 1]
          const attempts = (sequence: number, tries: Tries) =>
            keptAttempts(lane.retrying.get(sequence)?.attempts ?? [], tries)
          for (const retrying of settlement.takeBack) {
            const { sequence } = retrying
            const letter = lane.dead.get(sequence)
            if (letter !== undefined) {
              lane.retrying.set(sequence, { retrying, entry: letter.entry, attempts: letter.attempts })
            }
            lane.dead.delete(sequence)
          }
          for (const { failed, refunded, ...retrying } of settlement.retry) {
            const { sequence } = retrying
            const entry = find(sequence)
            const kept = attempts(sequence, { failed, refunded })
            if (entry !== undefined) lane.retrying.set(sequence, { retrying, entry, attempts: kept })
          }
          for (const { sequence, at, ...tries } of settlement.deadLetter) {
            const entry = find(sequence)
            if (entry !== undefined) lane.dead.set(sequence, { at, entry, attempts: attempts(sequence, tries) })
            lane.retrying.delete(sequence)
          }
          delivered.set(settlement.lane, [...(delivered.get(settlement.lane) ?? []), ...settlement.delivered])
          for (const { sequence, at, took, code, attempts: tries, ...since } of settlement.late) {
            const note = { tries, took, ...(code !== undefined && { code }), attempts: attempts(sequence, since) }
            ended.push({ sequence, lane: settlement.lane, at, outcome: "delivered", note })
          }
          for (const { sequence, at, by } of settlement.dropped) {
            ended.push({ sequence, lane: settlement.lane, at, outcome: "dropped", note: { by } })
          }
          for (const { sequence, at, alert } of settlement.counted) {
            ended.push({ sequence, lane: settlement.lane, at, outcome: "counted", note: { alert } })
          }
          for (const { key, state } of settlement.alerts) {
            if (state === undefined) lane.alerts.delete(key)
            else lane.alerts.set(key, state)
          }
          lane.pausedFor = settlement.pausedFor
          for (const sequence of settlement.endRetry) lane.retrying.delete(sequence)
          if (settlement.cursor.sequence >= lane.cursor.sequence) lane.cursor = settlement.cursor
        }
        return refused
      }),
    pastLost: Effect.succeed,
    head: Effect.sync(() => log.length),
    awaitBeyond: (after) =>
      Effect.callback((resume) => {
        if (log.length > after) return resume(Effect.succeed(after))
        const waiter = { after, wake: () => resume(Effect.succeed(after)) }
        waiting.add(waiter)
        return Effect.sync(() => {
          waiting.delete(waiter)
        })
      }),
    holding: Effect.sync(() =>
      [...lanes]
        .map(([name, lane]) => state(name, lane))
        .filter(({ backlog, deadLetters, paused }) => backlog + deadLetters > 0 || paused !== false),
    ),
    lanes: Effect.sync(() =>
      [...lanes].map(([name, lane]) => state(name, lane)).sort((a, b) => (a.name < b.name ? -1 : 1)),
    ),
    createLanes: (names) => Effect.sync(() => names.forEach(laneOf)),
    openLane: Effect.fnUntraced(function* (name, { renamedFrom = name, isConfigured = () => true } = {}) {
      const isBack = !lanes.has(renamedFrom) && !isConfigured(presentName(name))
      const from = isBack ? presentName(name) : renamedFrom
      const former = from === name ? undefined : lanes.get(from)
      if (former !== undefined && !lanes.has(name)) renameLane(from, name, former)
      const lane = laneOf(name)
      if (former !== undefined && former !== lane) {
        if (lane.paused === false) Object.assign(lane, { paused: former.paused, mute: former.mute })
        yield* moveLane(from, name)
      }
      const retries = [...lane.retrying.values()]
        .filter(({ retrying }) => retrying.delay !== returnedDelay)
        .map(({ retrying, attempts }) => ({
          ...{ ...retrying, lastFailure: attempts.at(-1)?.reason ?? "", attempts: attemptsOf(attempts) },
        }))
        .sort((a, b) => a.sequence - b.sequence)
      return {
        ...state(name, lane),
        pausedFor: lane.pausedFor,
        retries,
        alerts: [...lane.alerts].map(([key, state]) => ({ key, state })),
      }
    }),
    limitBacklog: (lane, max, maxBytes) =>
      Effect.sync(() => {
        const found = lanes.get(lane)
        if (found === undefined) return
        found.max = max ?? Number.POSITIVE_INFINITY
        found.maxBytes = maxBytes ?? Number.POSITIVE_INFINITY
      }),
    alerts: Effect.sync(() =>
      [...lanes].flatMap(([lane, { alerts }]) => [...alerts].map(([key, state]) => ({ lane, key, state }))),
    ),
    setPaused: (name, paused, mute) =>
      Effect.sync(() => {
        const lane = lanes.get(name)
        if (lane !== undefined) Object.assign(lane, { paused, mute })
      }),
    endPause: (name, until) =>
      Effect.sync(() => {
        const lane = lanes.get(name)
        if (lane?.paused === until) lane.paused = false
      }),
    moveLane,
    dropLane: (name) => MovedLanes.drop(lanesNamed(name)),
    returned: (lane) => Effect.sync(() => returnedOf(laneOf(lane))),
    readRetries: (lane, sequences) =>
      Effect.sync(() => ({
        entries: sequences.flatMap((sequence) => lanes.get(lane)?.retrying.get(sequence)?.entry ?? []),
        lost: [],
      })),
    deadLetters: (query) =>
      Effect.sync(() => {
        const [, lane = "", sequence = ""] = /^(.+):(\d+)$/.exec(query.before ?? "") ?? []
        const pattern = query.type === undefined ? undefined : Pattern.make(query.type)
        return letters()
          .filter((letter) => query.lane === undefined || letter.lane === query.lane)
          .filter((letter) => pattern === undefined || pattern.matches(letter.entry.event.type))
          .filter(
            (letter) =>
              sequence === "" ||
              letter.sequence < Number(sequence) ||
              (letter.sequence === Number(sequence) && letter.lane < lane),
          )
          .slice(0, query.limit)
      }),
    replayDeadLetters: (ids, reroute) => DeadLetterChanges.replay(tables, ids, reroute),
    dropDeadLetters: (ids) => DeadLetterChanges.drop(tables, ids),
    replay: (targets) => Reappending.replay(tables, targets),
    erase: (sequences, giveUp) =>
      eraseEvents(sequences, (part, why) =>
        Effect.sync(() => {
          const waitingFor = (sequence: number) =>
            [...lanes].flatMap(([name, lane]) =>
              lane.retrying.has(sequence) || pending(name, lane).some((entry) => entry.sequence === sequence)
                ? [name]
                : [],
            )
          const choice = chooseErased(part, waitingFor, giveUp)
          for (const { lane: name, sequence } of choice.givenUp) {
            const lane = lanes.get(name)
            if (lane === undefined) continue
            leaves("dropped", name, sequence, why, { note: noteOf(lane, sequence) })
            lane.retrying.delete(sequence)
            lane.cursor = settledAt(lane.cursor, sequence)
          }
          return resultOf(choice, new Set(choice.wanted.filter((sequence) => eraseOne(sequence, why.at))))
        }),
      ),
    scrub: Effect.succeed([]),
    import: (journal, events) => importEvents(tables, journal, events),
    events: (query) =>
      Effect.gen(function* () {
        const match = matchOf(query, searchIds)
        const { after = 0, before = Number.POSITIVE_INFINITY, through = Number.POSITIVE_INFINITY } = query
        const places = [query.after, query.before, query.through].filter((place) => place !== undefined)
        const strange = places.find((place) => !/^[0-9]*$/.test(place))
        if (strange !== undefined) return yield* noPlace(strange)
        const inRange = log.filter(
          ({ sequence }) => sequence > Number(after) && sequence < Number(before) && sequence <= Number(through),
        )
        const looked = query.after === undefined ? inRange.reverse() : inRange
        const all = looked
          .filter((entry) => match.event(entry.sequence, entry.event, entry.sinks))
          .map(found)
          .filter(({ deliveries }) => match.deliveries(deliveries))
        const events = all.slice(0, query.limit)
        const last = all.length > events.length ? events.at(-1) : undefined
        const hasBodies = query.id !== undefined || query.sequence !== undefined || query.bodies === true
        const end = looked.findIndex(({ sequence }) => sequence === last?.sequence)
        const passed = last === undefined ? looked : looked.slice(0, end + 1)
        return {
          events: hasBodies ? events : events.map(({ body: _, ...rest }) => rest),
          looked: passed.length,
          lookedTo: passed.at(-1)?.event.receivedAt ?? 0,
          ...(last !== undefined && { next: last.place }),
        }
      }),
    end: Effect.sync(() => String(log.length)),
    status: Effect.sync(() => ({
      health: "ok" as const,
      message: "",
      alarm: { lines: [], since: 0 },
      head: log.length,
      first: 1,
      usedBytes: usedBytes(),
      maxBytes: maxSize,
      filling: 0 as const,
      counters: { ...counters },
      engine: {},
    })),
    mayStart: () => true,
    hour: {
      read: Effect.sync(() => hour),
      replace: (text) =>
        Effect.sync(() => {
          hour = text
        }),
    },
    audit: {
      record: (operation) =>
        Effect.sync(() => {
          audit.push({ ...operation, id: (audit.at(-1)?.id ?? 0) + 1, relay: "" })
          const isRefused = ({ result }: AuditRecord) => result === "refused"
          const newest = [
            ...audit.filter(isRefused).slice(-kept.records),
            ...audit.filter((one) => !isRefused(one)).slice(-kept.records),
          ]
          const kepts = newest.filter(({ at }) => at >= operation.at - kept.age)
          audit.splice(0, audit.length, ...kepts.sort((a, b) => a.id - b.id))
        }),
      list: ({ since = 0, before = Number.POSITIVE_INFINITY, limit }) =>
        Effect.sync(() =>
          audit
            .filter(({ at, id }) => at >= since && id < before)
            .reverse()
            .slice(0, limit),
        ),
    },
    searchIds,
    broken: Effect.never,
    acknowledge: Effect.void,
  }
}

/** A new, empty journal; the layer opens the same one again. */
export const create = (maxSize?: number): Layer.Layer<Journal | Archive> =>
  Layer.succeedContext(servicesOf(make(maxSize)))

/** A new journal each time the layer is built. */
export const layer: Layer.Layer<Journal | Archive> = Layer.syncContext(() => servicesOf(make()))

/** A new journal each time the layer is built, with some operations replaced. */
export const layerWith = (replaced: (memory: WholeJournal) => Partial<WholeJournal>): Layer.Layer<Journal | Archive> =>
  Layer.syncContext(() => {
    const memory = make()
    return servicesOf({ ...memory, ...replaced(memory) })
  })
