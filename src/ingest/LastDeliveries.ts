/**
 * The times of each webhook's last deliveries, by secret. The journal has those
 * from before the start, and those that other relays accepted.
 *
 * **Gotcha.** The journal keeps no duplicates, so after a restart only the first
 * delivery of an event counts.
 */
import { Clock, Context, Effect, Latch, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import * as Monotonic from "../event/Monotonic.ts"
import type { EpochMillis, Millis } from "../event/Quantities.ts"
import { Archive } from "../journal/Archive.ts"
import { nextQuery } from "../journal/EventPages.ts"
import type { EventQuery } from "../journal/EventQuery.ts"
import type { JournalError } from "../journal/Journal.ts"
import * as Counters from "./Counters.ts"
import { Ingest } from "./Ingest.ts"

/** The journal is searched for this long at most: without a limit, a secret that never signed would have all of it read. */
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

      /** Searches the newest first, until the secrets of those found are enough. */
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

      // A database may answer later.
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
