/**
 * A stream: one log with the progress of the lanes over it.
 *
 * A journal is one stream, or several: then a relay writes one, and delivers all
 * that it owns.
 */
import type { Effect, SubscriptionRef } from "effect"
import type { Entry } from "../event/Entry.ts"
import type { JournalError } from "./JournalError.ts"
import type { LaneInfo, OpenedLane, RetryEntries, Returned } from "./LaneInfo.ts"
import type { RefusedSettlement, Settlement } from "./Settlement.ts"

/** How a lane is opened. */
export interface OpenOptions {
  /** The sink's former name: that lane is moved into this one. A move that a crash interrupted is completed. */
  readonly renamedFrom?: string | undefined
  /** Whether the config has a sink of this name. A lane that was renamed and that no sink claims gets its former name back. */
  readonly isConfigured?: (name: string) => boolean
  /** At most one relay may send its events: it keeps an order, collects digests, or has a rate limit. */
  readonly exclusive?: boolean
}

/** A sink that events are routed to. Its lane may yet be opened, or renamed. */
export interface KnownSink extends Pick<OpenOptions, "renamedFrom" | "exclusive"> {
  readonly name: string
}

/** A stream, as the lanes over it use it. */
export interface Log {
  /**
   * Entries above `after`, ascending, at most `limit` and at most some
   * megabytes; empty at the head, without waiting. Recent ones come from
   * memory, until each `reader` that keeps up has read them. Old ones that no
   * lane waits for may be left out.
   */
  read(after: number, limit: number, reader?: string): Effect.Effect<ReadonlyArray<Entry>, JournalError>
  /**
   * The end of the events above `after` that can't be read because they are damaged; `after` while the next can be read,
   * or is still to come. A lane passes over them: at the end of the log it would read the same place for ever.
   */
  pastLost(after: number): Effect.Effect<number, JournalError>
  /**
   * Makes lanes' progress durable, all in one commit; those that can't be
   * stored, which fail alone. With `JournalFenced` none is stored, now or later.
   */
  settle(settlements: ReadonlyArray<Settlement>): Effect.Effect<ReadonlyArray<RefusedSettlement>, JournalError>
  /** The highest sequence that is durable. */
  readonly head: Effect.Effect<number>
  /**
   * Waits until something above `after` is durable. With a lane, it may wait until
   * an event for that lane is. Returns a place: no event above `after` and up to it
   * is for the lane. The place is `after` if the journal can't tell.
   */
  awaitBeyond(after: number, lane?: string): Effect.Effect<number>
  /** Lanes that have pending events or dead letters, or are paused. */
  readonly holding: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
  /** All lanes, also those without a sink. */
  readonly lanes: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
  /** Creates lanes at the head, all in one commit. Those that exist stay as they are. */
  createLanes(names: ReadonlyArray<string>): Effect.Effect<void, JournalError>
  /** Opens a lane at its cursor, or at the head when it is new. */
  openLane(name: string, options?: OpenOptions): Effect.Effect<OpenedLane, JournalError>
  /**
   * Appends are refused while the lane's backlog is at `max`, or what it keeps takes `maxBytes`: its dead letters, and
   * events that wait. No bound when `undefined`.
   */
  limitBacklog(lane: string, max: number | undefined, maxBytes?: number): Effect.Effect<void>
  /** The oldest replayed dead letters that the lane has yet to take up, some hundreds of them. */
  returned(lane: string): Effect.Effect<ReadonlyArray<Returned>, JournalError>
  /** Events that wait for a retry, with their bytes: as many as fit into some megabytes, at least one. */
  readRetries(lane: string, sequences: ReadonlyArray<number>): Effect.Effect<RetryEntries, JournalError>
  /** False while another relay may have taken the stream: no attempt may start or go on. */
  mayStart(): boolean
}

/** The streams that a relay owns, the one that it writes first: replaced when one is taken or lost. */
export type Streams = SubscriptionRef.SubscriptionRef<ReadonlyArray<Log>>
