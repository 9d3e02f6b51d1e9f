/** Builds the status of the admin API. */
import { Clock, Context, Effect, Layer, Struct } from "effect"
import { ActiveConfig } from "../../ActiveConfig.ts"
import type { LaneConfig, RelayConfig, Webhook as WebhookConfig } from "../../config/Config.ts"
import { mistakenSecrets } from "../../config/rules/SecretText.ts"
import { earliest, type LaneCondition, LaneFacts, type LaneStatus, laneConditions } from "../../delivery/LaneStatus.ts"
import { Lanes } from "../../delivery/Lanes.ts"
import type { EpochMillis, Millis } from "../../event/Quantities.ts"
import { refusals } from "../../ingest/Answers.ts"
import * as Counters from "../../ingest/Counters.ts"
import { Ingest } from "../../ingest/Ingest.ts"
import type { Counted } from "../../ingest/RecentRefusals.ts"
import { SenderSilence } from "../../ingest/SenderSilence.ts"
import { Archive, type DeliveryStatus } from "../../journal/Archive.ts"
import type { FleetStatus, LaneCounts, LaneReport, MemberStatus, StreamStatus } from "../../journal/FleetStatus.ts"
import type { JournalError } from "../../journal/Journal.ts"
import { Reload } from "../../reload/Reload.ts"
import { sendsAlerts, targetOf } from "../../sinks/SinkTypes.ts"
import { notReady } from "../Probes.ts"
import { Caller, RelayInfo } from "../RelayInfo.ts"
import { History, totalsOf } from "./History.ts"
import type { Fleet, Lane, Refusals, Status, Webhook } from "./Status.ts"

interface Item {
  /** A description, such as `replay to lake`. */
  readonly what: string
  /** From 0 to 1. */
  readonly share: number
}

/** Reports the progress, from 0 to 1. */
export type OnProgress = (share: number) => void

/** Tracks long-running work of the admin API and its progress. */
export class Work extends Context.Service<
  Work,
  {
    readonly running: Effect.Effect<ReadonlyArray<Item>>
    /** Runs `job` and lists it until it ends. */
    track<A, E>(what: string, job: (onProgress: OnProgress) => Effect.Effect<A, E>): Effect.Effect<A, E>
  }
>()("relay/admin/Work") {
  static readonly layer: Layer.Layer<Work> = Layer.sync(Work, () => {
    const jobs = new Set<{ readonly what: string; share: number }>()
    return Work.of({
      running: Effect.sync(() => [...jobs].map((job) => ({ ...job }))),
      track: (what, job) =>
        Effect.suspend(() => {
          const item = { what, share: 0 }
          jobs.add(item)
          const onProgress: OnProgress = (share) => {
            item.share = Math.min(1, Math.max(0, share))
          }
          return Effect.ensuring(
            job(onProgress),
            Effect.sync(() => jobs.delete(item)),
          )
        }),
    })
  })
}

interface LaneState {
  readonly condition: LaneCondition
  readonly oldestAt: number
  readonly lastFailure?: { readonly at: number } | undefined
}

export const sendsDigests = (sinks: RelayConfig["sinks"], name: string): boolean =>
  sinks.some((sink) => sink.name === name && sink.alert?.sends === "digest")

/**
 * A lane that sends digests keeps collected events and retries in the same queue. Reports whether all queued events
 * of a lane with digests are being collected, because no attempt has failed since its oldest event arrived.
 */
export const isCollecting = ({ condition, oldestAt, lastFailure }: LaneState): boolean =>
  (condition === "running" || condition === "paused") && (lastFailure === undefined || lastFailure.at < oldestAt)

/** Reports whether an event is in a digest that was not attempted yet. */
export const isCollected = ({ sink, outcome, attempts }: DeliveryStatus, sinks: RelayConfig["sinks"]): boolean =>
  outcome === "retrying" && attempts.length === 0 && sendsDigests(sinks, sink)

const none: LaneCounts = { backlog: 0, retrying: 0, deadLetters: 0 }
/** Maximum duration of a takeover. A stream without a relay for longer is a problem. */
const takeoverWithin: Millis = 15_000

const added = (a: LaneCounts, b: LaneCounts): LaneCounts => ({
  backlog: a.backlog + b.backlog,
  retrying: a.retrying + b.retrying,
  deadLetters: a.deadLetters + b.deadLetters,
})

/** Returns the counts over all streams, by sink. */
const totals = (streams: ReadonlyArray<StreamStatus>): ReadonlyMap<string, LaneCounts> => {
  const counts = new Map<string, LaneCounts>()
  for (const { lanes } of streams) {
    for (const [name, lane] of Object.entries(lanes)) counts.set(name, added(counts.get(name) ?? none, lane))
  }
  return counts
}

const rank = ({ condition }: Pick<Lane, "condition">): number => laneConditions.indexOf(condition)

type ConditionReport = Pick<Lane, "condition" | "message">

