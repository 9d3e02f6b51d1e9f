/**
 * The relay in one layer, in the order in which data flows. Each part uses the parts
 * above it. Parts are released from the bottom up, so a drain goes from the sender
 * to the disk: the listener refuses, lanes finish their attempts, cursors are
 * stored, the journal closes.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { ActiveConfig } from "./ActiveConfig.ts"
import * as Introduction from "./admin/Introduction.ts"
import * as Probes from "./admin/Probes.ts"
import { RelayInfo } from "./admin/RelayInfo.ts"
import * as Admin from "./admin/Server.ts"
import type { Address } from "./config/Address.ts"
import type { JournalConfig, RelayConfig } from "./config/Config.ts"
import type { ConfigError } from "./config/diagnostics/Diagnostic.ts"
import type { Loaded } from "./config/load/Load.ts"
import { LaneSpecs } from "./delivery/LaneSpec.ts"
import { Lanes } from "./delivery/Lanes.ts"
import { RelayEvents } from "./delivery/RelayEvents.ts"
import * as Warnings from "./delivery/Warnings.ts"
import { laneRecoveries } from "./delivery/Warnings.ts"
import { Ingest } from "./ingest/Ingest.ts"
import { LastDeliveries, SenderSilence } from "./ingest/SenderSilence.ts"
import { ConfigInForce, WorkerEntrypoint } from "./journal/JournalContext.ts"
import * as Journals from "./journal/Journals.ts"
import * as PageFiles from "./page/PageFiles.ts"
import { Reload, Restart } from "./reload/Reload.ts"
import { Doors } from "./runtime/ProcessHandover.ts"
import { watchUnreadable } from "./runtime/RequestGuard.ts"
import * as Runtime from "./runtime/Runtime.ts"
import { ListenerTls } from "./runtime/Runtime.ts"

/**
 * A drain waits for these, one after the other: deliveries under way, the admin
 * API's requests, attempts in flight. With the moment that connections have to
 * close it is less than `drainTime`.
 */
const drains = { deliveries: Duration.seconds(8), admin: Duration.seconds(1), attempts: Duration.seconds(8) }

/** A handover waits this long for attempts in flight: deliveries wait meanwhile. */
const handedOverAttempts = Duration.seconds(1)

export interface RelayOptions {
  readonly version: string
  /** The main module: the journal's worker starts from it. */
  readonly entry: URL
  /** Loads the config again, for a reload. */
  readonly load: Effect.Effect<Loaded, ConfigError>
  readonly restart: Restart["Service"]
  /** Whether another process takes over, which sends again what attempts in flight don't end soon. */
  readonly isHandedOver: () => boolean
}

export const layer = (loaded: Loaded, options: RelayOptions) => {
  const { file, config } = loaded
  return ActiveConfig.layer(config, Runtime.hmac).pipe(
    then(journal(config, options)),
    then(RelayEvents.layer),
    then(Ingest.layer),
    then(LastDeliveries.layer),
    then(LaneSpecs.layer(config.clients, sizeOf(config.journal))),
    then(lanes(config, options)),
    then(laneRecoveries),
    then(SenderSilence.layer),
    then(Warnings.layer),
    then(ListenerTls.layer(config.tls)),
    then(Reload.layer(options.load, loaded)),
    then(Restart.layer(options.restart)),
    then(RelayInfo.layer({ version: options.version, configFile: file })),
    then(Introduction.layer),
    then(listening(config)),
    // Merged: whoever runs the relay logs to it as well.
    Layer.provideMerge(telemetry(config, options)),
  )
}

/** The next part: it is given all before it. */
const then =
  <A, E, R>(next: Layer.Layer<A, E, R>) =>
  <Before, BeforeE, BeforeR>(before: Layer.Layer<Before, BeforeE, BeforeR>) =>
    Layer.provideMerge(next, before)

