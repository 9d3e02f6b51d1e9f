/**
 * Emits the relay's own events. They are journaled and routed by type, like the
 * sender's events.
 *
 * **Guarantee.** They never cause further own events: if one fails, no event is
 * emitted, and an event about a lane is not routed to that lane.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { RelayEventType } from "../event/EventType.ts"
import type { Archive } from "../journal/Archive.ts"
import { Journal } from "../journal/Journal.ts"
import { eventOf, type Facts, type Once, ownWebhook } from "./OwnEvent.ts"
import * as Unresolved from "./Unresolved.ts"

/** Journals the relay's own events, for the sinks that its config routes them to. */
export class RelayEvents extends Context.Service<
  RelayEvents,
  {
    /**
     * Journals an event about `lane`, or about the relay as a whole. It never fails: an event that can't be stored is
     * lost, but its content is also logged.
     */
    emit(type: RelayEventType, facts: Facts, lane?: string, once?: Once): Effect.Effect<void>
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
      const sinksOf = (type: RelayEventType) => active.current.table.router.routeType(ownWebhook, type)
      const unresolved = yield* Unresolved.make((type) => sinksOf(type).length > 0)
      return RelayEvents.of({
        unresolved: unresolved.of,
        emit: Effect.fn("RelayEvents.emit")(function* (type, facts, lane, once) {
          const sinks = sinksOf(type).filter((sink) => sink !== lane)
          if (sinks.length === 0) return unresolved.note(type, facts)
          yield* journal.append(eventOf(type, facts, clock.currentTimeMillisUnsafe(), once), sinks).pipe(
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
