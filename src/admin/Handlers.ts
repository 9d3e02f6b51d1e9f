/** What the admin API does: nothing of its own, it asks the journal and the lanes. */
import { Clock, Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import type { Webhook } from "../config/Config.ts"
import { type LaneStatus, Lanes } from "../delivery/Lanes.ts"
import { ownWebhook } from "../delivery/RelayEvents.ts"
import { type Event, quarantine } from "../event/Event.ts"
import type { Counters } from "../ingest/Counters.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { Journal, type JournalError, type StoredDeadLetter, type UndeliveredEvent } from "../journal/Journal.ts"
import { Reload } from "../reload/Reload.ts"
import * as Pattern from "../routing/Pattern.ts"
import * as Api from "./Api.ts"
import * as EventHandlers from "./EventHandlers.ts"
import type { Kept } from "./ImportLine.ts"
import * as Tap from "./LiveTail.ts"
import { type Tell, Work } from "./LongWork.ts"
import { noLane, noSink, requirePatterns, unavailable } from "./Refusals.ts"
import { RelayInfo } from "./RelayInfo.ts"

/** A selection is worked off in steps of this many, so that none holds the journal for long. */
const step = 500

const laneOf = ({
  name,
  type,
  condition,
  message,
  backlog,
  retrying,
  deadLetters,
  oldestAt,
}: LaneStatus): Api.Lane => ({
  name,
  type,
  condition,
  message,
  backlog,
  retrying,
  deadLetters,
  oldestAt,
})

const webhookOf = ({ name, secrets }: Webhook, counters: Counters): Api.Webhook => {
  const lastUsed = counters.webhooks.get(name)?.secretsLastUsed
  return {
    name,
    secrets: secrets.map(({ name, expires }) => ({
      name,
      ...(expires !== undefined && { expires }),
      lastUsed: lastUsed?.get(name) ?? 0,
    })),
  }
}

const deadLetterOf = ({ id, lane, at, attempts, entry: { event } }: StoredDeadLetter): Api.DeadLetter => ({
  id,
  lane,
  eventId: event.id,
  type: event.type,
  accountId: event.accountId,
  webhook: event.webhook,
  receivedAt: event.receivedAt,
  at,
  attempts,
})

/** What is owed to the sinks that there are. */
const owedOf = (
  { sequence, pending, replayed, bodyBase64, at, attempts, journal: _, in: place, ...facts }: Kept,
  sinks: ReadonlySet<string>,
): UndeliveredEvent => ({
  sequence,
  event: { ...facts, body: new Uint8Array(Buffer.from(bodyBase64, "base64")) },
  replayed,
  pending: pending.filter((lane) => sinks.has(lane)),
  ...(place === "dead" && { dead: { at: at ?? 0, attempts: attempts ?? [] } }),
})

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64")

/** The id that stands just above `id`: the page before it begins with `id` itself. */
const justAbove = (id: string): { readonly lane: string; readonly before: string } | undefined => {
  const [, lane, sequence] = /^(.+):([0-9]{1,15})$/.exec(id) ?? []
  return lane === undefined ? undefined : { lane, before: `${lane}:${Number(sequence) + 1}` }
}

const relay = HttpApiBuilder.group(
  Api.Api,
  "relay",
  Effect.fn(function* (handlers) {
    const journal = yield* Journal
    const lanes = yield* Lanes
    const info = yield* RelayInfo
    const { reload, standing } = yield* Reload
    const work = yield* Work
    return handlers.handleAll({
      status: Effect.fnUntraced(function* () {
        const { health, message, engine, head, first, usedBytes, maxBytes, filling } = yield* journal.status
        return {
          version: info.version,
          configFile: info.configFile,
          startedAt: info.startedAt,
          now: yield* Clock.currentTimeMillis,
          draining: yield* info.draining,
          journal: { health, message, ...engine, head, tail: first, usedBytes, maxBytes, filling },
          config: yield* standing,
          work: yield* work.underWay,
          webhooks: (yield* info.config).webhooks.map((webhook) => webhookOf(webhook, info.counters)),
          lanes: (yield* Effect.mapError(lanes.status, unavailable)).map(laneOf),
        }
      }),
      replay: Effect.fnUntraced(function* ({ payload: { sink, since, until, types } }) {
        yield* requirePatterns(...types)
        if (!(yield* info.config).sinks.some(({ name }) => name === sink)) {
          return yield* noSink(sink)
        }
        const patterns = types.map(Pattern.make)
        const matches = (type: string) => patterns.length === 0 || patterns.some((pattern) => pattern.matches(type))
        const count = yield* work.track(`replay to ${sink}`, (progress) =>
          Effect.mapError(journal.replay({ sink, since, until, types: matches, progress }), unavailable),
        )
        return { count }
      }),
      import: Effect.fnUntraced(function* ({ payload: { events } }) {
        const sinks = new Set([...(yield* info.config).sinks.map(({ name }) => name), quarantine])
        const counts = { pending: 0, deadLetters: 0, known: 0 }
        const strange = new Map<string, number>()
        for (const [id, kept] of Map.groupBy(events, ({ journal }) => journal)) {
          for (const lane of kept.flatMap(({ pending }) => pending)) {
            if (!sinks.has(lane)) strange.set(lane, (strange.get(lane) ?? 0) + 1)
          }
          const owed = kept.map((one) => owedOf(one, sinks)).filter(({ pending }) => pending.length > 0)
          const imported = yield* Effect.mapError(journal.import(id, owed), unavailable)
          counts.pending += imported.pending
          counts.deadLetters += imported.deadLetters
          counts.known += imported.known
        }
        return { ...counts, strange: [...strange].map(([lane, count]) => ({ lane, count })) }
      }),
      acknowledge: () => Effect.mapError(journal.acknowledge, unavailable),
      tap: Effect.fnUntraced(
        function* ({ query: { type, webhook, sink } }) {
          const { webhooks, sinks } = yield* info.config
          const known = (names: ReadonlyArray<{ readonly name: string }>, name: string | undefined) =>
            name === undefined || names.some((one) => one.name === name)
          yield* requirePatterns(type)
          if (!known([...webhooks, { name: ownWebhook }], webhook)) {
            return yield* new Api.NotFound({ message: `there is no webhook ${webhook} in the config` })
          }
          if (!known([...sinks, { name: quarantine }], sink)) {
            return yield* noSink(sink)
          }
          return yield* Tap.make({
            ...(type !== undefined && { match: Pattern.make(type) }),
            ...(webhook !== undefined && { webhook }),
            ...(sink !== undefined && { sink }),
          })
        },
        Effect.provideService(Journal, journal),
      ),
      reload: () =>
        Effect.mapError(reload, ({ reason, message, diagnostics }) => {
          if (reason === "config") return new Api.Invalid({ message, diagnostics })
          return reason === "journal" ? new Api.Unavailable({ message }) : new Api.Refused({ message })
        }),
    })
  }),
)

const laneHandlers = HttpApiBuilder.group(
  Api.Api,
  "lanes",
  Effect.fn(function* (handlers) {
    const lanes = yield* Lanes
    const known = Effect.fnUntraced(function* (name: string) {
      const states = yield* Effect.mapError(lanes.status, unavailable)
      if (!states.some((lane) => lane.name === name)) return yield* noLane(name)
    })
    const found = (name: string) => (exists: boolean) => (exists ? Effect.void : Effect.fail(noLane(name)))
    const counted = (change: ReturnType<typeof lanes.drop>) =>
      change.pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTags({
          LaneInUse: ({ message }) => Effect.fail(new Api.Refused({ message })),
          JournalError: (error) => Effect.fail(unavailable(error)),
        }),
      )
    return handlers.handleAll({
      pause: ({ params: { name } }) =>
        Effect.mapError(lanes.pause(name), unavailable).pipe(Effect.flatMap(found(name))),
      resume: ({ params: { name } }) =>
        Effect.mapError(lanes.resume(name), unavailable).pipe(Effect.flatMap(found(name))),
      move: Effect.fnUntraced(function* ({ params: { name }, payload: { to } }) {
        yield* known(name)
        yield* known(to)
        if (name === to) return yield* new Api.Refused({ message: "a lane can't be moved to itself" })
        return yield* counted(lanes.move(name, to))
      }),
      drop: Effect.fnUntraced(function* ({ params: { name } }) {
        yield* known(name)
        return yield* counted(lanes.drop(name))
      }),
    })
  }),
)

