/** Handlers for status, history, import, live tail, reload and restart. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ActiveConfig } from "../ActiveConfig.ts"
import { ownWebhook } from "../delivery/OwnEvent.ts"
import { quarantine } from "../event/Event.ts"
import { Ingest } from "../ingest/Ingest.ts"
import { Archive, type UndeliveredEvent } from "../journal/Archive.ts"
import { Journal } from "../journal/Journal.ts"
import { Reload, Restart } from "../reload/Reload.ts"
import * as Pattern from "../routing/Pattern.ts"
import * as Api from "./Api.ts"
import { History } from "./History.ts"
import type { Kept } from "./ImportLine.ts"
import * as LiveStreams from "./LiveStreams.ts"
import * as LiveTail from "./LiveTail.ts"
import { noSink, noWebhook, requirePatterns, unavailable } from "./Refusals.ts"
import { RelayInfo } from "./RelayInfo.ts"
import { RelayStatus } from "./RelayStatus.ts"

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

export const layer = HttpApiBuilder.group(
  Api.Api,
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
    const limited = LiveStreams.make()

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
        const owed = kept.map((one) => owedOf(one, sinks)).filter(({ pending }) => pending.length > 0)
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
          onFailure: ({ message }) => new Api.Refused({ message }),
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
          return yield* limited(LiveTail.make(yield* tapped(query), ingest.refusals))
        },
        Effect.provideService(Journal, journal),
      ),
      tapSince: Effect.fnUntraced(
        function* ({ query: { sequence, refusals, ...query } }) {
          const after = sequence === undefined || refusals === undefined ? undefined : { sequence, refusals }
          const { news, next } = yield* LiveTail.since(yield* tapped(query), ingest.refusals, after)
          return { ...news, next }
        },
        Effect.provideService(Journal, journal),
      ),
      reload: () =>
        Effect.mapError(reload.reload, ({ reason, message, diagnostics }) => {
          if (reason === "config") return new Api.Invalid({ message, diagnostics })
          return reason === "journal" ? new Api.Unavailable({ message }) : new Api.Refused({ message })
        }),
    })
  }),
)
