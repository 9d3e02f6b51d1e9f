/** Answers the requests of the admin API. `DeadLetterHandlers.ts` answers requests about dead letters. */
import { Clock, Effect, Layer } from "effect"
import { HttpApiBuilder, HttpApiMiddleware, OpenApi } from "effect/http-api"
import { ActiveConfig } from "../../ActiveConfig.ts"
import { Lanes } from "../../delivery/Lanes.ts"
import { ownWebhook } from "../../delivery/RelayEvents.ts"
import { quarantine } from "../../event/Event.ts"
import { isKnown, isRelayEvent } from "../../event/EventType.ts"
import { describeHours, type EpochMillis, type Millis } from "../../event/Quantities.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import { Archive, type UndeliveredEvent } from "../../journal/Archive.ts"
import { collect, type EventPage } from "../../journal/EventQuery.ts"
import { Journal } from "../../journal/Journal.ts"
import { Reload, Restart } from "../../reload/Reload.ts"
import { mayTake, reached, takes } from "../../routing/Explanation.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { sendsAlerts, sinkTypes, targetOf } from "../../sinks/SinkTypes.ts"
import * as Authorization from "../Authorization.ts"
import { RelayInfo } from "../RelayInfo.ts"
import { Replays } from "../replay/Replays.ts"
import { History } from "../status/History.ts"
import { RelayStatus, Work } from "../status/RelayStatus.ts"
import { type AlertReport, Api } from "./Api.ts"
import {
  BadRequest,
  Invalid,
  noAlert,
  noLane,
  noSink,
  noWebhook,
  Refused,
  refusedOr,
  requirePatterns,
  requireSelectable,
  SchemaErrors,
  sinkRemoved,
  Unavailable,
  unavailable,
} from "./ApiParts.ts"
import { deadLetterHandlers } from "./DeadLetterHandlers.ts"
import { erase } from "./ErasureApi.ts"
import { eventOf, reportsOf } from "./EventReport.ts"
import { ofQuery, readings } from "./EventSelection.ts"
import type { Kept } from "./ImportLine.ts"
import { limitStreams, newsSince, tapStream } from "./LiveTail.ts"

interface TapFilter {
  readonly type?: string
  readonly webhook?: string
  readonly sink?: string
}

/** Returns the event with the pending sinks that are in the config. */
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

const relayHandlers = HttpApiBuilder.group(
  Api,
  "relay",
  Effect.fn(function* (handlers) {
    const archive = yield* Archive
    const journal = yield* Journal
    const active = yield* ActiveConfig
    const ingest = yield* Ingest
    const reload = yield* Reload
    const restart = yield* Restart
    const { version } = yield* RelayInfo
    const history = yield* History
    const { status } = yield* RelayStatus
    const limited = limitStreams()

    /** Returns the filter of a tap. Fails if its webhook or sink doesn't exist. */
    const tapped = Effect.fnUntraced(function* ({ type, ...filter }: TapFilter) {
      const { webhooks, sinks } = active.current.config
      const { webhook, sink } = filter
      const known = (names: ReadonlyArray<{ readonly name: string }>, name: string | undefined) =>
        name === undefined || names.some((one) => one.name === name)
      yield* requirePatterns(type)
      if (!known([...webhooks, { name: ownWebhook }], webhook)) return yield* noWebhook(webhook)
      if (!known([...sinks, { name: quarantine }], sink)) return yield* noSink(sink)
      return { ...filter, ...(type !== undefined && { match: Pattern.make(type) }) }
    })

    /** Imports events of another journal that sinks of this config have not received. */
    const importEvents = Effect.fnUntraced(function* (events: ReadonlyArray<Kept>) {
      const sinks = new Set([...active.current.config.sinks.map(({ name }) => name), quarantine])
      const counts = { pending: 0, deadLetters: 0, known: 0 }
      const strange = new Map<string, number>()
      for (const [id, kept] of Map.groupBy(events, ({ journal }) => journal)) {
        for (const lane of kept.flatMap(({ pending }) => pending)) {
          if (!sinks.has(lane)) strange.set(lane, (strange.get(lane) ?? 0) + 1)
        }
        const owed = kept.map((event) => owedOf(event, sinks)).filter(({ pending }) => pending.length > 0)
        const imported = yield* Effect.mapError(archive.import(id, owed), unavailable)
        counts.pending += imported.pending
        counts.deadLetters += imported.deadLetters
        counts.known += imported.known
      }
      return { ...counts, strange: [...strange].map(([lane, count]) => ({ lane, count })) }
    })

    return handlers.handleAll({
      status: () => Effect.mapError(status, unavailable),
      history: () => history.report,
      restart: () =>
        Effect.mapBoth(restart.begin, {
          onSuccess: (pid) => ({ pid }),
          onFailure: ({ message }) => new Refused({ message }),
        }),
      restartStatus: () => Effect.map(restart.status, (status) => ({ ...status, version })),
      import: ({ payload: { events } }) => importEvents(events),
      audit: Effect.fnUntraced(function* ({ query: { limit = 50, ...query } }) {
        const records = yield* Effect.mapError(archive.audit.list({ ...query, limit: limit + 1 }), unavailable)
        const shown = records.slice(0, limit)
        const last = records.length > limit ? shown.at(-1) : undefined
        return { records: shown, ...(last !== undefined && { next: last.id }) }
      }),
      acknowledge: () => Effect.mapError(archive.acknowledge, unavailable),
      tap: Effect.fnUntraced(
        function* ({ query }) {
          return yield* limited(tapStream(yield* tapped(query), ingest.refusals))
        },
        Effect.provideService(Journal, journal),
      ),
      tapSince: Effect.fnUntraced(
        function* ({ query: { sequence, refusals, ...query } }) {
          const after = sequence === undefined || refusals === undefined ? undefined : { sequence, refusals }
          const { news, next } = yield* newsSince(yield* tapped(query), ingest.refusals, after)
          return { ...news, next }
        },
        Effect.provideService(Journal, journal),
      ),
      reload: () =>
        Effect.mapError(reload.reload, ({ reason, message, diagnostics }) => {
          if (reason === "config") return new Invalid({ message, diagnostics })
          return reason === "journal" ? new Unavailable({ message }) : new Refused({ message })
        }),
    })
  }),
)

