/** Handlers that list, replay and drop dead letters. */
import { Effect, Stream } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { type Event, quarantine } from "../event/Event.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive } from "../journal/Archive.ts"
import * as DeadLetterId from "../journal/DeadLetterId.ts"
import type { JournalError, StoredDeadLetter } from "../journal/Journal.ts"
import * as Api from "./Api.ts"
import * as Answers from "./AttemptAnswers.ts"
import { ofQuery } from "./EventSelection.ts"
import { noLane, requireSelectable, unavailable } from "./Refusals.ts"
import { paceOf } from "./ReplayPace.ts"
import { Summary } from "./ReplaySummary.ts"
import * as SelectedDeadLetters from "./SelectedDeadLetters.ts"
import { type OnProgress, Work } from "./Work.ts"

const inFull = ({ id, lane, at, attempts, entry: { event } }: StoredDeadLetter): Api.DeadLetter => ({
  id,
  lane,
  eventId: event.id,
  type: event.type,
  accountId: event.accountId,
  webhook: event.webhook,
  receivedAt: event.receivedAt,
  ...(event.erased !== undefined && { erased: event.erased.at }),
  at,
  attempts,
})
const listed = (letter: StoredDeadLetter): Api.DeadLetter => ({
  ...inFull(letter),
  attempts: Answers.without(letter.attempts),
})

type Change = (ids: ReadonlyArray<string>) => Effect.Effect<number, JournalError>

export const layer = HttpApiBuilder.group(
  Api.Api,
  "deadLetters",
  Effect.fn(function* (handlers) {
    const archive = yield* Archive
    const ingest = yield* Ingest
    const work = yield* Work

    const { matching, find, all } = SelectedDeadLetters.of(archive)

    /** Changes all selected dead letters, oldest first, so that sinks with an order receive them in order. */
    const changeAll = Effect.fnUntraced(function* (
      selection: Api.Selection,
      { change, rate }: { readonly change: Change; readonly rate?: number | undefined },
      onProgress: OnProgress,
    ) {
      const newestFirst =
        "ids" in selection
          ? SelectedDeadLetters.newestFirst(selection.ids)
          : yield* Stream.runCollect(Stream.map(matching(selection), ({ id }) => id))
      const ids = newestFirst.toReversed()
      const pace = paceOf(rate)
      const most = Math.min(SelectedDeadLetters.step, pace.most)
      let count = 0
      for (let next = 0; next < ids.length; next += most) {
        const some = ids.slice(next, next + most)
        count += yield* change(some)
        onProgress(next / ids.length)
        yield* Effect.sleep(pace.rest(some.length))
      }
      return count
    })

    /** A mistyped name must not look like a lane without dead letters, nor a mistyped pattern like types without any. */
    const requireKnown = Effect.fnUntraced(function* (selection: Api.LetterSelection) {
      yield* requireSelectable(selection)
      const name = selection.sink
      if (name === undefined) return
      const lanes = yield* Effect.mapError(archive.lanes, unavailable)
      if (!lanes.some((lane) => lane.name === name)) return yield* noLane(name)
    })

    const changed = Effect.fnUntraced(function* (
      what: string,
      selection: Api.Selection,
      change: Change,
      rate?: number,
    ) {
      yield* requireKnown("ids" in selection ? {} : selection)
      const changing = work.track(what, (onProgress) => changeAll(selection, { change, rate }, onProgress))
      return { count: yield* Effect.mapError(changing, unavailable) }
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
        if (before !== undefined && DeadLetterId.parse(before) === undefined) {
          return yield* new Api.Refused({
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
          return yield* new Api.NotFound({ message: `there is no dead letter ${id}; \`relay dlq list\` shows them` })
        }
        const { signature, body } = letter.entry.event
        return { ...inFull(letter), signature, body: Buffer.from(body).toString("base64") }
      }),
      preview: Effect.fnUntraced(function* ({ payload }) {
        yield* requireKnown("ids" in payload ? {} : payload)
        const summary = new Summary({ isNewestFirst: true })
        const { reroute, stayed } = routing()
        let erased = 0
        const count = ({ lane, sequence, entry: { event } }: StoredDeadLetter) => {
          if (event.erased !== undefined) {
            erased += 1
            return
          }
          const sinks = lane === quarantine ? reroute(event)?.sinks : [lane]
          if (sinks !== undefined) summary.sent({ sequence, event, deliveries: [] }, sinks)
        }
        const counting = Stream.runForEach(all(payload), (letter) => Effect.sync(() => count(letter)))
        yield* Effect.mapError(counting, unavailable)
        const { leftOut: _, undelivered: __, removedSinks: ___, ...counts } = summary.counts
        return { ...counts, stayed: stayed(), erased }
      }),
      replay: Effect.fnUntraced(function* ({ payload: { rate, ...payload } }) {
        const { reroute, stayed } = routing()
        const counting = Stream.runCount(
          Stream.filter(all(payload), ({ entry: { event } }) => event.erased !== undefined),
        )
        const replaying = (ids: ReadonlyArray<string>) => archive.replayDeadLetters(ids, reroute)
        const { count } = yield* changed("replay of dead letters", payload, replaying, rate)
        // Erased dead letters stay, so they are still found afterwards.
        return { count, stayed: stayed(), erased: yield* Effect.mapError(counting, unavailable) }
      }),
      drop: ({ payload }) => changed("drop of dead letters", payload, archive.dropDeadLetters),
    })
  }),
)
