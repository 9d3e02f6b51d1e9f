/**
 * Emits the relay's own events. They are journaled and routed by type, like the
 * sender's events.
 *
 * **Guarantee.** They never cause further own events: if one fails, no event is
 * emitted, and an event about a lane is not routed to that lane.
 */
import { Clock, Context, Effect, Layer, Option, Schedule, Schema } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { Entry, Event } from "../event/Event.ts"
import { failureEndedBy, type RelayEventType, relayEventTypes } from "../event/EventType.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import { Archive } from "../journal/Archive.ts"
import { collect } from "../journal/EventQuery.ts"
import { Journal, type JournalError } from "../journal/Journal.ts"

/** The webhook name that the relay's own events carry. */
export const ownWebhook = "relay"

/** The data of an own event. It holds no secrets and no payloads. */
export type Facts = Readonly<Record<string, string | number | boolean>>

/** An identity that is the same each time the event is emitted, so that the journal drops repeats as duplicates. */
interface Once {
  readonly key: string
  /** When it happened, in epoch milliseconds. */
  readonly at: number
}

const Envelope = Schema.fromJsonString(
  Schema.Struct({
    data: Schema.Struct({
      object: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite, Schema.Boolean])),
    }),
  }),
)

/** Makes an own event. `at` is when it happened, and `object` has its facts. */
const eventOf = (id: string, type: string, at: EpochMillis, now: EpochMillis, object: Facts = {}): Event => {
  const created_at = `${new Date(at).toISOString().slice(0, 19)}Z`
  const envelope = { id, account_id: "", version: "1", created_at, data: { type, object } }
  return {
    ...{ id, type, accountId: "", webhook: ownWebhook, webhookId: "", signature: "", secret: "", receivedAt: now },
    body: new TextEncoder().encode(JSON.stringify(envelope)),
  }
}

/** Reads the facts from the body of an own event. Returns no facts for any other body. */
const factsOf = (body: Uint8Array): Facts =>
  Option.getOrElse(Schema.decodeOption(Envelope)(new TextDecoder().decode(body)), () => ({ data: { object: {} } })).data
    .object

// The own entries of alerts, which a lane appends for itself.

/**
 * The subject of an own entry: a newer count, a reminder, the end after a time without failures or of a mute, or an
 * operator's request.
 */
const ownKinds = ["update", "reminder", "expiry", "unmuting", "acknowledgement", "resolution", "mute"] as const

/** The content of an own entry of an alert. `alert` and `message` identify the alert and its message. */
export interface AlertEntry {
  readonly is: (typeof ownKinds)[number]
  readonly alert: number
  readonly message: number
  /** The end of a mute. */
  readonly until?: EpochMillis
}

/** The type of the lane's own entries. No route matches it, because they are for their lane alone. */
export const ownType = "relay.alert"

const ownId = new RegExp(`^evt_relay_alert_(.+)_(\\d+)_(${ownKinds.join("|")})_(\\d+)_(\\d+)(?:_(\\d+))?$`)

/** Returns the alert of an own entry, the entry's kind, and the sequence of the failure to show. */
export const ownOf = ({ type, id }: Event): (AlertEntry & { readonly failure: number }) | undefined => {
  const [, , alert, kind, message, failure, until] = (type === ownType && ownId.exec(id)) || []
  const is = ownKinds.find((one) => one === kind)
  return (
    is && {
      ...{ is, alert: Number(alert), message: Number(message), failure: Number(failure) },
      ...(until !== undefined && { until: Number(until) }),
    }
  )
}

/** The facts of an alert that its own entries have. */
interface Told {
  readonly id: number
  readonly type: string
  readonly messages: number
  readonly sentAt: EpochMillis
  readonly newest: number
}

/**
 * Makes the own entry of an alert. A second one for the same message is a duplicate, unless a failure came between.
 * `until` is the end of a mute.
 */
export const ownEvent = (
  lane: string,
  { id, type, messages, sentAt, newest }: Told,
  what: AlertEntry["is"],
  now: EpochMillis,
  until?: EpochMillis,
): Event => {
  const end = what === "mute" || what === "unmuting" ? `_${until}` : ""
  const name = `evt_relay_alert_${lane}_${id}_${what}_${messages}_${newest}${end}`
  return { ...eventOf(name, type, sentAt, now), type: ownType }
}

/** Returns an own entry with the content of a failure, so a template finds the same fields. */
export const showing = (own: Entry, { type, accountId, webhook, body, foreign }: Event): Entry => ({
  ...own,
  event: { ...own.event, type, accountId, webhook, body, ...(foreign !== undefined && { foreign }) },
})