const quarantineStays = `${quarantine} can't be paused: it sends nothing, and what waited for it would not be listed as quarantined`

/** Returns the time after this many milliseconds. */
const after = (length: Millis): Effect.Effect<EpochMillis> =>
  Effect.map(Clock.currentTimeMillis, (now) => Math.round(now + length))

const needsEnd = "`ending` takes effect when the pause ends, so it needs `for`"

const alertTypes = Object.keys(sinkTypes).filter(sendsAlerts)

const sendsNoAlerts = (name: string, type: string): string =>
  `${name} is a sink of the type ${type}, whose events must be delivered: only a sink that sends alerts (${alertTypes.join(", ")}) can be muted with digest or drop`

const laneHandlers = HttpApiBuilder.group(
  Api,
  "lanes",
  Effect.fn(function* (handlers) {
    const lanes = yield* Lanes
    const history = yield* History
    const isLane = Effect.fnUntraced(function* (name: string) {
      const states = yield* Effect.mapError(lanes.status, unavailable)
      return states.some((lane) => lane.name === name)
    })
    const requireLane = Effect.fnUntraced(function* (name: string) {
      if (!(yield* isLane(name))) return yield* noLane(name)
    })
    const switched = Effect.fnUntraced(function* (name: string, change: ReturnType<typeof lanes.pause>) {
      if (yield* Effect.mapError(change, unavailable)) return
      return yield* (yield* isLane(name)) ? sinkRemoved(name) : noLane(name)
    })
    const counted = (change: ReturnType<typeof lanes.drop>) =>
      change.pipe(
        Effect.map((count) => ({ count })),
        Effect.catchTags({
          LaneInUse: ({ message }) => Effect.fail(new Refused({ message })),
          JournalError: (error) => Effect.fail(unavailable(error)),
        }),
      )
    return handlers.handleAll({
      history: ({ params: { name } }) => Effect.as(requireLane(name), history.lane(name)),
      pause: Effect.fnUntraced(function* ({ params: { name }, query: { for: length, ending = "deliver" } }) {
        if (name === quarantine) return yield* new Refused({ message: quarantineStays })
        const until = length === undefined ? undefined : yield* after(length)
        if (ending === "deliver") {
          yield* switched(name, lanes.pause(name, until))
          return until === undefined ? {} : { until }
        }
        if (until === undefined) return yield* new Refused({ message: needsEnd })
        const states = yield* Effect.mapError(lanes.status, unavailable)
        const type = states.find((lane) => lane.name === name)?.type ?? ""
        if (type !== "" && !sendsAlerts(type)) return yield* new Refused({ message: sendsNoAlerts(name, type) })
        yield* switched(name, lanes.mute(name, until, ending))
        return { until, ending }
      }),
      resume: ({ params: { name } }) => switched(name, lanes.resume(name)),
      move: Effect.fnUntraced(function* ({ params: { name }, payload: { to } }) {
        yield* requireLane(name)
        if (!(yield* isLane(to))) return yield* noSink(to)
        if (name === to) return yield* new Refused({ message: "a lane can't be moved to itself" })
        return yield* counted(lanes.move(name, to))
      }),
      drop: Effect.fnUntraced(function* ({ params: { name } }) {
        yield* requireLane(name)
        return yield* counted(lanes.drop(name))
      }),
    })
  }),
)

