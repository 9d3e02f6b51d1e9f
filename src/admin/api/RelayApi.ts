/** The admin API of the relay as a whole: status, history, import, live tail, audit log, reload and restart. */
import { Effect, Schema } from "effect"
import { HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { ActiveConfig } from "../../ActiveConfig.ts"
import { Diagnostic } from "../../config/diagnostics/Diagnostic.ts"
import { ownWebhook } from "../../delivery/RelayEvents.ts"
import { quarantine } from "../../event/Event.ts"
import { EpochMillis } from "../../event/Quantities.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import { Archive, type UndeliveredEvent } from "../../journal/Archive.ts"
import { results } from "../../journal/AuditLog.ts"
import { Journal } from "../../journal/Journal.ts"
import { Difference } from "../../reload/Difference.ts"
import { Reload, Restart } from "../../reload/Reload.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { RelayInfo } from "../RelayInfo.ts"
import { History } from "../status/History.ts"
import { RelayStatus } from "../status/RelayStatus.ts"
import { RelayHistory, Status } from "../status/Status.ts"
import {
  apiOf,
  Invalid,
  NotFound,
  noSink,
  noWebhook,
  Refused,
  requirePatterns,
  TooMany,
  Unavailable,
  unavailable,
} from "./ApiParts.ts"
import { Imported, Kept } from "./ImportLine.ts"
import { limitStreams, newsSince, Tap, TapLine, tapFilter, tapPosition, tapStream } from "./LiveTail.ts"

const optional = Schema.optionalKey

/** An operation by an operator, and its result. */
export const AuditRecord = Schema.Struct({
  id: Schema.Int,
  at: EpochMillis,
  /**
   * The name of the token. `admin` is `admin.token`, `local` is a user of this machine without a token, and `user NAME`
   * ran a command without the relay.
   */
  who: Schema.String,
  /** The origin: the page, the command line, the admin API, or a signal. */
  by: Schema.String,
  /** The equivalent command. */
  what: Schema.String,
  /** The names and selectors that it applies to; empty for the relay as a whole. */
  on: Schema.String,
  result: Schema.Literals(results),
  /** A count, or the reason why it was refused or failed. */
  note: Schema.String,
  /** The relay that received the request; empty if the journal allows only one. */
  relay: Schema.String,
})
export type AuditRecord = typeof AuditRecord.Type

/** A page of records, newest first. `next` is the `before` of the next page; absent on the last. */
export const AuditPage = Schema.Struct({ records: Schema.Array(AuditRecord), next: optional(Schema.Int) })
export type AuditPage = typeof AuditPage.Type

const audit = HttpApiEndpoint.get("audit", "/audit", {
  query: {
    /** At or after this time. */
    since: optional(Schema.FiniteFromString.annotate({ description: "Epoch milliseconds" })),
    before: optional(Schema.FiniteFromString.check(Schema.isInt())),
    limit: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
  },
  success: AuditPage,
  error: Unavailable,
})

/** The result of a reload: its changes and its warnings. */
export const Reloaded = Schema.Struct({
  /** The path of the file that the relay read. */
  file: Schema.String,
  /** When the file was last changed; absent for the embedded defaults. */
  changedAt: optional(Schema.Finite),
  changes: Schema.Array(Difference),
  /** A note that an operator should read. */
  notes: Schema.Array(Schema.String),
  warnings: Schema.Array(Diagnostic),
})

/** The answering process and the last restart. */
const RestartStatus = Schema.Struct({
  pid: Schema.Int,
  version: Schema.String,
  /** Why a restart failed, so that this process continues. */
  failure: optional(Schema.String),
  /** Milliseconds without an open journal, if this process took over from another. */
  took: optional(Schema.Finite),
  /**
   * Duration of the last start in milliseconds, if a restart stops this process and the service manager starts it
   * again.
   */
  stops: optional(Schema.Finite),
})

/** The relay as a whole. 503 means that the journal can't answer now. */
export class RelayGroup extends HttpApiGroup.make("relay", { topLevel: true }).add(
  HttpApiEndpoint.get("status", "/status", { success: Status, error: Unavailable }),
  HttpApiEndpoint.get("history", "/history", { success: RelayHistory }),
  HttpApiEndpoint.get("tap", "/tap", {
    query: tapFilter,
    success: HttpApiSchema.StreamNdjson({ schema: TapLine }),
    error: [NotFound, Refused, TooMany],
  }),
  /**
   * Returns the events since `next` of the previous answer, for a reader that polls. The first answer has no events.
   */
  HttpApiEndpoint.get("tapSince", "/tap/since", {
    query: { ...tapFilter, sequence: tapPosition, refusals: tapPosition },
    success: Tap,
    error: [NotFound, Refused],
  }),
  audit,
  HttpApiEndpoint.post("reload", "/reload", {
    success: Reloaded,
    error: [Invalid, Refused, Unavailable],
  }),
  /** Answers once the second process listens. `restartStatus` then reports the result. */
  HttpApiEndpoint.post("restart", "/restart", { success: Schema.Struct({ pid: Schema.Int }), error: Refused }),
  HttpApiEndpoint.get("restartStatus", "/restart", { success: RestartStatus }),
  HttpApiEndpoint.post("import", "/journal/import", {
    payload: Schema.Struct({ events: Schema.Array(Kept) }),
    success: Imported,
    error: [Refused, Unavailable],
  }),
  HttpApiEndpoint.post("acknowledge", "/journal/acknowledge", { error: Unavailable }),
) {}

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

export const relayHandlers = HttpApiBuilder.group(
  apiOf(RelayGroup),
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
