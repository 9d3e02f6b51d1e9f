/**
 * The times of each webhook's last deliveries, by secret. The journal has those
 * from before the start, and those that other relays accepted.
 *
 * **Gotcha.** The journal keeps no duplicates, so after a restart only the first
 * delivery of an event counts.
 */
import { Clock, Context, Effect, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { Webhook } from "../config/Config.ts"
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
    /** Reads the webhook's newest deliveries since a time from the journal. */
    readonly recall: (webhook: Webhook, since: EpochMillis) => Effect.Effect<void, JournalError>
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

      const recall = Effect.fnUntraced(function* ({ name, secrets }: Webhook, since: EpochMillis) {
        const known = Counters.ofWebhook(counters, name).secretsLastUsed
        const wanted = new Set(secrets.map((secret) => secret.name))
        const deadline = now() + searchTime
        let query: EventQuery = { webhook: name, since, limit: pageSize }
        do {
          const { events, next } = yield* archive.events(query)
          for (const { origin, event } of events) {
            if (origin !== "delivered") continue
            known.set(event.secret, Math.max(known.get(event.secret) ?? 0, event.receivedAt))
            wanted.delete(event.secret)
          }
          if (next === undefined) return
          query = nextQuery(query, next)
        } while (wanted.size > 0 && now() < deadline)
      })

      // A database may answer later.
      const atStart = Effect.suspend(() =>
        Effect.forEach(active.current.config.webhooks, (webhook) => recall(webhook, 0)),
      )
      yield* Effect.forkScoped(Effect.retry(atStart, Schedule.spaced("5 seconds")))

      return LastDeliveries.of({ of: (webhook) => Counters.lastDelivery(counters, webhook), recall })
    }),
  )
}