interface RelayReport extends LaneReport {
  readonly relay: MemberStatus
}

/** Returns the reports of all relays by sink. */
const reportsOf = (members: ReadonlyArray<MemberStatus>): ReadonlyMap<string, ReadonlyArray<RelayReport>> =>
  Map.groupBy(
    members.flatMap((relay) => relay.lanes.map((lane) => ({ ...lane, relay }))),
    ({ name }) => name,
  )

/** Returns the worst condition of a sink at all relays. */
const worst = (own: ConditionReport, others: ReadonlyArray<RelayReport>): ConditionReport =>
  others.reduce(
    (worst: ConditionReport, { condition, message, relay }) =>
      rank({ condition }) >= rank(worst)
        ? worst
        : { condition, message: `at ${relay.name}${message && `: ${message}`}` },
    own,
  )

/** Returns why events of a sink wait in a stream without a relay. */
const abandoned = (name: string, streams: ReadonlyArray<StreamStatus>): ReadonlyArray<ConditionReport> =>
  streams.flatMap(({ id, unownedFor = 0, lanes }) =>
    unownedFor > takeoverWithin && (lanes[name]?.backlog ?? 0) > 0
      ? [{ condition: "stalled", message: `no relay has taken over the stream ${id}, in which events wait` }]
      : [],
  )

/** Returns the lanes of all relays: first this relay's lanes, then those that only others have. */
export const withOthers = (lanes: ReadonlyArray<Lane>, { members, streams }: FleetStatus): ReadonlyArray<Lane> => {
  const counts = totals(streams)
  const reports = reportsOf(members)
  const owners = new Set(streams.map(({ owner }) => owner))
  const atOthers = (name: string) => (reports.get(name) ?? []).filter(({ relay }) => !relay.isSelf)
  // A relay that has ended still counts until another owns its streams.
  const atOwners = (name: string) => atOthers(name).filter(({ relay }) => owners.has(relay.name))
  const own = lanes.map((lane) => {
    const { name, condition } = lane
    const theirs = condition === "orphaned" ? atOthers(name).map(({ relay }) => relay.name) : []
    const report: ConditionReport =
      theirs.length > 0
        ? { condition, message: `its sink is in the config of ${theirs.join(", ")}, not here` }
        : (abandoned(name, streams)[0] ?? worst(lane, condition === "orphaned" ? [] : atOwners(name)))
    return {
      ...lane,
      ...report,
      ...(counts.get(name) ?? none),
      oldestAt: earliest([lane.oldestAt, ...atOwners(name).map(({ oldestAt }) => oldestAt)]),
    }
  })
  const known = new Set(lanes.map(({ name }) => name))
  const theirs = new Set([...counts.keys(), ...reports.keys()]).difference(known)
  return [
    ...own,
    ...[...theirs].flatMap((name): ReadonlyArray<Lane> => {
      const lane = reports.get(name)?.[0]
      const count = counts.get(name) ?? none
      // A lane without a sink at any relay is listed by the relay that owns its stream.
      if (lane === undefined && count.backlog + count.deadLetters === 0) return []
      return [
        {
          name,
          type: lane?.type ?? "",
          condition: lane?.condition ?? "orphaned",
          message: lane?.message ?? "no relay's config has this sink",
          ...count,
          oldestAt: earliest(atOwners(name).map(({ oldestAt }) => oldestAt)),
        },
      ]
    }),
  ]
}

/** The admin API's report on all relays of the journal: figures over all streams, and conditions at all relays. */
export const fleetOf = ({ members, streams }: FleetStatus): Fleet => ({
  relays: members.map(({ lanes: _, ...member }) => {
    const owned = streams.filter(({ owner }) => owner === member.name)
    const waiting = owned.flatMap(({ lanes }) => Object.values(lanes)).reduce((sum, { backlog }) => sum + backlog, 0)
    return { ...member, streams: owned.map(({ id }) => id), shared: owned.some(({ isShared }) => isShared), waiting }
  }),
  unowned: streams.flatMap(({ id, owner }) => (members.some(({ name }) => name === owner) ? [] : [id])),
})

const webhookOf = (
  { name, secrets }: WebhookConfig,
  counters: Counters.Counters,
  silentSince: EpochMillis | undefined,
): Webhook => {
  const lastUsed = counters.webhooks.get(name)?.secretsLastUsed
  const lastDelivery = Counters.lastDelivery(counters, name)
  return {
    name,
    ...(lastDelivery > 0 && { lastDelivery }),
    ...(silentSince !== undefined && { silentSince }),
    secrets: secrets.map(({ name, expires }) => ({
      name,
      ...(expires !== undefined && { expires }),
      lastUsed: lastUsed?.get(name) ?? 0,
    })),
  }
}

