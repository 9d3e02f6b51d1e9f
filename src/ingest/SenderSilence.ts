/**
 * Notices a sender that sends nothing for longer than `silentAfter`: in the log,
 * as the own event `relay.sender_silent`, and for the status and the metrics.
 * `relay.sender_resumed` follows its next delivery, also after a restart.
 *
 * **Guarantee.** A relay of a fleet asks the journal before it calls a sender
 * silent: the deliveries may go to another relay.
 */
import { Clock, Context, Effect, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { Webhook } from "../config/Config.ts"
import { silentAt } from "../config/SilentAfter.ts"
import { RelayEvents } from "../delivery/RelayEvents.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { Archive } from "../journal/Archive.ts"
import type { JournalError } from "../journal/Journal.ts"
import { LastDeliveries } from "./LastDeliveries.ts"

export class SenderSilence extends Context.Service<
  SenderSilence,
  {
    /** The last delivery of a silent sender, or the start; `undefined` if the webhook's sender isn't silent. */
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
  /** When the relay began to watch a webhook, if no delivery to it is known. */
  const watched = new Map<string, EpochMillis>()

  const since = (webhook: string): EpochMillis | undefined => {
    const at = silent.get(webhook)
    return at === undefined || deliveries.of(webhook) > at ? undefined : at
  }

  const lastOf = ({ name }: Webhook, now: EpochMillis): EpochMillis => {
    const last = deliveries.of(name)
    if (last > 0) return last
    const begun = watched.get(name) ?? now
    watched.set(name, begun)
    return begun
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
    // One that began before a restart was announced then.
    const isNews = !own.unresolved("relay.sender_silent").has(name)
    const message = `no delivery since ${new Date(last).toISOString()}`
    yield* Effect.annotateLogs(Effect.logWarning(`the sender of the webhook ${name} is silent: ${message}`), {
      webhook: name,
    })
    const once = { key: `silent:${name}:${last}`, at: silentAt(last, silentAfter) }
    if (isNews) yield* own.emit("relay.sender_silent", { webhook: name, message }, undefined, once)
  })

  /** Ends what is over. A sender that was silent before a restart stays so until a delivery is known. */
  const end = Effect.fnUntraced(function* (name: string, now: EpochMillis) {
    const webhook = active.current.config.webhooks.find((one) => one.name === name)
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
  // The next look repeats one that the journal did not answer.
  const looking = Effect.repeat(Effect.ignore(look), Schedule.spaced("10 seconds"))
  yield* Effect.forkScoped(Effect.andThen(deliveries.ready, looking))

  return SenderSilence.of({ since })
})
