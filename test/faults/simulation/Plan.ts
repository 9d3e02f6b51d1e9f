/**
 * Everything that a seed decides before anything runs: sinks and routes, the ends of lives, and the behaviour of the
 * sinks and the disk over time.
 *
 * All times are milliseconds from the seed's beginning. Sizes are small, so that a thousand seeds take a minute. The
 * bound on repeats needs many events, so it is left to the few seeds that are a burst: more events than it allows are
 * taken while the disk stores no progress, then the relay is killed.
 */
import { Duration } from "effect"
import type { LaneConfig } from "../../../src/config/Config.ts"
import type { Route } from "../../../src/routing/Router.ts"
import type { Sink } from "../../../src/sinks/Sink.ts"
import type { CommitFault } from "./Disk.ts"
import { Draw } from "./Draw.ts"

/** A sink's behaviour for a while. */
export type Behaviour =
  | "fine"
  | "slow"
  /** Never answers; whether it took the events is open. */
  | "hangs"
  | "away"
  | "throttles"
  | "misconfigured"
  /** Refuses every event, and does not say that no other would pass. */
  | "refuses"
  /** Each event by itself: taken, failed or rejected. */
  | "picky"
  | "fails"
  /** Takes the events and loses its answer. */
  | "forgets"

/** The effect of an event that a sink can't bear. No other event may suffer from it. */
export type Unbearable =
  /** The receiver drops the connection, and with it the batch that the event is in. */
  | "drops"
  /** The sink dies of a bug, whatever else is in the batch. */
  | "bug"
  /** Its key can't be rendered. */
  | "unrenderable"

const behaviours = [
  "fine",
  "slow",
  "hangs",
  "away",
  "throttles",
  "misconfigured",
  "refuses",
  "picky",
  "fails",
  "forgets",
] as const

export interface SinkPlan {
  readonly config: LaneConfig
  readonly batch: Sink["batch"]
  /** Share of the events that it never takes: rejected, or failed until the faults are over. */
  readonly poison: number
  /** Shares of the events that it can't bear, whatever its behaviour. */
  readonly unbearable: Readonly<Record<Unbearable, number>>
  readonly phases: ReadonlyArray<{ readonly until: number; readonly behaviour: Behaviour }>
}

/** A kind of route, and its matches in plain code, against which the router is checked. */
export interface RoutePlan {
  readonly match: ReadonlyArray<string>
  readonly except?: ReadonlyArray<string>
  readonly where?: Route["where"]
  readonly takes: (type: string, account: string) => boolean
}

/** A sink's name in it is replaced as sinks come and go: `to` are places in the list of sinks. */
const routes: readonly [RoutePlan, ...ReadonlyArray<RoutePlan>] = [
  { match: ["**"], takes: () => true },
  { match: ["appointment.*"], takes: (type) => /^appointment\.[^.]+$/.test(type) },
  { match: ["appointment.**"], takes: (type) => type.startsWith("appointment.") },
  { match: ["{client,booking_intent}.*"], takes: (type) => /^(client|booking_intent)\.[^.]+$/.test(type) },
  { match: ["**"], except: ["client.*", "**.*_failed"], takes: (type) => !/^client\.[^.]+$|_failed$/.test(type) },
  { match: ["**"], where: { "/account_id": ["acct_1", "acct_2"] }, takes: (_, account) => /[12]$/.test(account) },
]

export const accounts = ["acct_1", "acct_2", "acct_3", "acct_4"] as const
export const types = [
  "appointment.created",
  "appointment.canceled",
  "appointment.meeting.create_failed",
  "booking_intent.completed",
  "client.updated",
  "custom.thing",
] as const

/** How a life ends. All but the last of a seed do so while there are faults. */
export interface End {
  readonly at: number
  readonly how: "stop" | "kill" | Exclude<CommitFault, "disk full" | "busy"> | "torn checkpoint"
  /** Steps of the loop after `at` at which a kill comes. */
  readonly steps: number
  /** The change of the config before the next life. */
  readonly change: "nothing" | "add" | "remove" | "rename" | "return"
  /** How long nobody runs. */
  readonly away: number
}

/** Another config while the relay lives: a change as before a next life, or another delivery setting of a lane. */
export interface Reload {
  readonly at: number
  readonly change: End["change"] | "tune"
}

