/** Answers the requests of the admin API about dead letters: listing, replaying and dropping them. */
import { Duration, Effect, Option, Stream, Struct } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ActiveConfig } from "../../ActiveConfig.ts"
import type { RelayConfig } from "../../config/Config.ts"
import { type Event, quarantine } from "../../event/Event.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import { Archive } from "../../journal/Archive.ts"
import { matchOf } from "../../journal/EventQuery.ts"
import { type JournalError, refused } from "../../journal/JournalError.ts"
import { letterId, parseLetterId, type StoredDeadLetter } from "../../journal/LaneInfo.ts"
import { NewerEvents } from "../replay/NewerEvents.ts"
import { paceOf, roomAt, Summary } from "../replay/ReplayReport.ts"
import { type OnProgress, Work } from "../status/RelayStatus.ts"
import { Api } from "./Api.ts"
import { NotFound, noLane, Refused, refusedOr, requireSelectable, unavailable } from "./ApiParts.ts"
import type { DeadLetter, Selection } from "./DeadLetterApi.ts"
import { withoutAnswers } from "./EventReport.ts"
import { type LetterSelection, ofQuery } from "./EventSelection.ts"

/** The number of dead letters that are read and changed at a time. */
const step = 500
/** A replay looks this often for room at a sink whose backlog doesn't get smaller: for half a minute. */
const looks = 120
const lookEvery = Duration.millis(250)

/** Returns the id just above `id`, so that the page before it begins with `id` itself. */
const justAbove = (id: string): { readonly lane: string; readonly before: string } | undefined => {
  const key = parseLetterId(id)
  return key && { lane: key.lane, before: letterId(key.lane, key.sequence + 1) }
}

/** Sorts ids of dead letters, newest first, without repetitions. */
const newestFirst = (ids: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(ids)].sort((a, b) => (parseLetterId(b)?.sequence ?? 0) - (parseLetterId(a)?.sequence ?? 0))

const isSelectedBy = (selection: LetterSelection, { searchIds }: Archive["Service"]) => {
  const match = matchOf({ ...selection, limit: 1 }, searchIds)
  return ({ lane, sequence, at, attempts, entry: { event, sinks } }: StoredDeadLetter) =>
    match.event(sequence, event, sinks) && match.deliveries([{ sink: lane, outcome: "dead", at, attempts }])
}

/** Reads the selected dead letters page by page, so that no read blocks the journal for long. */
const reader = (archive: Archive["Service"]) => {
  /**
   * Streams the selected dead letters, in descending order of id. A dead letter that is added in the meantime has a
   * higher id and is not included. The first read has at most `first` entries. A page includes the bodies, so it is
   * shorter than its limit if they are large. Only an empty page is the end.
   */
  const matching = (selection: LetterSelection, first = step, before?: string) => {
    const { sink, types = [] } = selection
    const [type, ...others] = types
    const query = {
      ...(sink !== undefined && { lane: sink }),
      ...(others.length === 0 && type !== undefined && { type }),
    }
    return Stream.paginate({ before, limit: first }, ({ before, limit }) =>
      Effect.map(archive.deadLetters({ ...query, ...(before !== undefined && { before }), limit }), (page) => [
        page,
        Option.map(Option.fromNullishOr(page.at(-1)), ({ id }) => ({ before: id, limit: step })),
      ]),
    ).pipe(Stream.filter(isSelectedBy(selection, archive)))
  }

  /** Returns a dead letter, or `undefined` if none has this id. */
  const find = Effect.fnUntraced(function* (id: string) {
    const above = justAbove(id)
    const [letter] = above === undefined ? [] : yield* archive.deadLetters({ ...above, limit: 1 })
    return letter?.id === id ? letter : undefined
  })

  /** Newest first. */
  const all = (selection: Selection) =>
    "ids" in selection
      ? Stream.fromIterable(newestFirst(selection.ids)).pipe(
          Stream.mapEffect(find),
          Stream.filter((letter) => letter !== undefined),
        )
      : matching(selection)

  return { matching, find, all }
}

const inFull = ({ id, lane, at, attempts, entry: { event } }: StoredDeadLetter): DeadLetter => ({
  id,
  lane,
  eventId: event.id,
  ...Struct.pick(event, ["type", "accountId", "webhook", "receivedAt"]),
  ...(event.erased !== undefined && { erased: event.erased.at }),
  at,
  attempts,
})
const listed = (letter: StoredDeadLetter): DeadLetter => ({
  ...inFull(letter),
  attempts: withoutAnswers(letter.attempts),
})

interface Change {
  readonly change: (ids: ReadonlyArray<string>) => Effect.Effect<number, JournalError>
  /** Returns the sinks that get the dead letter. Their backlogs must have room for it. */
  readonly sinksOf?: (letter: StoredDeadLetter) => ReadonlyArray<string>
  /** Dead letters a second. */
  readonly rate?: number | undefined
}

/**
 * Returns how many more dead letters fit into the backlogs of these sinks. Beyond `backlog.max` they would become dead
 * letters again, or new deliveries would be refused. Waits until some fit. `count` is the number of queued ones.
 */
const roomFor = Effect.fnUntraced(function* (
  archive: Archive["Service"],
  sinks: RelayConfig["sinks"],
  names: ReadonlySet<string>,
  count: number,
) {
  const limited = sinks.filter(({ name, backlog }) => backlog !== undefined && names.has(name))
  if (limited.length === 0) return Number.POSITIVE_INFINITY
  for (let [left, most] = [looks, Number.NEGATIVE_INFINITY]; ; ) {
    const { events, why } = yield* roomAt(archive, limited)
    if (events > 0) return events
    left = events > most ? looks : left - 1
    most = Math.max(most, events)
    if (left === 0) {
      return yield* refused(
        `${count} dead letters are queued again, and the others stay: ${why}, and there are no fewer after ${Duration.format(Duration.times(lookEvery, looks))}; repeat this once the sink accepts events, or raise its backlog.max`,
      )
    }
    yield* Effect.sleep(lookEvery)
  }
})

