/** Builds the status of the admin API. */
import { Clock, Context, Effect, Layer, Struct } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import type { RelayConfig, Webhook } from "../config/Config.ts"
import { mistakenSecrets } from "../config/rules/SecretText.ts"
import { type LaneStatus, Lanes } from "../delivery/Lanes.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { refusals } from "../ingest/Answers.ts"
import * as Counters from "../ingest/Counters.ts"
import { Ingest } from "../ingest/Ingest.ts"
import type { Counted } from "../ingest/RecentRefusals.ts"
import { SenderSilence } from "../ingest/SenderSilence.ts"
import { Archive } from "../journal/Archive.ts"
import type { JournalError } from "../journal/Journal.ts"
import { Reload } from "../reload/Reload.ts"
import { targetOf } from "../sinks/Target.ts"
import type * as Api from "./Api.ts"
import { Caller } from "./Caller.ts"
import { isCollecting, sendsDigests } from "./Collecting.ts"
import { fleetOf, withOthers } from "./FleetReports.ts"
import { History, totalsOf } from "./History.ts"
import { notReady } from "./Readiness.ts"
import type { Refusals } from "./RefusedRequest.ts"
import { RelayInfo } from "./RelayInfo.ts"
import { Work } from "./Work.ts"

const webhookOf = (
  { name, secrets }: Webhook,
  counters: Counters.Counters,
  silentSince: EpochMillis | undefined,
): Api.Webhook => {
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
  const path = webhooks.find((one) => one.name === name)?.path
  const mistakes = webhooks
    .filter((one) => one.path === path)
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

const laneOf = (lane: LaneStatus, p99: number | undefined, sinks: RelayConfig["sinks"]): Api.Lane => {
  const { nextAttemptAt, lastFailure, pausedUntil } = lane
  const target = targetOf(sinks.find(({ name }) => name === lane.name)?.config)
  return {
    ...Struct.pick(lane, ["name", "type", "condition", "message", "backlog", "retrying", "deadLetters", "oldestAt"]),
    ...(target !== "" && { target }),
    ...(sendsDigests(sinks, lane.name) && { digest: true }),
    ...(p99 !== undefined && { p99 }),
    ...(pausedUntil !== undefined && { pausedUntil }),
    ...(nextAttemptAt !== 0 && { nextAttemptAt }),
    ...(lastFailure !== undefined && { lastFailure }),
  }
}

const withCollecting = (lane: Api.Lane): Api.Lane =>
  lane.digest === true && lane.retrying > 0 && isCollecting(lane)
    ? { ...lane, retrying: 0, collecting: lane.retrying }
    : lane

export class RelayStatus extends Context.Service<
  RelayStatus,
  { readonly status: Effect.Effect<Api.Status, JournalError> }
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
        const own = known.map((lane) => laneOf(lane, history.p99(lane), active.current.config.sinks))
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
          refusals: ingest.refusals.counted().map((one) => refusalsOf(one, webhooks, now)),
          certificates: active.current.config.certificates,
          lanes: (fleet === undefined ? own : withOthers(own, fleet)).map(withCollecting),
          ...(fleet && { fleet: fleetOf(fleet) }),
        }
      })
      return RelayStatus.of({ status })
    }),
  )
}
