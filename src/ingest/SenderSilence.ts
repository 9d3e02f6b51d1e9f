/**
 * Detects a sender that sends nothing for longer than `silentAfter`. Reports it in
 * the log, by the own event `relay.sender_silent`, in the status and in the metrics.
 * `relay.sender_resumed` follows the sender's next delivery, also after a restart.
 *
 * **Guarantee.** In a fleet, a relay checks the journal before it reports a silent
 * sender, because the deliveries may go to another relay.
 */
import { Clock, Context, Effect, Latch, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { silentAt, type Webhook } from "../config/Config.ts"
import { RelayEvents } from "../delivery/RelayEvents.ts"
import * as Monotonic from "../event/Monotonic.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import { Archive } from "../journal/Archive.ts"
import { type EventQuery, nextQuery } from "../journal/EventQuery.ts"
import type { JournalError } from "../journal/Journal.ts"
import * as Counters from "./Counters.ts"
import { Ingest } from "./Ingest.ts"

// The times of each webhook's last deliveries, by secret. Deliveries from before the start, and those that other relays
// accepted, are read from the journal.
// **Gotcha.** The journal keeps no duplicates, so after a restart only the first delivery of an event counts.

/**
 * Time limit of a journal search. Without it, the search for a secret that never
 * signed would read the whole journal.
 */
const searchTime: Millis = 3_000
/** Events read at a time. */
const pageSize = 50

export class LastDeliveries extends Context.Service<
  LastDeliveries,
  {
    /** The time of the webhook's last accepted delivery, or 0 without a recent one. */
    readonly of: (webhook: string) => EpochMillis
    /** Waits until the journal was searched at the start. */
    readonly ready: Effect.Effect<void>
    /** Searches the journal for a delivery to the webhook since a time, which another relay may have accepted. */
    readonly recall: (webhook: string, since: EpochMillis) => Effect.Effect<void, JournalError>
  }
>()("relay/ingest/LastDeliveries") {
  static readonly layer: Layer.Layer<LastDeliveries, never, Ingest | Archive | ActiveConfig> = Layer.effect(
    LastDeliveries,
    Effect.gen(function* () {
      const { counters } = yield* Ingest
      const archive = yield* Archive
      const active = yield* ActiveConfig
      const clock = yield* Clock.Clock
      const now = () => Monotonic.millis(clock)

      /** Searches the newest deliveries first, until `isEnough` accepts the secrets that were found. */
      const search = Effect.fnUntraced(function* (
        webhook: string,
        since: EpochMillis,
        isEnough: (secrets: ReadonlySet<string>) => boolean,
      ) {
        const known = Counters.ofWebhook(counters, webhook).secretsLastUsed
        const found = new Set<string>()
        const deadline = now() + searchTime
        let query: EventQuery = { webhook, since, limit: pageSize }
        do {
          const { events, next } = yield* archive.events(query)
          for (const { origin, event } of events) {
            if (origin !== "delivered") continue
            known.set(event.secret, Math.max(known.get(event.secret) ?? 0, event.receivedAt))
            found.add(event.secret)
          }
          if (next === undefined) return
          query = nextQuery(query, next)
        } while (!isEnough(found) && now() < deadline)
      })

      // Retried, because a database may become available later.
      const atStart = Effect.suspend(() =>
        Effect.forEach(active.current.config.webhooks, ({ name, secrets }) =>
          search(name, 0, (found) => secrets.every((secret) => found.has(secret.name))),
        ),
      )
      const ready = yield* Latch.make()
      yield* Effect.forkScoped(Effect.andThen(Effect.retry(atStart, Schedule.spaced("5 seconds")), ready.open))

      return LastDeliveries.of({
        ready: ready.await,
        of: (webhook) => Counters.lastDelivery(counters, webhook),
        recall: (webhook, since) => search(webhook, since, (found) => found.size > 0),
      })
    }),
  )
}

export class SenderSilence extends Context.Service<
  SenderSilence,
  {
    /**
     * The time of a silent sender's last delivery, or of the start if there was none; `undefined` if the sender isn't
     * silent.
     */
    readonly since: (webhook: string) => EpochMillis | undefined
  }
>()("relay/ingest/SenderSilence") {
  static readonly layer: Layer.Layer<SenderSilence, never, ActiveConfig | Archive | LastDeliveries | RelayEvents> =
    Layer.effect(
      SenderSilence,
      Effect.suspend(() => make),
    )
}

const make = Effect.gen(function* () {
  const active = yield* ActiveConfig
  const { fleet } = yield* Archive
  const deliveries = yield* LastDeliveries
  const own = yield* RelayEvents
  const silent = new Map<string, EpochMillis>()
  /** When the relay started to watch each webhook, if it has no known delivery. */
  const watched = new Map<string, EpochMillis>()

  const since = (webhook: string): EpochMillis | undefined => {
    const at = silent.get(webhook)
    return at === undefined || deliveries.of(webhook) > at ? undefined : at
  }

  const lastOf = ({ name }: Webhook, now: EpochMillis): EpochMillis => {
    const last = deliveries.of(name)
    if (last > 0) return last
    const watchedSince = watched.get(name) ?? now
    watched.set(name, watchedSince)
    return watchedSince
  }

  const isSilent = (webhook: Webhook, now: EpochMillis): boolean =>
    webhook.silentAfter !== undefined && silentAt(lastOf(webhook, now), webhook.silentAfter) <= now

  const lookAt = Effect.fnUntraced(function* (webhook: Webhook, now: EpochMillis) {
    const { name, silentAfter } = webhook
    if (silentAfter === undefined) return
    if (fleet !== undefined && isSilent(webhook, now)) yield* deliveries.recall(name, lastOf(webhook, now))
    if (!isSilent(webhook, now)) return
    const last = lastOf(webhook, now)
    if (silent.get(name) === last) return
    silent.set(name, last)
    // A silence that began before a restart was already announced.
    const isNews = !own.unresolved("relay.sender_silent").has(name)
    const message = `no delivery since ${new Date(last).toISOString()}`
    yield* Effect.annotateLogs(Effect.logWarning(`the sender of the webhook ${name} is silent: ${message}`), {
      webhook: name,
    })
    const once = { key: `silent:${name}:${last}`, at: silentAt(last, silentAfter) }
    if (isNews) yield* own.emit("relay.sender_silent", { webhook: name, message }, undefined, once)
  })

  /** Ends a silence that is over. A sender that was silent before a restart stays silent until a delivery is known. */
  const end = Effect.fnUntraced(function* (name: string, now: EpochMillis) {
    const webhook = active.current.config.webhooks.find((webhook) => webhook.name === name)
    const isWatched = webhook?.silentAfter !== undefined
    if (isWatched && (deliveries.of(name) === 0 || isSilent(webhook, now))) return
    const message = isWatched ? "it sends again" : "the config no longer has its silentAfter"
    const at = silent.get(name)
    silent.delete(name)
    yield* Effect.annotateLogs(Effect.logInfo(`the sender of the webhook ${name} is no longer silent: ${message}`), {
      webhook: name,
    })
    const once = at === undefined ? undefined : { key: `sender_resumed:${name}:${at}`, at: now }
    yield* own.emit("relay.sender_resumed", { webhook: name, message }, undefined, once)
  })

  const look: Effect.Effect<void, JournalError> = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    yield* Effect.forEach(active.current.config.webhooks, (webhook) => lookAt(webhook, now))
    yield* Effect.forEach(new Set([...silent.keys(), ...own.unresolved("relay.sender_silent")]), (name) =>
      end(name, now),
    )
  })
  // If the journal did not answer, the next check tries again.
  const looking = Effect.repeat(Effect.ignore(look), Schedule.spaced("10 seconds"))
  yield* Effect.forkScoped(Effect.andThen(deliveries.ready, looking))

  return SenderSilence.of({ since })
})