/** Changes all selected dead letters, oldest first, so that sinks with an order receive them in order. */
const changeAll = Effect.fnUntraced(function* (
  archive: Archive["Service"],
  config: () => RelayConfig,
  selection: Selection,
  { change, sinksOf = () => [], rate }: Change,
  onProgress: OnProgress,
) {
  const selected = Stream.map(reader(archive).all(selection), (letter) => ({ id: letter.id, sinks: sinksOf(letter) }))
  const letters = (yield* Stream.runCollect(selected)).toReversed()
  const pace = paceOf(rate)
  const most = Math.min(step, pace.most)
  let count = 0
  for (let next = 0; next < letters.length; ) {
    const wanted = letters.slice(next, next + most)
    const names = new Set(wanted.flatMap(({ sinks }) => sinks))
    const some = wanted.slice(0, yield* roomFor(archive, config().sinks, names, count))
    count += yield* change(some.map(({ id }) => id))
    next += some.length
    onProgress(next / letters.length)
    yield* Effect.sleep(pace.rest(some.length))
  }
  return count
})

export const deadLetterHandlers = HttpApiBuilder.group(
  Api,
  "deadLetters",
  Effect.fn(function* (handlers) {
    const archive = yield* Archive
    const active = yield* ActiveConfig
    const ingest = yield* Ingest
    const work = yield* Work

    const { matching, find, all } = reader(archive)

    /** A mistyped name must not look like a lane without dead letters, nor a mistyped pattern like types without any. */
    const requireKnown = Effect.fnUntraced(function* (selection: LetterSelection) {
      yield* requireSelectable(selection)
      const name = selection.sink
      if (name === undefined) return
      const lanes = yield* Effect.mapError(archive.lanes, unavailable)
      if (!lanes.some((lane) => lane.name === name)) return yield* noLane(name)
    })

    const changed = Effect.fnUntraced(function* (what: string, selection: Selection, change: Change) {
      yield* requireKnown("ids" in selection ? {} : selection)
      const changing = work.track(what, (onProgress) =>
        changeAll(archive, () => active.current.config, selection, change, onProgress),
      )
      return { count: yield* Effect.mapError(changing, refusedOr) }
    })

    /** Routes quarantined events by the active config, and counts those that stay, by reason. */
    const routing = () => {
      const counts = new Map<string, number>()
      const reroute = (event: Event) => {
        const found = ingest.reroute(event)
        if (found.stays === undefined) return found
        counts.set(found.stays, (counts.get(found.stays) ?? 0) + 1)
      }
      return { reroute, stayed: () => [...counts].map(([why, count]) => ({ why, count })) }
    }

    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query: { before, limit = 100, ...query } }) {
        const selection = ofQuery(query)
        yield* requireKnown(selection)
        if (before !== undefined && parseLetterId(before) === undefined) {
          return yield* new Refused({
            message: `there is no place ${before}: it is the id that ended the page before`,
          })
        }
        return yield* matching(selection, limit, before).pipe(
          Stream.map(listed),
          Stream.take(limit),
          Stream.runCollect,
          Effect.mapError(unavailable),
        )
      }),
      show: Effect.fnUntraced(function* ({ params: { id } }) {
        const letter = yield* Effect.mapError(find(id), unavailable)
        if (letter === undefined) {
          return yield* new NotFound({ message: `there is no dead letter ${id}; \`relay dlq list\` shows them` })
        }
        const { signature, body } = letter.entry.event
        return { ...inFull(letter), signature, body: Buffer.from(body).toString("base64") }
      }),
      preview: Effect.fnUntraced(function* ({ payload }) {
        yield* requireKnown("ids" in payload ? {} : payload)
        const summary = new Summary({ isNewestFirst: true })
        const newer = new NewerEvents(active.current.config.sinks)
        const { reroute, stayed } = routing()
        let erased = 0
        const count = ({ lane, sequence, entry: { event } }: StoredDeadLetter) => {
          if (event.erased !== undefined) {
            erased += 1
            return
          }
          const sinks = lane === quarantine ? reroute(event)?.sinks : [lane]
          if (sinks === undefined) return
          summary.sent({ sequence, event, deliveries: [] }, sinks)
          newer.add(sequence, event, sinks)
        }
        const counting = Stream.runForEach(all(payload), (letter) => Effect.sync(() => count(letter)))
        yield* Effect.mapError(counting, unavailable)
        const { leftOut: _, undelivered: __, removedSinks: ___, ...counts } = summary.counts
        return {
          ...counts,
          newer: yield* Effect.mapError(newer.count(archive), unavailable),
          stayed: stayed(),
          erased,
        }
      }),
      replay: Effect.fnUntraced(function* ({ payload: { rate, ...payload } }) {
        const { reroute, stayed } = routing()
        let erased = 0
        const change = (ids: ReadonlyArray<string>) => archive.replayDeadLetters(ids, reroute)
        const sinksOf = ({ lane, entry: { event } }: StoredDeadLetter): ReadonlyArray<string> => {
          if (event.erased !== undefined) erased += 1
          if (lane !== quarantine) return [lane]
          const found = ingest.reroute(event)
          return found.stays === undefined ? found.sinks : []
        }
        const { count } = yield* changed("replay of dead letters", payload, { change, sinksOf, rate })
        return { count, stayed: stayed(), erased }
      }),
      drop: ({ payload }) => changed("drop of dead letters", payload, { change: archive.dropDeadLetters }),
    })
  }),
)
