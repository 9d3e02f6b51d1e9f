/** The state of a sink, combined from its lanes in all streams that the relay owns. */
import { Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import type { LaneInfo } from "../journal/Journal.ts"
import { AttemptStats } from "./lane/InFlight.ts"
import type { Lane } from "./lane/Lane.ts"
import type { Condition } from "./lane/LaneState.ts"

/** Worst first. If a sink's lanes differ, operators see the worst. */
export const laneConditions = [
  "failed",
  "stalled",
  "blocked",
  "misconfigured",
  "waiting",
  "paused",
  "orphaned",
  "running",
] as const satisfies ReadonlyArray<Condition | "orphaned">

/** `orphaned`: its sink was removed or renamed in the config. */
export type LaneCondition = (typeof laneConditions)[number]

/** The part of a sink's state that the admin API shows as it is. */
export const LaneFacts = Schema.Struct({
  /** The sink's name. */
  name: Schema.String,
  /** The sink's type; empty for an orphaned lane. */
  type: Schema.String,
  condition: Schema.Literals(laneConditions),
  /** The reason for the condition and what to do about it; empty while the lane runs. */
  message: Schema.String,
  /** Events routed to the sink and not settled, including those that wait for a retry or a digest. */
  backlog: Schema.Int,
  /** Events that wait for another attempt. After a digest failed, it may include events of the next one. */
  retrying: Schema.Int,
  deadLetters: Schema.Int,
  /** When the oldest unsettled event was received, or 0 if there is none. */
  oldestAt: EpochMillis,
  /** When its pause ends by itself; absent while it is not paused, or has no end. */
  pausedUntil: Schema.optionalKey(EpochMillis),
  /** The fate of the events received during the pause; absent if they are delivered as usual. */
  pausedThen: Schema.optionalKey(Schema.Literals(["digest", "drop"])),
})

/** The state of a sink's lanes over all streams, and the counts that the journal has for them. */
export interface LaneStatus extends Schema.Schema.Type<typeof LaneFacts> {
  /**
   * The sequence up to which every event is settled, retrying or dead. If there are several streams, this is the cursor
   * of one of them.
   */
  readonly cursor: number
  /** Epoch milliseconds of the next attempt, if the lane waits for a retry or for the sink; otherwise 0. */
  readonly nextAttemptAt: number
  /** The last failed attempt since the start; `at` is in epoch milliseconds. */
  readonly lastFailure: { readonly at: number; readonly message: string } | undefined
  /** Maximum events that a crash can send twice. */
  readonly duplicateBound: number
  /** Attempts by outcome since the start: `delivered`, or a reason's tag. */
  readonly attempts: Readonly<Record<string, number>>
  /** The number of times that the sink was closed because of a bug in its client library. */
  readonly bugs: number
  /** Attempts by duration: a count for each of `durationBuckets`, a count above them, and the sum in seconds. */
  readonly durations: { readonly counts: ReadonlyArray<number>; readonly sum: number }
  /** Delivered events by the time since their acceptance, by `latencyBuckets` and in seconds, like `durations`. */
  readonly latencies: { readonly counts: ReadonlyArray<number>; readonly sum: number }
}

const noAttempts = new AttemptStats()

const sum = (lanes: ReadonlyArray<Lane>, of: (lane: Lane) => number): number =>
  lanes.reduce((total, lane) => total + of(lane), 0)

/** Returns the earliest time, ignoring zeros. Returns 0 if there is no other. */
export const earliest = (times: ReadonlyArray<number>): number => {
  const known = times.filter((time) => time > 0)
  return known.length === 0 ? 0 : Math.min(...known)
}

/** The state of a sink in the memory of its lanes. */
export type SinkReport = Pick<LaneStatus, "name" | "type" | "condition" | "message" | "oldestAt">

export const reportOf = (name: string, lanes: ReadonlyArray<Lane>): SinkReport => {
  const condition =
    laneConditions.find((condition) => lanes.some(({ state }) => state.condition === condition)) ?? "orphaned"
  return {
    name,
    type: lanes[0]?.config.type ?? "",
    condition,
    message:
      lanes.find(({ state }) => state.condition === condition)?.state.message ??
      `no sink in the config has this name: \`relay lanes move ${name} TO\` or \`relay lanes drop ${name}\``,
    oldestAt: earliest(lanes.map(({ oldestAt }) => oldestAt)),
  }
}

/**
 * Combines the journal's counts with the running lanes. An orphaned lane has no
 * running lanes, so the caller passes the age of its oldest event.
 */
export const statusOf = (info: LaneInfo, lanes: ReadonlyArray<Lane>, orphanedSince = 0): LaneStatus => {
  const { name, backlog, deadLetters, paused, mute } = info
  const [first] = lanes
  const { outcomes: attempts, bugs, durations, latencies } = first?.attempts ?? noAttempts
  return {
    ...reportOf(name, lanes),
    ...(first === undefined && { oldestAt: orphanedSince }),
    backlog,
    retrying: first === undefined ? info.retrying : sum(lanes, ({ progress }) => progress.retries.size),
    deadLetters,
    cursor: Math.max(first?.progress.cursor ?? 0, info.cursor.sequence),
    ...(typeof paused === "number" && { pausedUntil: paused }),
    ...(paused !== false && mute !== undefined && { pausedThen: mute.ending }),
    nextAttemptAt: earliest(lanes.map(({ nextAttemptAt }) => nextAttemptAt)),
    lastFailure: first?.lastFailure,
    duplicateBound: sum(lanes, ({ duplicateBound }) => duplicateBound),
    attempts,
    bugs,
    durations,
    latencies,
  }
}
