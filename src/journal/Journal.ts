/**
 * The journal: an append-only log with a cursor per sink. Ingest appends to it, and lanes read and settle. The
 * operations for operators are in `Archive.ts`.
 *
 * **Guarantee.** When `append` succeeds, the event is durable. It stays readable until every lane that it was
 * routed to has passed it. If an event must be retried or becomes a dead letter, the `settle` that moves the
 * cursor past it also copies it out of the log. So pruning never removes an undelivered event.
 *
 * The core is `append`, `read` and `settle`. `journalContract` in `test/contract` defines what every journal
 * must do.
 *
 * **Gotcha.** Sequences of a stream have no gaps. The first stream's begin at 1. A failed fsync is final: every
 * later call fails with `JournalBroken`, and the process must end.
 */
import { Context, type Effect, type Exit, type SubscriptionRef } from "effect"
import type { Entry, Event } from "../event/Event.ts"
import type { JournalBroken, JournalError } from "./JournalError.ts"
import type { LaneInfo, OpenedLane, RetryEntries, Returned } from "./LaneInfo.ts"
import type { RefusedSettlement, Settlement } from "./Settlement.ts"

export type { Attempt } from "./DeliveryStatus.ts"
export * from "./JournalError.ts"
export type * from "./LaneInfo.ts"
export type * from "./Settlement.ts"

export interface OpenOptions {
  /** The sink's former name. That lane is moved into this one. If a crash interrupted the move, it is completed. */
  readonly renamedFrom?: string | undefined
  /**
   * Reports whether the config has a sink of this name. If no sink claims a renamed lane, it gets its former
   * name back.
   */
  readonly isConfigured?: (name: string) => boolean
  /** True if only one relay may send its events, because it keeps an order, collects digests, or has a rate limit. */
  readonly exclusive?: boolean
}

/** A sink that receives events. Its lane may still have to be opened or renamed. */
export interface KnownSink extends Pick<OpenOptions, "renamedFrom" | "exclusive"> {
  readonly name: string
}

/** A stream, as its lanes use it. */
export interface Log {
  /**
   * Returns entries above `after`, ascending: at most `limit`, and at most some megabytes. It is empty at the
   * head, and doesn't wait. Recent entries come from memory, until each `reader` that keeps up has read them.
   * Old entries may be left out if no lane waits for them.
   */
  read(after: number, limit: number, reader?: string): Effect.Effect<ReadonlyArray<Entry>, JournalError>
  /**
   * Returns the end of the damaged events directly above `after`. Returns `after` if the next event can be
   * read, or isn't there yet. A lane skips damaged events; otherwise, at the end of the log, it would read the
   * same place forever.
   */
  pastLost(after: number): Effect.Effect<number, JournalError>
  /**
   * Makes the progress of lanes durable in one commit. Returns settlements that can't be stored, which fail
   * alone. If it fails with `JournalFenced`, none is stored, now or later.
   */
  settle(settlements: ReadonlyArray<Settlement>): Effect.Effect<ReadonlyArray<RefusedSettlement>, JournalError>
  /** The highest durable sequence. */
  readonly head: Effect.Effect<number>
  /**
   * Waits until an event above `after` is durable. With a lane, it may wait for an event of that lane. Returns
   * a sequence: no event above `after` and up to that sequence is for the lane. It is `after` if the journal
   * can't tell.
   */
  awaitBeyond(after: number, lane?: string): Effect.Effect<number>
  /** Lanes that have pending events or dead letters, or are paused. */
  readonly holding: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
  /** All lanes, also those without a sink. */
  readonly lanes: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
  /** Creates lanes at the head, all in one commit. Existing lanes are left unchanged. */
  createLanes(names: ReadonlyArray<string>): Effect.Effect<void, JournalError>
  /** Opens a lane at its cursor, or at the head if it is new. */
  openLane(name: string, options?: OpenOptions): Effect.Effect<OpenedLane, JournalError>
  /**
   * Refuses appends while the lane's backlog is at `max`, or its dead letters and waiting events take
   * `maxBytes`. `undefined` means no limit.
   */
  limitBacklog(lane: string, max: number | undefined, maxBytes?: number): Effect.Effect<void>
  /** Returns some hundreds of the oldest replayed dead letters that the lane has not taken up yet. */
  returned(lane: string): Effect.Effect<ReadonlyArray<Returned>, JournalError>
  /** Returns waiting retries with their bytes: some megabytes of them, and at least one. */
  readRetries(lane: string, sequences: ReadonlyArray<number>): Effect.Effect<RetryEntries, JournalError>
  /** Returns false while another relay may have taken the stream. Then no attempt may start or continue. */
  mayStart(): boolean
}

/**
 * The streams that a relay owns. It writes the first. The value is replaced when a stream is
 * taken or lost.
 */
export type Streams = SubscriptionRef.SubscriptionRef<ReadonlyArray<Log>>

/** The result of an `append`. */
export type Appended = "appended" | "duplicate"

/** The result of an `append`, or why the event was not stored. */
export type AppendExit = Exit.Exit<Appended, JournalError>

/** The settlements that failed alone. */
export type SettleExit = Exit.Exit<ReadonlyArray<RefusedSettlement>, JournalError>

/** The operations that ingest and delivery need of a journal. */
export class Journal extends Context.Service<
  Journal,
  /** The stream that this relay writes. `lanes` are the lanes of all streams. */
  Log & {
    /**
     * Succeeds when the event is durable. For a duplicate, that is when the earlier event is durable. One commit serves
     * all callers.
     */
    append(event: Event, sinks: ReadonlyArray<string>): Effect.Effect<Appended, JournalError>
    /**
     * Appends without a fiber, for the hot path. Returns an exit if it has the result immediately (a refusal,
     * an old duplicate). Otherwise it returns a promise that all events of one commit share, so it may report a
     * duplicate as appended. The promise never rejects.
     */
    appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit>
    /**
     * Returns why an event wasn't stored although its commit was. Absent if a commit always stores all of its
     * events or none.
     */
    readonly refusalOf?: (event: Event) => AppendExit | undefined
    /** The streams that this relay delivers; absent if there is only this one. */
    readonly streams?: Streams
    /**
     * Announces the sinks of events that will be appended. Call it before the first append. Absent if appends don't
     * depend on it.
     */
    readonly knowSinks?: (sinks: ReadonlyArray<KnownSink>) => void
    /** Never succeeds, and fails once the journal is broken: race the process against it. */
    readonly broken: Effect.Effect<never, JournalBroken>
  }
>()("relay/journal/Journal") {}
