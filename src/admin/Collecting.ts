/**
 * Distinguishes events that a digest collects from events that wait for another
 * attempt. A lane that sends digests keeps and counts both in its retry queue.
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

/**
 * Reports whether all queued events of a lane with digests are being collected,
 * because no attempt has failed since its oldest event arrived.
 */
export const isCollecting = ({ condition, oldestAt, lastFailure }: Lane): boolean =>
  (condition === "running" || condition === "paused") && (lastFailure === undefined || lastFailure.at < oldestAt)

/** Reports whether an event is in a digest that was not attempted yet. */
export const isCollected = ({ sink, outcome, attempts }: DeliveryStatus, sinks: RelayConfig["sinks"]): boolean =>
  outcome === "retrying" && attempts.length === 0 && sendsDigests(sinks, sink)
