/** What relays on one journal know of each other: for `status`. */
import type { Effect } from "effect"

/** A lane's counts in a stream. */
export interface LaneCounts {
  readonly backlog: number
  readonly retrying: number
  readonly deadLetters: number
}

/** What the owner of a stream says of it. */
export interface StreamReport {
  readonly lanes: Readonly<Record<string, LaneCounts>>
}

/** What a relay says of a sink of its config. */
export interface LaneReport {
  readonly name: string
  readonly type: string
  readonly condition: "running" | "waiting" | "misconfigured" | "paused" | "blocked" | "failed"
  readonly message: string
}

/** Who a relay is, for the others. */
export interface Introduction {
  readonly version: string
  /** Tells configs apart; relays with the same one have the same. */
  readonly configHash: string
  /** Of its admin API. */
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
  /** Of its admin API. */
  readonly address: string
  /** Milliseconds since its last sign of life was seen. */
  readonly age: number
  readonly lanes: ReadonlyArray<LaneReport>
}

export interface StreamStatus {
  readonly id: number
  /** The relay that delivers it; absent between two. */
  readonly owner?: string
  /** Many relays append to it. */
  readonly isShared: boolean
  /** Events in all lanes, over the sinks: those that wait in it. */
  readonly lanes: Readonly<Record<string, LaneCounts>>
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
