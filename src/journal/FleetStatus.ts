/** The knowledge that relays on one journal have of each other, for `status`. */
import type { Effect } from "effect"

/** Milliseconds: the others take over the streams of a relay that has given no sign of life for as long. */
export const takeoverAfter = 6_000

/** A lane's counts in a stream. */
export interface LaneCounts {
  readonly backlog: number
  readonly retrying: number
  readonly deadLetters: number
}

/** The report of a stream by its owner. */
export interface StreamReport {
  readonly lanes: Readonly<Record<string, LaneCounts>>
  /** Events that were appended since it began, and those of them that its log still has. */
  readonly accepted: number
  readonly kept: number
  /** Bytes of its rows. */
  readonly bytes: number
}

/** The conditions of a sink that a relay has in its config. */
export const reportedConditions = [
  "running",
  "waiting",
  "misconfigured",
  "paused",
  "blocked",
  "stalled",
  "failed",
] as const

/** The report of a sink by a relay that has it in its config. */
export interface LaneReport {
  readonly name: string
  readonly type: string
  readonly condition: (typeof reportedConditions)[number]
  readonly message: string
  /** Epoch milliseconds of the oldest event that is not settled in the relay's streams; 0 when there is none. */
  readonly oldestAt: number
}

/** A relay's identity, for the others. */
export interface Introduction {
  readonly version: string
  /** Tells configs apart; relays with the same one have the same. */
  readonly configHash: string
  /** The address of its admin API. */
  readonly address: string
  readonly lanes: ReadonlyArray<LaneReport>
}

export interface MemberStatus {
  readonly name: string
  /** The relay that was asked. */
  readonly isSelf: boolean
  readonly version: string
  /** Tells configs apart; relays with the same one have the same. */
  readonly configHash: string
  /** The address of its admin API. */
  readonly address: string
  /** Milliseconds since its last sign of life was seen. */
  readonly age: number
  readonly lanes: ReadonlyArray<LaneReport>
}

/** The fleet's knowledge of a stream: for another relay's stream, as its owner reported last. */
export interface StreamStatus extends StreamReport {
  readonly id: number
  /** The relay that delivers it; absent between two. */
  readonly owner?: string
  /** Many relays append to it. */
  readonly isShared: boolean
  /** Milliseconds for which no live relay has had it; absent where one has. */
  readonly unownedFor?: number
}

/** The relays on a journal. */
export interface Fleet {
  readonly status: Effect.Effect<FleetStatus>
  /** Says who this relay is: asked anew at each sign of life. */
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
  /** Milliseconds since this relay's last sign of life was sent. */
  readonly beatAge: number
}