/** Maximum copies of an event that are shown. */
const maxCopies = 20
/** Maximum operations that are searched for pauses. */
const maxOperations = 1_000
/** Time limit of the search for an event. It takes this long only if the journal is not indexed yet. */
const explainTimeout: Millis = 5_000

/** Maximum events of an alert that are shown beside its messages. */
const maxBehind = 20

/** Returns the messages of an alert and the events that it counts. Nothing of an erased event is shown. */
const behind = Effect.fnUntraced(function* (archive: Archive["Service"], { sink, id, sent }: AlertReport) {
  const messages = yield* Effect.forEach(sent, (message) =>
    Effect.map(archive.events({ sequence: message.sequence, limit: maxCopies }), ({ events }) => {
      const deliveries = events.flatMap(({ event, deliveries }) =>
        deliveries.map((delivery) => ({ ...delivery, isErased: event.erased !== undefined })),
      )
      const found = deliveries.find((delivery) => delivery.sink === sink)
      if (found === undefined) return message
      const { outcome, at, tries, isErased } = found
      if (isErased) return undefined
      return { ...message, outcome, ...(at !== undefined && { endedAt: at }), ...(tries !== undefined && { tries }) }
    }),
  )
  const page = yield* collect({ sink, alert: id, limit: maxBehind }, archive.events, explainTimeout)
  return {
    messages: messages.filter((message) => message !== undefined),
    events: page.events
      .filter(({ event }) => event.erased === undefined)
      .map(({ sequence, event }) => ({
        sequence,
        ...{ id: event.id, type: event.type, account: event.accountId, receivedAt: event.receivedAt },
      })),
    hasMore: page.next !== undefined,
  }
})

const alertHandlers = HttpApiBuilder.group(
  Api,
  "alerts",
  Effect.fn(function* (handlers) {
    const lanes = yield* Lanes
    const archive = yield* Archive
    const active = yield* ActiveConfig
    const asked = Effect.fnUntraced(function* (...[sink, id, ...request]: Parameters<typeof lanes.ask>) {
      if (!(yield* Effect.mapError(lanes.ask(sink, id, ...request), unavailable))) return yield* noAlert(sink, id)
    })
    return handlers.handleAll({
      list: () => Effect.mapError(lanes.alerts, unavailable),
      show: Effect.fnUntraced(function* ({ params: { sink, id } }) {
        const alerts = yield* Effect.mapError(lanes.alerts, unavailable)
        const alert = alerts.find((one) => one.sink === sink && one.id === id)
        if (alert === undefined) return yield* noAlert(sink, id)
        const lane = active.current.config.sinks.find(({ name }) => name === sink)
        const to = lane === undefined ? "" : `${lane.type} ${targetOf(lane.type, lane.config)}`.trimEnd()
        return { alert, to, ...(yield* Effect.mapError(behind(archive, alert), unavailable)) }
      }),
      acknowledge: ({ params: { sink, id } }) => asked(sink, id, "acknowledgement"),
      resolve: ({ params: { sink, id } }) => asked(sink, id, "resolution"),
      mute: Effect.fnUntraced(function* ({ params: { sink, id }, query }) {
        const until = yield* after(query.for)
        yield* asked(sink, id, "mute", until)
        return { until }
      }),
    })
  }),
)

/** Returns the range of kept events, if all of them were searched and none was found. */
const keptFor = Effect.fnUntraced(function* (archive: Archive["Service"], { events, next }: EventPage) {
  if (events.length > 0 || next !== undefined) return {}
  const [oldest] = (yield* archive.events({ after: "", limit: 1 })).events
  const { first } = yield* archive.status
  return { kept: { pruned: first > 1, ...(oldest !== undefined && { since: oldest.event.receivedAt }) } }
})

