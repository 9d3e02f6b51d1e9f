/**
 * The relay's own events: journaled and routed like the sender's, by type.
 *
 * **Guarantee.** They never cause themselves: a failure of such an event makes
 * no further event, and an event about a lane is not routed to that lane.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { Event } from "../event/Event.ts"
import type { RelayEventType } from "../event/EventType.ts"
import { Journal } from "../journal/Journal.ts"

/** The webhook name that the relay's own events carry. */
export const ownWebhook = "relay"

/** The data of an own event: no secret and no payload. */
export type Facts = Readonly<Record<string, string | number | boolean>>

/** Gives an event the same identity each time it is emitted, so that the journal takes it for a duplicate. */
export interface Once {
  readonly key: string
  /** When it happened, in epoch milliseconds. */
  readonly at: number
}

/** Journals the relay's own events, for the sinks that its config routes them to. */
export class RelayEvents extends Context.Service<
  RelayEvents,
  {
    /**
     * Journals an event about `lane`, or about the relay as a whole. It never
     * fails: an event that can't be stored is lost, and what it says is in the
     * log as well.
     */
    emit(type: RelayEventType, facts: Facts, lane?: string, once?: Once): Effect.Effect<void>
  }
>()("relay/delivery/RelayEvents") {
  static readonly layer: Layer.Layer<RelayEvents, never, Journal | ActiveConfig> = Layer.effect(
    RelayEvents,
    Effect.gen(function* () {
      const journal = yield* Journal
      const clock = yield* Clock.Clock
      const active = yield* ActiveConfig
      return RelayEvents.of({
        emit: Effect.fn("RelayEvents.emit")(function* (type, facts, lane, once) {
          const sinks = active.current.table.router.routeType(ownWebhook, type).filter((sink) => sink !== lane)
          if (sinks.length === 0) return
          yield* journal
            .append(make(type, facts, clock.currentTimeMillisUnsafe(), once), sinks)
            .pipe(
              Effect.catch((error) =>
                Effect.annotateLogs(Effect.logWarning(`${type} could not be journaled: ${error.message}`), { type }),
              ),
            )
        }),
      })
    }),
  )
}

/** The event in the sender's envelope, so that a sink needs no second format. */
const make = (type: RelayEventType, facts: Facts, now: number, once?: Once): Event => {
  const id = `evt_relay_${once?.key ?? crypto.randomUUID()}`
  const envelope = {
    id,
    account_id: "",
    version: "1",
    created_at: `${new Date(once?.at ?? now).toISOString().slice(0, 19)}Z`,
    data: { type, object: facts },
  }
  return {
    id,
    type,
    accountId: "",
    webhook: ownWebhook,
    webhookId: "",
    signature: "",
    secret: "",
    receivedAt: now,
    body: new TextEncoder().encode(JSON.stringify(envelope)),
  }
}