const deadLetters = HttpApiBuilder.group(
  Api.Api,
  "deadLetters",
  Effect.fn(function* (handlers) {
    const journal = yield* Journal
    const ingest = yield* Ingest
    const work = yield* Work

    /**
     * Works a selection off. Pages are walked downwards by id: a dead letter
     * that is added meanwhile stands above the walk and is not taken along.
     */
    const each = Effect.fnUntraced(function* (
      selection: Api.Selection,
      change: (ids: ReadonlyArray<string>) => Effect.Effect<number, JournalError>,
      tell: Tell,
    ) {
      if ("ids" in selection) return { count: yield* change(selection.ids) }
      let count = 0
      const chosen = (yield* journal.lanes).filter(({ name }) => name === (selection.lane ?? name))
      // Of some types alone nobody has the number: all of them are the bound.
      const all = chosen.reduce((sum, { deadLetters }) => sum + deadLetters, 0)
      let before: string | undefined
      for (;;) {
        const page = yield* journal.deadLetters({ ...selection, ...(before && { before }), limit: step })
        const ids = page.map(({ id }) => id)
        before = ids.at(-1)
        if (before === undefined) return { count }
        count += yield* change(ids)
        tell(count / Math.max(1, all))
      }
    })
    /** A name that is mistyped must not look like a lane without dead letters, nor a pattern like types that have none. */
    const known = Effect.fnUntraced(function* ({ lane: name, type }: Api.Filter) {
      yield* requirePatterns(type)
      if (name === undefined) return
      const lanes = yield* Effect.mapError(journal.lanes, unavailable)
      if (!lanes.some((lane) => lane.name === name)) return yield* noLane(name)
    })
    const worked = (
      what: string,
      selection: Api.Selection,
      change: (ids: ReadonlyArray<string>) => Effect.Effect<number, JournalError>,
    ) =>
      Effect.andThen(
        known("ids" in selection ? {} : selection),
        Effect.mapError(
          work.track(what, (tell) => each(selection, change, tell)),
          unavailable,
        ),
      )

    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query: { lane, type, before, limit = 100 } }) {
        const filter = { ...(lane !== undefined && { lane }), ...(type !== undefined && { type }) }
        yield* known(filter)
        const listed: Array<Api.DeadLetter> = []
        let last = before
        // A page brings the bodies along, and so ends sooner where they are large.
        while (listed.length < limit) {
          const query = { ...filter, ...(last !== undefined && { before: last }), limit: limit - listed.length }
          const page = yield* Effect.mapError(journal.deadLetters(query), unavailable)
          if (page.length === 0) break
          listed.push(...page.map(deadLetterOf))
          last = page.at(-1)?.id
        }
        return listed
      }),
      show: Effect.fnUntraced(function* ({ params: { id } }) {
        const above = justAbove(id)
        const [letter] =
          above === undefined ? [] : yield* Effect.mapError(journal.deadLetters({ ...above, limit: 1 }), unavailable)
        if (letter?.id !== id)
          return yield* new Api.NotFound({ message: `there is no dead letter ${id}; \`relay dlq list\` shows them` })
        const { signature, body } = letter.entry.event
        return { ...deadLetterOf(letter), signature, body: base64(body) }
      }),
      replay: Effect.fnUntraced(function* ({ payload }) {
        const stayed = new Map<string, number>()
        const reroute = (event: Event) => {
          const found = ingest.reroute(event)
          if (found.stays === undefined) return found
          stayed.set(found.stays, (stayed.get(found.stays) ?? 0) + 1)
        }
        const replay = (ids: ReadonlyArray<string>) => journal.replayDeadLetters(ids, reroute)
        const { count } = yield* worked("replay of dead letters", payload, replay)
        return { count, stayed: [...stayed].map(([why, count]) => ({ why, count })) }
      }),
      drop: ({ payload }) => worked("drop of dead letters", payload, journal.dropDeadLetters),
    })
  }),
)

export const layer = HttpApiBuilder.layer(Api.Api, { openapiPath: "/openapi.json" }).pipe(
  Layer.provide([relay, laneHandlers, deadLetters, EventHandlers.layer]),
  Layer.provide(Work.layer),
)
