/**
 * The relay in one layer: it reads as the way of an event. What stands later
 * is built later and released first, so a drain runs from the sender to the
 * disk: the listener refuses, lanes end what is under way, cursors are stored,
 * the journal closes.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { RelayInfo } from "./admin/RelayInfo.ts"
import * as Admin from "./admin/Server.ts"
import type { Address, LaneConfig, RelayConfig } from "./config/Config.ts"
import type { ConfigError } from "./config/diagnostics/Diagnostic.ts"
import type { Loaded } from "./config/load/Load.ts"
import { type LaneSpec, Lanes } from "./delivery/Lanes.ts"
import { RelayEvents } from "./delivery/RelayEvents.ts"
import * as Warnings from "./delivery/Warnings.ts"
import * as Clients from "./enrichment/Clients.ts"
import * as Enriched from "./enrichment/Enriched.ts"
import * as Key from "./formats/OrderKey.ts"
import * as Counters from "./ingest/Counters.ts"
import { Ingest } from "./ingest/Ingest.ts"
import * as Snapshot from "./ingest/RoutingTable.ts"
import * as Journals from "./journal/Journals.ts"
import { WorkerEntrypoint } from "./journal/WorkerEntrypoint.ts"
import { Reload } from "./reload/Reload.ts"
import * as Runtime from "./runtime/Runtime.ts"
import { SinkError, SinkMisconfigured } from "./sinks/Sink.ts"
import { sinkTypes } from "./sinks/Sinks.ts"

/**
 * What a drain waits for, one after the other: deliveries under way, the admin
 * API's requests, attempts under way. With the moment that connections have to
 * close it is less than `Runtime.drainDeadline`.
 */
const drains = { deliveries: Duration.seconds(8), admin: Duration.seconds(1), attempts: Duration.seconds(8) }

export interface RelayOptions {
  readonly version: string
  /** The config's file, as it was named. */
  readonly configFile: string
  /** The main module: where the journal's worker starts. */
  readonly entry: URL
  /** Loads the config anew, for a reload. */
  readonly load: Effect.Effect<Loaded, ConfigError>
}

/** Where the relay listens, with the real ports. */
export class Listening extends Context.Service<Listening, { readonly deliveries: Address; readonly admin: Address }>()(
  "relay/Relay/Listening",
) {}

/** One version of the config; a reload puts another in its place. What is not asked of it at each use needs a restart. */
interface InForce {
  readonly config: RelayConfig
  readonly snapshot: Snapshot.RoutingTable
}

const version = (config: RelayConfig): InForce => ({ config, snapshot: Snapshot.make(config, Runtime.hmac) })

export const layer = (config: RelayConfig, options: RelayOptions) =>
  Layer.unwrap(Effect.map(clientsOf(config), (clients) => running(config, options, laneSpecOf(config, clients))))

/** Client details are fetched and remembered for all sinks together. */
const clientsOf = ({ clients }: RelayConfig) => (clients === undefined ? Effect.undefined : Clients.make(clients))

const running = (config: RelayConfig, options: RelayOptions, laneSpec: (config: LaneConfig) => LaneSpec) => {
  let inForce = version(config)
  const current = () => inForce.config
  const journal = Journals.layer(config.journal).pipe(Layer.provide(Layer.succeed(WorkerEntrypoint, options.entry)))
  const events = RelayEvents.layer(() => inForce.snapshot.router)
  const lanes = Lanes.layer({ specs: config.sinks.map(laneSpec), grace: drains.attempts })
  const ingest = Ingest.layer(() => inForce.snapshot)
  const reload = Reload.layer({
    current,
    load: options.load,
    spec: laneSpec,
    swap: (next) => {
      inForce = version(next)
    },
  })
  return listening(config).pipe(
    Layer.provideMerge(reload),
    Layer.provideMerge(info(current, options)),
    Layer.provideMerge(ingest),
    Layer.provideMerge(
      Layer.merge(
        lanes,
        Warnings.layer(() => current().webhooks),
      ),
    ),
    Layer.provideMerge(events),
    Layer.provideMerge(journal),
    Layer.provide(telemetry(config, options)),
  )
}

/** Loaded only where it is asked for. */
const telemetry = ({ telemetry: { otlp } }: RelayConfig, { version }: RelayOptions) =>
  otlp === undefined
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(
          Effect.promise(() => import("./telemetry/Otlp.ts")),
          (Otlp) => Otlp.layer(otlp, version),
        ),
      )

const laneSpecOf =
  ({ clients: api }: RelayConfig, clients: Clients.Clients | undefined) =>
  (config: LaneConfig): LaneSpec => {
    const { type: name, digest, enrich } = config
    const type = sinkTypes[name]
    const unknown = new SinkError({ reason: new SinkMisconfigured({ message: `no sink type is named ${name}` }) })
    const open = type === undefined ? Effect.fail(unknown) : type.open(config.name, config.config, digest && config.key)
    return {
      config,
      open:
        enrich === undefined || api === undefined || clients === undefined
          ? open
          : Effect.map(open, (sink) => Enriched.over(sink, clients, api, enrich)),
      key: Key.compile(config),
    }
  }

const info = (current: () => RelayConfig, options: RelayOptions) =>
  Layer.effect(
    RelayInfo,
    Effect.gen(function* () {
      const { counters, draining } = yield* Ingest
      return RelayInfo.of({
        version: options.version,
        configFile: options.configFile,
        config: Effect.sync(current),
        startedAt: yield* Clock.currentTimeMillis,
        counters,
        draining,
      })
    }),
  )

/** The admin server is up before the first delivery can come, and outlives the last. */
const listening = (config: RelayConfig) =>
  Layer.effect(
    Listening,
    Effect.gen(function* () {
      const { handle, drain, counters } = yield* Ingest
      const admin = yield* Runtime.serve({
        address: config.admin.listen,
        handler: yield* Admin.handler,
        drainTimeout: drains.admin,
      })
      const deliveries = yield* Runtime.serve({
        address: config.listen,
        ...(config.tls === undefined ? {} : { tls: config.tls }),
        handler: handle,
        onRefused: (status) => Counters.add(Counters.ofWebhook(counters, "").answers, status),
        onDrain: drain,
        givesWay: true,
        drainTimeout: drains.deliveries,
      })
      return Listening.of({ deliveries, admin })
    }),
  )