// The failures without a recovery.

/** The time limit of the journal search, and the maximum number of events. */
const searchTime: Millis = 3_000
const newest = 100

const recoveries = relayEventTypes.filter((type) => failureEndedBy(type) !== undefined)
const types: ReadonlyArray<string> = recoveries.flatMap((type) => [type, failureEndedBy(type) ?? type])

/**
 * The failures that own events reported and whose recovery has not been emitted. Failures from before the start are
 * read from the journal. `isRouted` reports whether events of a type go to any sink. If no recovery event does, the
 * journal is not searched.
 */
const makeUnresolved = Effect.fnUntraced(function* (isRouted: (type: RelayEventType) => boolean) {
  const archive = yield* Archive
  /** By failure type and subject: whether the failure is unresolved. */
  const known = new Map<string, Map<string, boolean>>()
  const ofFailure = (failure: string) => known.get(failure) ?? new Map<string, boolean>()

  const note = (type: string, { sink, webhook }: Facts, isNewest = true): void => {
    if (!types.includes(type)) return
    const failure = failureEndedBy(type) ?? type
    const subjects = ofFailure(failure)
    known.set(failure, subjects)
    const subject = String(sink ?? webhook)
    if (isNewest || !subjects.has(subject)) subjects.set(subject, failure === type)
  }

  const recall = Effect.gen(function* () {
    if (!recoveries.some(isRouted)) return
    const { events } = yield* collect({ webhook: ownWebhook, types, limit: newest }, archive.events, searchTime)
    for (const { sequence, event } of events) {
      // Only a search for a single event returns its body.
      const [found] = (yield* archive.events({ sequence, limit: 1 })).events
      if (found?.body !== undefined) note(event.type, factsOf(found.body), false)
    }
  })
  yield* Effect.forkScoped(Effect.retry(recall, Schedule.spaced("5 seconds")))

  return {
    note: (type: RelayEventType, facts: Facts): void => note(type, facts),
    of: (failure: RelayEventType): ReadonlySet<string> =>
      new Set([...ofFailure(failure)].flatMap(([subject, isUnresolved]) => (isUnresolved ? [subject] : []))),
  }
})

/** Journals the relay's own events, for the sinks that its config routes them to. */
export class RelayEvents extends Context.Service<
  RelayEvents,
  {
    /**
     * Journals an event about `lane`, or about the relay as a whole. It never fails: an event that can't be stored is
     * lost, but its content is also logged.
     */
    emit(type: RelayEventType, facts: Facts, lane?: string, once?: Once): Effect.Effect<void>
    /** Journals an event for this lane alone, whatever the routes say. A repeated event is a duplicate. */
    append(event: Event, lane: string): Effect.Effect<void, JournalError>
    /** The sinks or webhooks with a failure and no recovery since, including failures from before the start. */
    unresolved(failure: RelayEventType): ReadonlySet<string>
  }
>()("relay/delivery/RelayEvents") {
  static readonly layer: Layer.Layer<RelayEvents, never, Journal | Archive | ActiveConfig> = Layer.effect(
    RelayEvents,
    Effect.gen(function* () {
      const journal = yield* Journal
      const clock = yield* Clock.Clock
      const active = yield* ActiveConfig
      const sinksOf = (type: RelayEventType, at?: EpochMillis) =>
        active.current.table.router.routeType(ownWebhook, type, at)
      const unresolved = yield* makeUnresolved((type) => sinksOf(type).length > 0)
      return RelayEvents.of({
        unresolved: unresolved.of,
        append: (event, lane) => Effect.asVoid(journal.append(event, [lane])),
        emit: Effect.fn("RelayEvents.emit")(function* (type, facts, lane, once) {
          const now = clock.currentTimeMillisUnsafe()
          const sinks = sinksOf(type, now).filter((sink) => sink !== lane)
          if (sinks.length === 0) return unresolved.note(type, facts)
          const id = `evt_relay_${once?.key ?? crypto.randomUUID()}`
          yield* journal.append(eventOf(id, type, once?.at ?? now, now, facts), sinks).pipe(
            Effect.andThen(Effect.sync(() => unresolved.note(type, facts))),
            Effect.catch((error) =>
              Effect.annotateLogs(Effect.logWarning(`${type} could not be journaled: ${error.message}`), { type }),
            ),
          )
        }),
      })
    }),
  )
}
