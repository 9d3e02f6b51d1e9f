/** The state of a sink's lanes: the lanes of all streams that the relay owns as one. */
import type { LaneInfo } from "../journal/Journal.ts"
import { AttemptStats } from "./lane/AttemptStats.ts"
import type { Lane } from "./lane/Lane.ts"
import type { Condition } from "./lane/LaneState.ts"

/** The worst first: where a sink's lanes differ, this is what an operator is told. */
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

/** The state of a sink's lanes over all streams, and the counts that the journal has for them. */
export interface LaneStatus {
  /** The sink's name. */
  readonly name: string
  /** The sink's type; empty for an orphaned lane. */
  readonly type: string
  readonly condition: LaneCondition
  /** Why, and what to do; empty while it runs. */
  readonly message: string
  /** Events routed to it and not settled, those that wait for a retry included. */
  readonly backlog: number
  readonly retrying: number
  readonly deadLetters: number
  /** The sequence up to which everything is settled, retrying or dead; of several streams, that of one. */
  readonly cursor: number
  /** Epoch milliseconds of the oldest event that is not settled; 0 when there is none. */
  readonly oldestAt: number
  /** Epoch milliseconds of the next attempt, while events or the sink wait for their time; 0 when none does. */
  readonly nextAttemptAt: number
  /** The last attempt that failed since the start, at epoch milliseconds. */
  readonly lastFailure: { readonly at: number; readonly message: string } | undefined
  /** The most events that a crash at any moment sends twice. */
  readonly duplicateBound: number
  /** Attempts by outcome since the start: `delivered`, or a reason's tag. */
  readonly attempts: Readonly<Record<string, number>>
  /** How often the sink was closed for a bug in its client library. */
  readonly bugs: number
  /** Attempts by duration: a count for each of `durationBuckets` and one above, and their sum in seconds. */
  readonly durations: { readonly counts: ReadonlyArray<number>; readonly sum: number }
}

const noAttempts = new AttemptStats()

const sum = (lanes: ReadonlyArray<Lane>, of: (lane: Lane) => number): number =>
  lanes.reduce((total, lane) => total + of(lane), 0)

/** The earliest of times that are known; 0 is none. */
export const earliest = (times: ReadonlyArray<number>): number => {
  const known = times.filter((time) => time > 0)
  return known.length === 0 ? 0 : Math.min(...known)
}

/** From what the journal knows, and the lanes that run: none of an orphaned lane, whose age is given. */
export const statusOf = (info: LaneInfo, lanes: ReadonlyArray<Lane>, orphanedSince = 0): LaneStatus => {
  const { name, backlog, deadLetters } = info
  const [first] = lanes
  const condition = laneConditions.find((one) => lanes.some(({ state }) => state.condition === one)) ?? "orphaned"
  const { outcomes: attempts, bugs, durations } = first?.attempts ?? noAttempts
  return {
    name,
    type: first?.config.type ?? "",
    condition,
    message:
      lanes.find(({ state }) => state.condition === condition)?.state.message ??
      `no sink in the config has this name: \`relay lanes move ${name} TO\` or \`relay lanes drop ${name}\``,
    backlog,
    retrying: first === undefined ? info.retrying : sum(lanes, ({ progress }) => progress.retries.size),
    deadLetters,
    cursor: Math.max(first?.progress.cursor ?? 0, info.cursor.sequence),
    oldestAt: first === undefined ? orphanedSince : earliest(lanes.map(({ oldestAt }) => oldestAt)),
    nextAttemptAt: earliest(lanes.map(({ nextAttemptAt }) => nextAttemptAt)),
    lastFailure: first?.lastFailure,
    duplicateBound: sum(lanes, ({ duplicateBound }) => duplicateBound),
    attempts,
    bugs,
    durations,
  }
}
