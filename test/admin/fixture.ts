/** The admin side over a journal in memory, with lanes that only remember their calls. */
import { Context, Duration, Effect, Layer, Ref } from "effect"
import * as Probes from "../../src/admin/Probes.ts"
import { RelayInfo } from "../../src/admin/RelayInfo.ts"
import { handler } from "../../src/admin/Server.ts"
import type { RelayConfig } from "../../src/config/Config.ts"
import type { LaneStatus } from "../../src/delivery/LaneStatus.ts"
import { type AlertReport, Lanes } from "../../src/delivery/Lanes.ts"
import { LaneInUse } from "../../src/delivery/OrphanedLanes.ts"
import type * as Counters from "../../src/ingest/Counters.ts"
import { Ingest } from "../../src/ingest/Ingest.ts"
import type { RecentRefusals } from "../../src/ingest/RecentRefusals.ts"
import { SenderSilence } from "../../src/ingest/SenderSilence.ts"
import type { JournalStatus } from "../../src/journal/Archive.ts"
import type { AuditLog } from "../../src/journal/AuditLog.ts"
import type { FleetStatus } from "../../src/journal/FleetStatus.ts"
import { Reload, Restart } from "../../src/reload/Reload.ts"
import type { Handler } from "../../src/runtime/RequestGuard.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { activeConfig, relayConfig } from "../lib/activeConfig.ts"

export const lane = (name: string, more: Partial<LaneStatus> = {}): LaneStatus => ({
  name,
  type: "file",
  condition: "running",
  message: "",
  backlog: 0,
  retrying: 0,
  deadLetters: 0,
  cursor: 0,
  oldestAt: 0,
  nextAttemptAt: 0,
  lastFailure: undefined,
  duplicateBound: 0,
  attempts: {},
  bugs: 0,
  durations: { counts: [], sum: 0 },
  latencies: { counts: [], sum: 0 },
  ...more,
})

const delivery = {
  timeout: Duration.seconds(10),
  retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
  pauseAfter: 5,
  maxRetrying: 10_000,
  maxDeadLetters: 1024,
}

export const config = (admin: Partial<RelayConfig["admin"]> = {}): RelayConfig =>
  relayConfig({
    admin: { listen: { host: "127.0.0.1", port: 9080 }, ...admin },
    sinks: [
      { name: "lake", type: "file", delivery, concurrency: 1, order: "none", key: "{{account_id}}", config: undefined },
    ],
  })

export interface Setup {
  /** Replaces keys of the config in force. */
  readonly config?: Partial<RelayConfig>
  readonly admin?: Partial<RelayConfig["admin"]>
  readonly lanes?: ReadonlyArray<LaneStatus>
  readonly alerts?: ReadonlyArray<AlertReport>
  /** Replaces fields of the journal's status. */
  readonly status?: Partial<JournalStatus>
  /** Replaces methods of the journal's audit log. */
  readonly audit?: Partial<AuditLog>
  /** Other relays on the journal. */
  readonly fleet?: FleetStatus
  readonly draining?: boolean
  /** Asks the probes before this handler, as on the delivery port. */
  readonly before?: Handler
  /** The time since when each webhook's sender is silent. */
  readonly silent?: Readonly<Record<string, number>>
  /** The result of a reload. */
  readonly reload?: Reload["Service"]["reload"]
  /** Why the last reload was refused. */
  readonly refusal?: string
  /** Fills ingest's counters. */
  readonly counted?: (counters: Counters.Counters) => void
  readonly refused?: ReadonlyArray<Parameters<RecentRefusals["add"]>[0]>
}

