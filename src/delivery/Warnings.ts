/**
 * Warns operators, in the log and by own events, when the journal fills or is red,
 * and before a secret or a certificate expires.
 *
 * **Guarantee.** Each notice about a secret or a certificate is given once. After a
 * restart, the same notice makes the same event, which the journal drops as a
 * duplicate within its duplicate window (default: a day).
 */
import { Clock, Effect, Hash, Layer, Schedule } from "effect"
import { ActiveConfig } from "../ActiveConfig.ts"
import { noticeOf, noticeOfExpiry } from "../config/Config.ts"
import { Archive } from "../journal/Archive.ts"
import { takeoverAfter } from "../journal/FleetStatus.ts"
import { reportsLoss } from "../telemetry/Repeats.ts"
import type { LaneStatus } from "./LaneStatus.ts"
import { Lanes } from "./Lanes.ts"
import { RelayEvents } from "./RelayEvents.ts"

const day = 86_400_000
/** The notices, in milliseconds before a secret expires, shortest first. */
const notices = [day, 3 * day, noticeOfExpiry]

/**
 * Returns the shortest notice that applies, or `undefined` if the secret has expired
 * or expires later than every notice.
 */
export const dueNotice = (expires: number, now: number): number | undefined =>
  expires <= now ? undefined : notices.find((notice) => expires - now <= notice)

const inDays = (millis: number): string => `${Math.round(millis / day)} day${millis === day ? "" : "s"}`

/** Checks the journal, the secrets and the certificates until the layer is released. */
export const layer: Layer.Layer<never, never, Archive | RelayEvents | ActiveConfig> = Layer.effectDiscard(
  Effect.gen(function* () {
    const archive = yield* Archive
    const events = yield* RelayEvents
    const active = yield* ActiveConfig
    let filled = 0
    const noticed = new Set<string>()

    const filling = Effect.gen(function* () {
      const { filling, usedBytes, maxBytes } = yield* archive.status
      if (filling > filled) {
        yield* Effect.logWarning(`the journal is ${filling} % full; at maxSize deliveries are answered 503`).pipe(
          Effect.annotateLogs({ percent: filling }),
        )
        yield* events.emit("relay.journal_filling", { percent: filling, used_bytes: usedBytes, max_bytes: maxBytes })
      }
      filled = filling
    })

    const logged = new Set<string>()
    const emitted = new Set<string>()
    /**
     * Logs each line once per start, and emits it as an event only once overall, because the journal drops a repeated
     * event as a duplicate.
     */
    const red = Effect.gen(function* () {
      const { alarm, health } = yield* archive.status
      for (const problem of alarm.lines) {
        const key = `red:${alarm.since}:${Hash.string(problem)}`
        if (!logged.has(key)) yield* reportsLoss(Effect.logError(`the journal is red: ${problem}`))
        logged.add(key)
        if (health === "starting" || emitted.has(key)) continue
        emitted.add(key)
        yield* events.emit("relay.journal_red", { problem }, undefined, { key, at: alarm.since })
      }
    })

    const expiring = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      for (const { name: webhook, secrets } of active.current.config.webhooks) {
        for (const { name: secret, expires } of secrets) {
          const notice = expires === undefined ? undefined : dueNotice(expires, now)
          if (expires === undefined || notice === undefined) continue
          const key = `secret:${webhook}:${secret}:${expires}:${notice}`
          if (noticed.has(key)) continue
          noticed.add(key)
          const expiresAt = new Date(expires).toISOString()
          yield* Effect.logWarning(
            `the secret ${secret} of the webhook ${webhook} expires within ${inDays(notice)}, at ${expiresAt}: add its successor next to it`,
          ).pipe(Effect.annotateLogs({ webhook, secret, expiresAt }))
          const facts = { webhook, secret, expires_at: expiresAt }
          yield* events.emit("relay.secret_expiring", facts, undefined, { key, at: expires - notice })
        }
      }
    })
    /** Warns once before a certificate expires, and once after. */
    const certificates = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      for (const found of active.current.config.certificates) {
        const { key: certificate, subject, notAfter, fingerprint } = found
        const isOver = notAfter <= now
        const notice = isOver ? 0 : noticeOf(found)
        const key = `certificate:${certificate}:${fingerprint.slice(0, 23)}:${notice}`
        if (notAfter - now > notice || noticed.has(key)) continue
        noticed.add(key)
        const expiresAt = new Date(notAfter).toISOString()
        yield* Effect.logWarning(
          `the certificate ${certificate} (${subject}) ${isOver ? "expired" : "expires"} at ${expiresAt}: renew it, then reload`,
        ).pipe(Effect.annotateLogs({ certificate, subject, expiresAt }))
        const type = isOver ? "relay.certificate_expired" : "relay.certificate_expiring"
        const facts = { certificate, subject, expires_at: expiresAt }
        yield* events.emit(type, facts, undefined, { key, at: notAfter - notice })
      }
    })
    yield* Effect.forkScoped(Effect.repeat(red, Schedule.spaced("1 second")))
    yield* Effect.forkScoped(Effect.repeat(filling, Schedule.spaced("5 seconds")))
    yield* Effect.forkScoped(Effect.repeat(expiring, Schedule.spaced("1 hour")))
    yield* Effect.forkScoped(Effect.repeat(certificates, Schedule.spaced("1 minute")))
  }),
)

/**
 * Shortly after a start, a lane is "running" before it has made an attempt. So a
 * delivery is required unless the backlog is empty.
 */
const isRunning = ({ condition, backlog, attempts }: LaneStatus): boolean =>
  condition === "running" && (backlog === 0 || (attempts.delivered ?? 0) > 0)

/**
 * Emits `relay.lane_resumed` for a sink once it delivers again or has left the config, if `relay.lane_paused` was
 * emitted for it, also before a restart.
 *
 * **Guarantee.** While the sink's lane is paused at another relay of a fleet, no event is emitted.
 */
export const laneRecoveries: Layer.Layer<never, never, Archive | Lanes | RelayEvents> = Layer.effectDiscard(
  Effect.gen(function* () {
    const archive = yield* Archive
    const lanes = yield* Lanes
    const own = yield* RelayEvents

    const look = Effect.gen(function* () {
      const paused = own.unresolved("relay.lane_paused")
      if (paused.size === 0) return
      const known = (yield* lanes.status).filter(({ condition }) => condition !== "orphaned")
      const members = archive.fleet === undefined ? [] : (yield* archive.fleet.status).members
      const others = members.filter(({ isSelf, age }) => !isSelf && age <= takeoverAfter).flatMap(({ lanes }) => lanes)
      for (const sink of paused) {
        const lane = known.find(({ name }) => name === sink)
        if (lane !== undefined && !isRunning(lane)) continue
        if (others.some(({ name, condition }) => name === sink && condition !== "running")) continue
        const message = lane === undefined ? "it has left the config" : "it delivers again"
        yield* own.emit("relay.lane_resumed", { sink, message }, sink)
      }
    })
    // The journal reports its own errors.
    yield* Effect.forkScoped(Effect.repeat(Effect.ignore(look), Schedule.spaced("5 seconds")))
  }),
)
