/** The relays' knowledge of each other, for `status`. */
import type { Effect } from "effect"

/** In milliseconds. Other relays take over the streams of a relay that has sent no heartbeat for this long. */
export const takeoverAfter = 6_000

export interface LaneCounts {
  readonly backlog: number
  readonly retrying: number
  readonly deadLetters: number
}

/** The report of a stream by its owner. */
export interface StreamReport {
  readonly lanes: Readonly<Record<string, LaneCounts>>
  /** Events appended since the stream began, and the number of them that its log still has. */
  readonly accepted: number
  readonly kept: number
  /** Bytes of its rows. */
  readonly bytes: number
}

/** The possible conditions of a sink in a relay's config. */
export const reportedConditions = [
  "running",
  "waiting",
  "misconfigured",
  "paused",
  "blocked",
  "stalled",
  "failed",
] as const

/** A relay's report of a sink in its config. */
export interface LaneReport {
  readonly name: string
  readonly type: string
  readonly condition: (typeof reportedConditions)[number]
  readonly message: string
  /** When the oldest unsettled event in the relay's streams was received, in epoch milliseconds; 0 if there is none. */
  readonly oldestAt: number
}

/** The types of the sinks in a config, by name. */
export type SinkTypes = Readonly<Record<string, string>>

/** A relay's description of itself for the others. */
export interface Introduction {
  readonly version: string
  /** A hash of the config: relays with the same config have the same. */
  readonly configHash: string
  readonly sinks: SinkTypes
  /** The address of its admin API. */
  readonly address: string
  /** The sinks that may not be idle. */
  readonly lanes: ReadonlyArray<LaneReport>
}

export interface MemberStatus {
  readonly name: string
  /** True for the relay that answers. */
  readonly isSelf: boolean
  readonly version: string
  /** A hash of the config: relays with the same config have the same. */
  readonly configHash: string
  /** The address of its admin API. */
  readonly address: string
  /** Milliseconds since its last heartbeat was seen. */
  readonly age: number
  readonly lanes: ReadonlyArray<LaneReport>
}

/** The fleet's knowledge of a stream. For another relay's stream it is the owner's last report. */
export interface StreamStatus extends StreamReport {
  readonly id: number
  /** The relay that delivers it; absent between two owners. */
  readonly owner?: string
  /** True if many relays append to it. */
  readonly isShared: boolean
  /** Milliseconds without a live owner; absent if it has one. */
  readonly unownedFor?: number
}

/** The relays on a journal. */
export interface Fleet {
  readonly status: Effect.Effect<FleetStatus>
  /** Sets this relay's description of itself, which each heartbeat asks for. */
  introduce(self: () => Introduction): Effect.Effect<void>
}

export interface FleetStatus {
  readonly members: ReadonlyArray<MemberStatus>
  readonly streams: ReadonlyArray<StreamStatus>
  /** Since the start of this relay. */
  readonly counters: { readonly takeovers: number; readonly fenced: number }
  /** Streams that this relay owns, and the bytes of their rows. */
  readonly owned: number
  readonly ownedBytes: number
  /** Milliseconds since this relay sent its last heartbeat. */
  readonly beatAge: number
}