export interface Plan {
  readonly seed: number
  readonly burst: boolean
  readonly memory: boolean
  readonly sinks: ReadonlyArray<SinkPlan>
  /** A route, and the sinks that it leads to. */
  readonly routes: ReadonlyArray<{ readonly plan: RoutePlan; readonly to: ReadonlyArray<number> }>
  /** The sink of the relay's own events, or `undefined` for none. */
  readonly own: number | undefined
  readonly ends: ReadonlyArray<End>
  readonly reloads: ReadonlyArray<Reload>
  /** When the faults are over: sinks heal, the disk too. */
  readonly faultsUntil: number
  readonly events: number
  /** Periods in which a share of the commits fails. */
  readonly badDisk: ReadonlyArray<{
    readonly from: number
    readonly until: number
    readonly share: number
    readonly fault: "disk full" | "busy"
  }>
  readonly jumps: ReadonlyArray<{ readonly at: number; readonly by: number }>
  readonly journal: { readonly retention: number; readonly maxSize: number; readonly duplicatesAge: number }
}

/** A burst: events come, the sinks wake up, the disk takes nothing any more, the relay is killed. */
export const scene = {
  from: 100,
  until: 400,
  diskFails: 550,
  sinksWake: 600,
  killed: 2_000,
  faultsUntil: 2_600,
} as const

const hour = 3_600_000
const year = 365 * 24 * hour

export const sinkName = (index: number): string => `sink${index}`

const drawPlainSink = (seed: number, index: number, faultsUntil: number, burst: boolean): SinkPlan => {
  const draw = new Draw(seed, `sink ${index}`)
  const phases: Array<SinkPlan["phases"][number]> = []
  if (burst) phases.push({ until: scene.sinksWake, behaviour: "away" })
  for (let at = 0; at < faultsUntil && !burst; ) {
    at += draw.real(100, 4_000)
    phases.push({ until: at, behaviour: draw.chance(0.4) ? "fine" : draw.pick(behaviours) })
  }
  const backlog = draw.chance(0.2)
    ? { max: draw.int(5, 40), whenFull: draw.pick(["refuse", "deadLetter"] as const) }
    : undefined
  return {
    phases,
    poison: draw.pick([0, 0, 0.02, 0.1]),
    unbearable: { drops: 0, bug: 0, unrenderable: 0 },
    batch: {
      maxEvents: burst ? draw.int(20, 100) : draw.pick([1, 1, 2, 5, 20]),
      maxBytes: draw.pick([1_000, 100_000]),
      ...(draw.chance(0.3) ? { linger: draw.int(10, 150) } : {}),
    },
    config: {
      name: sinkName(index),
      type: "simulated",
      concurrency: draw.int(1, burst ? 8 : 4),
      order: draw.pick(["none", "key"] as const),
      key: "{{account_id}}",
      delivery: {
        timeout: Duration.millis(draw.int(200, 2_000)),
        retry: {
          maxAge: Duration.millis(draw.pick([3_000, 10 * 60_000, 72 * hour])),
          initial: Duration.millis(burst ? 20 : draw.int(20, 400)),
          max: Duration.millis(burst ? 50 : draw.int(400, 3_000)),
          ...(draw.chance(0.4) ? { maxAttempts: draw.int(1, 5) } : {}),
        },
        pauseAfter: draw.int(3, 8),
        maxRetrying: burst ? 10_000 : draw.pick([3, 20, 1_000]),
        maxDeadLetters: burst ? 1_000_000 : draw.pick([2_000, 1_000_000]),
      },
      ...(draw.chance(0.15) && !burst ? { rateLimit: { events: draw.int(20, 200), per: Duration.seconds(1) } } : {}),
      ...(backlog === undefined || burst ? {} : { backlog }),
      config: undefined,
    },
  }
}

/** Lets the sink give up by age alone, and soon. A wall clock that was set must not cause that. */
const aging = (plan: SinkPlan, draw: Draw): SinkPlan => {
  if (draw.chance(0.7)) return plan
  const { initial, max } = plan.config.delivery.retry
  const retry = { initial, max, maxAge: Duration.millis(draw.int(300, 1_500)) }
  return { ...plan, config: { ...plan.config, delivery: { ...plan.config.delivery, retry } } }
}

/** Makes the sink send digests, without settings that the config refuses beside them. */
const digesting = (plan: SinkPlan, draw: Draw): SinkPlan => {
  const { backlog, delivery, ...config } = plan.config
  const maxEvents = draw.int(2, 8)
  return {
    ...plan,
    config: {
      ...config,
      order: "none",
      alert: { sends: "digest", resolves: false, wait: Duration.millis(draw.int(50, 2_000)), maxEvents },
      delivery: { ...delivery, maxRetrying: Math.max(delivery.maxRetrying, maxEvents) },
      ...(backlog === undefined ? {} : { backlog: { ...backlog, whenFull: "refuse" } }),
    },
  }
}

/** Draws a sink by its number. Later sinks are drawn like the first ones. */
export const drawSink = (seed: number, index: number, faultsUntil: number, burst: boolean): SinkPlan => {
  const plain = drawPlainSink(seed, index, faultsUntil, burst)
  const plan = burst ? plain : aging(plain, new Draw(seed, `age ${index}`))
  const draw = new Draw(seed, `digest ${index}`)
  const drawn = burst || draw.chance(0.75) ? plan : digesting(plan, draw)
  return burst || !strains(seed) ? drawn : straining(drawn, new Draw(seed, `strain ${index}`))
}