export const start = Effect.fnUntraced(function* (setup: Setup = {}) {
  const told = yield* Ref.make<ReadonlyArray<string>>([])
  const tell = (words: string) => Ref.update(told, (before) => [...before, words])
  const statuses = setup.lanes ?? [lane("lake"), lane("old", { type: "", condition: "orphaned", backlog: 3 })]
  const exists = (name: string) => statuses.some((status) => status.name === name && status.condition !== "orphaned")
  const orphan = (name: string) =>
    statuses.some((status) => status.name === name && status.condition === "orphaned")
      ? Effect.succeed(3)
      : Effect.fail(new LaneInUse({ message: `the sink ${name} is in the config` }))
  const lanes = Layer.succeed(
    Lanes,
    Lanes.of({
      status: Effect.succeed(statuses),
      busy: () => statuses,
      counted: () => statuses.map(({ attempts }) => attempts),
      pause: (name, until) =>
        Effect.as(tell(`pause ${name}${until === undefined ? "" : ` until ${until}`}`), exists(name)),
      mute: (name, until, ending) => Effect.as(tell(`mute ${name} until ${until} then ${ending}`), exists(name)),
      alerts: Effect.succeed(setup.alerts ?? []),
      ask: (sink, id, request, until) =>
        Effect.as(
          tell(`${request} ${sink} ${id}${until === undefined ? "" : ` until ${until}`}`),
          setup.alerts?.some((one) => one.sink === sink && one.id === id) === true,
        ),
      resume: (name) => Effect.as(tell(`resume ${name}`), exists(name)),
      move: (from, to) => Effect.tap(orphan(from), () => tell(`move ${from} ${to}`)),
      drop: (name) => Effect.tap(orphan(name), () => tell(`drop ${name}`)),
      whileStopped: (_, work) => work,
      change: () => Effect.succeed([]),
    }),
  )
  const reload = Layer.succeed(
    Reload,
    Reload.of({
      reload: setup.reload ?? Effect.succeed({ file: "relay.config.json", changes: [], notes: [], warnings: [] }),
      status: Effect.succeed({ loadedAt: 1_000_000, refusal: setup.refusal ?? "" }),
    }),
  )
  const restart = Restart.layer({
    begin: Effect.as(tell("restart"), 4242),
    status: Effect.succeed({ pid: 4242, took: 80 }),
  })
  const journal = MemoryJournal.layerWith((memory) => ({
    status: Effect.map(memory.status, (status) => ({ ...status, ...setup.status })),
    audit: { ...memory.audit, ...setup.audit },
    ...(setup.fleet && { fleet: { status: Effect.succeed(setup.fleet), introduce: () => Effect.void } }),
  }))
  const active = activeConfig({ ...config(setup.admin), ...setup.config })
  const ingest = Ingest.layer.pipe(Layer.provideMerge(Layer.merge(journal, active)))
  const info = RelayInfo.layer({ version: "1.2.3", configFile: "relay.config.json" })
  const silence = Layer.succeed(SenderSilence, SenderSilence.of({ since: (name) => setup.silent?.[name] }))
  const context = yield* Layer.build(Layer.mergeAll(lanes, info, reload, restart, ingest, silence))
  const { counters, drain, refusals } = Context.get(context, Ingest)
  setup.counted?.(counters)
  for (const refusal of setup.refused ?? []) refusals.add(refusal)
  if (setup.draining === true) yield* drain
  const { before } = setup
  const handle = yield* Effect.provideContext(before === undefined ? handler : Probes.before(before, true), context)

  /** Asks as a client on this machine would. */
  const ask = (path: string, init: RequestInit = {}) =>
    Effect.promise(async () =>
      handle(
        new Request(`http://127.0.0.1:9080${path}`, {
          ...init,
          headers: { host: "127.0.0.1:9080", ...init.headers },
        }),
      ),
    )
  const post = (path: string, body: unknown = undefined) =>
    ask(path, {
      method: "POST",
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    })
  return { ask, post, handle, journal: yield* Effect.provideContext(whole, context), told: Ref.get(told) }
})

export const json = (response: Response) => Effect.promise(() => response.json())
export const text = (response: Response) => Effect.promise(() => response.text())
