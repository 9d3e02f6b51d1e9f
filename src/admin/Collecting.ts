/**
 * Tells events that a digest collects from events that wait for another attempt:
 * a lane that sends digests keeps both in its retry queue, and counts them together.
 */
import type { RelayConfig } from "../config/Config.ts"
import type { LaneCondition } from "../delivery/Lanes.ts"
import type { DeliveryStatus } from "../journal/Archive.ts"

interface Lane {
  readonly condition: LaneCondition
  readonly oldestAt: number
  readonly lastFailure?: { readonly at: number } | undefined
}

export const sendsDigests = (sinks: RelayConfig["sinks"], name: string): boolean =>
  sinks.some((sink) => sink.name === name && sink.digest !== undefined)

/** Whether all that a lane of digests has queued is collected: no attempt has failed since its oldest event came. */
export const isCollecting = ({ condition, oldestAt, lastFailure }: Lane): boolean =>
  (condition === "running" || condition === "paused") && (lastFailure === undefined || lastFailure.at < oldestAt)

/** Whether an event is in a digest that no attempt was made to send. */
export const isCollected = ({ sink, outcome, attempts }: DeliveryStatus, sinks: RelayConfig["sinks"]): boolean =>
  outcome === "retrying" && attempts.length === 0 && sendsDigests(sinks, sink)