/** Describes mistakes in the secrets of a webhook and of the webhooks that share its path; empty if there are none. */
const mistakesOf = (name: string, webhooks: RelayConfig["webhooks"], now: EpochMillis): string => {
  const path = webhooks.find((webhook) => webhook.name === name)?.path
  const mistakes = webhooks
    .filter((webhook) => webhook.path === path)
    .flatMap(({ secrets }) => mistakenSecrets(secrets, now))
    .map(({ name, message, hint }) => `look at the secret ${name}: ${message}; ${hint}. `)
  return mistakes.join("")
}

/** Normalizes a path's slashes and case. */
const folded = (path: string): string => path.toLowerCase().replaceAll(/\/+/g, "/").replace(/\/$/, "")

/** Reports whether two paths differ only in slashes, case or a prefix that a proxy may have added or removed. */
const areAlike = (one: string, other: string): boolean => {
  const [a, b] = [folded(one), folded(other)]
  return a !== "" && b !== "" && (a.endsWith(b) || b.endsWith(a))
}

/** Lists refused paths that are similar to a webhook's; empty if there are none. */
const nearlyPaths = ({ details }: Counted, webhooks: RelayConfig["webhooks"]): string =>
  details
    .flatMap(({ detail }) => {
      const near = webhooks.find(({ path }) => areAlike(detail, path))
      return near === undefined ? [] : [`${detail} is almost the path of ${near.name}, ${near.path}. `]
    })
    .join("")

const refusalsOf = (counted: Counted, webhooks: RelayConfig["webhooks"], now: EpochMillis): Refusals => {
  const { answer, what, advice } = refusals[counted.reason]
  const mistakes = counted.reason === "signatureMismatch" ? mistakesOf(counted.webhook, webhooks, now) : ""
  const first = counted.reason === "unknownPath" ? nearlyPaths(counted, webhooks) : mistakes
  return { ...counted, status: answer.status, what, advice: first === "" ? advice : `${first}Then ${advice}` }
}

const laneOf = (lane: LaneStatus, percentiles: Pick<Lane, "p99" | "latency">, sink: LaneConfig | undefined): Lane => {
  const { nextAttemptAt, lastFailure } = lane
  const target = targetOf(lane.type, sink?.config)
  return {
    ...Struct.pick(lane, Struct.keys(LaneFacts.fields)),
    ...(target !== "" && { target }),
    ...(sink?.alert?.sends === "digest" && { digest: true }),
    ...percentiles,
    ...(sendsAlerts(lane.type) && { alerts: true }),
    ...(sink?.alert?.sends === "changes" && { alertPolicy: true }),
    ...(nextAttemptAt !== 0 && { nextAttemptAt }),
    ...(lastFailure !== undefined && { lastFailure }),
  }
}

const withCollecting = (lane: Lane): Lane =>
  lane.digest === true && lane.retrying > 0 && isCollecting(lane)
    ? { ...lane, retrying: 0, collecting: lane.retrying }
    : lane

export class RelayStatus extends Context.Service<
  RelayStatus,
  { readonly status: Effect.Effect<Status, JournalError> }
>()("relay/admin/RelayStatus") {
  static readonly layer = Layer.effect(
    RelayStatus,
    Effect.gen(function* () {
      const archive = yield* Archive
      const lanes = yield* Lanes
      const info = yield* RelayInfo
      const active = yield* ActiveConfig
      const ingest = yield* Ingest
      const silence = yield* SenderSilence
      const reload = yield* Reload
      const work = yield* Work
      const history = yield* History
      const services = yield* Effect.context<Ingest | Archive>()

      const status = Effect.gen(function* () {
        const { health, message, engine, head, first, usedBytes, maxBytes, filling } = yield* archive.status
        const known = yield* lanes.status
        const sinks = new Map(active.current.config.sinks.map((sink) => [sink.name, sink]))
        const own = known.map((lane) => laneOf(lane, history.percentiles(lane), sinks.get(lane.name)))
        const fleet = archive.fleet && (yield* archive.fleet.status)
        const now = yield* Clock.currentTimeMillis
        const { webhooks } = active.current.config
        return {
          ...info,
          now,
          caller: Struct.pick(yield* Caller, ["name", "role"]),
          draining: yield* ingest.draining,
          notReady: yield* Effect.provideContext(notReady, services),
          journal: { health, message, ...engine, head, tail: first, usedBytes, maxBytes, filling },
          config: yield* reload.status,
          totals: totalsOf(ingest.counters, lanes.counted()),
          hour: yield* history.hour,
          work: yield* work.running,
          webhooks: webhooks.map((webhook) => webhookOf(webhook, ingest.counters, silence.since(webhook.name))),
          refusals: ingest.refusals.counted().map((refusal) => refusalsOf(refusal, webhooks, now)),
          certificates: active.current.config.certificates,
          lanes: (fleet === undefined ? own : withOthers(own, fleet)).map(withCollecting),
          ...(fleet && { fleet: fleetOf(fleet) }),
        }
      })
      return RelayStatus.of({ status })
    }),
  )
}