const journal = (config: RelayConfig, { entry }: RelayOptions) =>
  Journals.layer(config.journal).pipe(
    Layer.provide(Layer.succeed(WorkerEntrypoint, entry)),
    Layer.provide(
      Layer.effect(
        ConfigInForce,
        Effect.map(ActiveConfig, (active) => () => active.current.config.journal),
      ),
    ),
  )

/** The size that a journal may have, in bytes. */
const sizeOf = ({ maxSize }: JournalConfig): number =>
  typeof maxSize === "number" ? maxSize : Number.POSITIVE_INFINITY

/** A lane for each sink, which it opens. */
const lanes = ({ sinks, quarantine, journal }: RelayConfig, { isHandedOver }: RelayOptions) => {
  const grace = () => (isHandedOver() ? handedOverAttempts : drains.attempts)
  const ofJournal = (sizeOf(journal) * quarantine.maxShare) / 100
  const limits = { ...quarantine, maxBytes: Math.min(quarantine.maxSize, ofJournal) }
  return Layer.unwrap(
    Effect.map(LaneSpecs, (specs) => Lanes.layer({ specs: sinks.map(specs.of), grace, quarantine: limits })),
  )
}

/** A relay that listens. */
export class Listening extends Context.Service<
  Listening,
  {
    /** The addresses, with the real ports. */
    readonly deliveries: Address
    readonly admin: Address
    /** The config in force. */
    readonly config: () => RelayConfig
    /** From now on it is not ready. It accepts deliveries until `refuse`. */
    readonly leave: Effect.Effect<void>
    readonly refuse: Effect.Effect<void>
  }
>()("relay/Relay/Listening") {}

/** The ports of a config, by the keys that name their addresses. */
export const doorsOf = ({ admin, listen, socket, idleTimeout, maxHeaders, tls, probes }: RelayConfig) =>
  ({
    "admin.listen": { address: admin.listen, whileHeld: Probes.whileHeld },
    listen: {
      address: listen,
      socket,
      idleTimeout,
      maxHeaders,
      mayPause: true,
      ...(tls !== undefined && { tls }),
      ...(probes && { whileHeld: Probes.whileHeld }),
    },
  }) satisfies Readonly<Record<string, Runtime.DoorOptions>>

/** The admin server is up before the first delivery can come, and outlives the last. */
const listening = (config: RelayConfig) =>
  Layer.effect(
    Listening,
    Effect.gen(function* () {
      const { handle, leave, drain, noteRefused, noteUnreadable } = yield* Ingest
      const active = yield* ActiveConfig
      const listenerTls = yield* ListenerTls
      const open = yield* Doors
      const doors = doorsOf(config)
      // Before the admin port: an open one answers that the relay is ready.
      const deliveries = yield* open("listen", doors.listen)
      const admin = yield* open("admin.listen", doors["admin.listen"])
      yield* admin.serve({ handler: PageFiles.before(yield* Admin.handler), drainTimeout: drains.admin })
      yield* listenerTls.listening(deliveries.renew)
      // A reload may have come by the admin server.
      const tls = yield* listenerTls.current
      if (tls !== undefined && tls !== config.tls) yield* deliveries.renew(tls)
      yield* deliveries.serve({
        handler: config.probes ? yield* Probes.before(handle, true) : handle,
        onRefused: noteRefused,
        onDrain: drain,
        drainTimeout: drains.deliveries,
      })
      if (config.listen.unix === undefined) {
        const { requests, address } = deliveries
        const watched = { port: address.port, requests, idleTimeout: config.idleTimeout }
        yield* Effect.forkScoped(watchUnreadable(watched, noteUnreadable))
      }
      return Listening.of({
        deliveries: deliveries.address,
        admin: admin.address,
        config: () => active.current.config,
        leave,
        refuse: drain,
      })
    }),
  )

/** Imported only if the config configures it. */
const telemetry = ({ telemetry: { otlp } }: RelayConfig, { version }: RelayOptions) =>
  otlp === undefined
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(
          Effect.promise(() => import("./telemetry/Otlp.ts")),
          (Otlp) => Otlp.layer(otlp, version),
        ),
      )