const eventHandlers = HttpApiBuilder.group(
  Api,
  "events",
  Effect.fn(function* (handlers) {
    const archive = yield* Archive
    const lanes = yield* Lanes
    const work = yield* Work
    const active = yield* ActiveConfig
    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ query: { limit = 50, ...query } }) {
        const selection = ofQuery(query)
        yield* requireSelectable(selection)
        const page = yield* Effect.mapError(archive.events({ ...selection, limit }), refusedOr)
        const kept = yield* Effect.mapError(keptFor(archive, page), unavailable)
        return { ...page, ...kept, events: page.events.map((found) => eventOf(found, active.current.config)) }
      }),
      explain: Effect.fnUntraced(function* ({ params: { id }, query: { reveal } }) {
        const found = Effect.forEach(readings(id), (reading) =>
          collect({ ...reading, limit: maxCopies }, archive.events, explainTimeout),
        )
        const [page, ...others] = yield* Effect.mapError(found, unavailable)
        const places = new Set(page?.events.map(({ place }) => place))
        const more = others.flatMap(({ events }) => events).filter(({ place }) => !places.has(place))
        const events = [...(page?.events ?? []), ...more]
        const since = Math.min(...events.map(({ event }) => event.receivedAt))
        const operations =
          events.length === 0 ? Effect.succeed([]) : archive.audit.list({ since, limit: maxOperations })
        const context = {
          config: active.current.config,
          lanes: yield* Effect.mapError(lanes.status, unavailable),
          operations: yield* Effect.mapError(operations, unavailable),
          reveal: reveal === "true",
        }
        const searched = { looked: 0, lookedTo: 0, ...page, events }
        const kept = yield* Effect.mapError(keptFor(archive, searched), unavailable)
        return { ...searched, ...kept, events: reportsOf(events, context) }
      }),
      erase: Effect.fnUntraced(function* ({ payload }) {
        const { event, place, dryRun: _, giveUp: __, ...selection } = payload
        const isSelection = Object.keys(selection).length > 0
        if ([event !== undefined, place !== undefined, isSelection].filter(Boolean).length !== 1) {
          const message = "name either an event's id, a place in the log, or a selection such as an account"
          return yield* new Refused({ message })
        }
        yield* requireSelectable(selection)
        const { whileStopped } = lanes
        const what = payload.dryRun === true ? "dry run of an erasure" : "erasure"
        const erasing = work.track(what, (onProgress) => erase({ archive, whileStopped, onProgress }, payload))
        return yield* Effect.mapError(erasing, refusedOr)
      }),
    })
  }),
)

const routeHandlers = HttpApiBuilder.group(
  Api,
  "routes",
  Effect.fn(function* (handlers) {
    const active = yield* ActiveConfig
    const { counters } = yield* Ingest

    /**
     * Computed from ingest's counts by type and webhook, because counting each route would take time for every event.
     */
    const counts = (): ReadonlyMap<string, number> => {
      const { router } = active.current.table
      const found = new Map<string, number>()
      for (const [webhook, { events }] of counters.webhooks) {
        for (const [type, count] of events) {
          const taking = router.explain(webhook, type).filter((verdict) => takes(verdict) || mayTake(verdict))
          for (const { route } of taking) found.set(route, (found.get(route) ?? 0) + count)
        }
      }
      return found
    }

    return handlers.handleAll({
      list: () =>
        Effect.sync(() => {
          const counted = counts()
          return active.current.config.routes.map(({ within, ...route }) => ({
            ...route,
            ...(within !== undefined && { within: describeHours(within) }),
            count: counted.get(route.name) ?? 0,
          }))
        }),
      explain: Effect.fnUntraced(function* ({ query: { type, webhook } }) {
        const { config, table } = active.current
        if (webhook !== undefined && !config.webhooks.some(({ name }) => name === webhook)) {
          return yield* noWebhook(webhook)
        }
        const routes = table.router.explain(webhook, type)
        const isListed = config.webhooks.some(({ sender }) => sender?.types.includes(type))
        return { type, isKnown: isListed || isKnown(type) || isRelayEvent(type), ...reached(routes), routes }
      }),
    })
  }),
)

const replayHandlers = HttpApiBuilder.group(
  Api,
  "replays",
  Effect.fn(function* (handlers) {
    const { start, list, show, cancel } = yield* Replays
    return handlers.handleAll({
      start: ({ payload }) => start(payload),
      list: () => list,
      show: ({ params: { id } }) => show(id),
      cancel: ({ params: { id } }) => cancel(id),
    })
  }),
)

/** Only errors in a URL are repeated, because a body may contain personal data. */
const schemaErrors = HttpApiMiddleware.layerSchemaErrorTransform(SchemaErrors, (error) => {
  if (error.kind === "Query") return Effect.fail(new BadRequest({ message: error.cause.message }))
  return error.kind === "Payload"
    ? Effect.fail(new BadRequest({ message: "the body does not match the schema in /openapi.json" }))
    : Effect.fail(error)
})

const served = Effect.map(RelayInfo, ({ version }) =>
  HttpApiBuilder.layer(Api.annotate(OpenApi.Version, version), { openapiPath: "/openapi.json" }),
)

export const layer = Layer.unwrap(served).pipe(
  Layer.provide([
    relayHandlers,
    laneHandlers,
    alertHandlers,
    deadLetterHandlers,
    eventHandlers,
    replayHandlers,
    routeHandlers,
  ]),
  Layer.provide(Replays.layer),
  Layer.provide(RelayStatus.layer),
  Layer.provide(History.layer),
  Layer.provide(Work.layer),
  Layer.provide([schemaErrors, Authorization.layer]),
)