/**
 * Whether sinks get events that they can't bear. These alone don't show whether a sink is away, so the journal has room
 * for more.
 */
const strains = (seed: number): boolean => new Draw(seed, "strains").chance(0.4)

/** Makes the sink unable to bear some events. Events that are retried again and again are given up within the seed. */
const straining = (plan: SinkPlan, draw: Draw): SinkPlan => {
  if (draw.chance(0.4)) return plan
  const share = () => draw.pick([0, 0.03, 0.1])
  const unbearable = { drops: share(), bug: share(), unrenderable: share() }
  const { delivery, backlog, ...config } = plan.config
  const retry = { ...delivery.retry, maxAttempts: delivery.retry.maxAttempts ?? draw.int(3, 5) }
  if (unbearable.drops === 0) return { ...plan, unbearable }
  // Other events must have room to pass: events that it can't bear don't show whether it is away.
  const larger = backlog?.whenFull === "refuse" ? { ...backlog, max: 1_000 } : backlog
  const room = { delivery: { ...delivery, retry, maxRetrying: 1_000 }, ...(larger && { backlog: larger }) }
  return { ...plan, unbearable, config: { ...config, ...room } }
}

const drawReloads = (seed: number, faultsUntil: number): ReadonlyArray<Reload> => {
  const draw = new Draw(seed, "reloads")
  return Array.from({ length: draw.int(0, 4) }, () => ({
    at: draw.real(0, faultsUntil),
    change: draw.pick(["nothing", "add", "remove", "remove", "rename", "return", "return", "tune", "tune"] as const),
  })).sort((a, b) => a.at - b.at)
}

export const drawPlan = (seed: number): Plan => {
  const draw = new Draw(seed, "plan")
  const burst = draw.chance(0.01)
  // The journal in memory counts a backlog by looking through it: no place for a burst.
  const memory = !burst && draw.chance(0.25)
  const faultsUntil = burst ? scene.faultsUntil : draw.int(2_000, 6_000)
  const sinks = Array.from({ length: draw.int(2, burst ? 2 : 4) }, (_, index) =>
    drawSink(seed, index, faultsUntil, burst),
  )
  const places = sinks.map((_, index) => index)
  const kill: End = { at: scene.killed, how: "kill", steps: draw.int(0, 60), change: "nothing", away: 50 }
  const ends = Array.from({ length: draw.int(1, 3) }, (): End => {
    const crash = memory
      ? "kill"
      : draw.pick([
          "kill",
          "kill",
          "crash before commit",
          "crash after commit",
          "torn commit",
          "torn commit",
          "torn checkpoint",
          "fsync fails",
        ] as const)
    return {
      at: draw.real(0, faultsUntil),
      how: draw.chance(0.25) ? "stop" : crash,
      steps: draw.int(0, 60),
      change: draw.chance(0.5) ? "nothing" : draw.pick(["add", "remove", "remove", "rename", "return"] as const),
      away: draw.pick([0, 50, 1_500]),
    }
  }).sort((a, b) => a.at - b.at)
  return {
    seed,
    burst,
    memory,
    sinks,
    routes: burst
      ? [{ plan: routes[0], to: places }]
      : Array.from({ length: draw.int(1, 4) }, () => ({
          plan: draw.pick(routes),
          to: places.filter(() => draw.chance(0.6)),
        })),
    own: draw.chance(0.5) ? draw.pick([0, ...places]) : undefined,
    ends: burst ? [kill] : ends,
    reloads: burst ? [] : drawReloads(seed, faultsUntil),
    faultsUntil,
    events: burst ? draw.int(1_800, 2_500) : draw.int(15, 80),
    badDisk: burst
      ? [{ from: scene.diskFails, until: scene.faultsUntil, fault: "busy", share: 1 }]
      : draw.chance(0.25)
        ? [0, 1].map(() => {
            const from = draw.real(0, faultsUntil)
            return {
              from,
              until: from + draw.real(50, 1_500),
              share: 0.5,
              fault: draw.pick(["disk full", "busy"] as const),
            }
          })
        : [],
    jumps: draw.chance(0.3)
      ? [0, 1].map(() => ({ at: draw.real(0, faultsUntil), by: draw.pick([hour, -hour, 10 * year, -10 * year]) }))
      : [],
    journal: {
      retention: draw.pick([500, 5_000, 7 * 24 * hour]),
      maxSize: Math.max(draw.pick([900_000, 2_000_000, 1024 ** 3]), strains(seed) ? 1024 ** 3 : 0),
      duplicatesAge: draw.pick([2_000, 60_000, 24 * hour]),
    },
  }
}
