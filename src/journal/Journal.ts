/**
 * The journal: an append-only log with a cursor per sink, and what an operator
 * asks of it.
 *
 * **Guarantee.** When `append` succeeds the event is durable, and it stays
 * readable until every lane that it was routed to has passed it. An event that
 * waits for a retry or becomes a dead letter is copied out of the log by the
 * same `settle` that moves the cursor past it, so pruning never removes what is
 * still to be delivered.
 *
 * The core is `append`, `read` and `settle`. `journalContract` in
 * `test/contract` says what every journal must do.
 *
 * **Gotcha.** Sequences of a stream have no gaps; those of the first begin at 1. A
 * failed fsync is final: every later call fails with `JournalBroken`, and the process must end.
 */
import { Context, type Effect, type Exit } from "effect"
import type { Event } from "../event/Event.ts"
import type { EventPage, EventQuery } from "./EventQuery.ts"
import type { Fleet } from "./FleetStatus.ts"
import type { JournalBroken, JournalError } from "./JournalError.ts"
import type { DeadLetterQuery, StoredDeadLetter } from "./LaneInfo.ts"
import type { Attempt, RefusedSettlement } from "./Settlement.ts"
import type { KnownSink, Log, Streams } from "./StreamLog.ts"

export type * from "./EventQuery.ts"
export * from "./JournalError.ts"
export type * from "./LaneInfo.ts"
export type * from "./Settlement.ts"
export type * from "./StreamLog.ts"

/** The result of an `append`. */
export type Appended = "appended" | "duplicate"

export type AppendExit = Exit.Exit<Appended, JournalError>

/** The settlements that failed alone. */
export type SettleExit = Exit.Exit<ReadonlyArray<RefusedSettlement>, JournalError>

/** An entry to append again, for these sinks. Whether it was routed to them does not matter. */
export interface ReplayTarget {
  readonly sequence: number
  readonly sinks: ReadonlyArray<string>
}

export interface ReplayCounts {
  /** The number of targets that are done, from the first one on. */
  readonly done: number
  /** The targets that are no longer kept, or can't be read: nothing was appended. */
  readonly gone: ReadonlyArray<number>
}

/** Routes a quarantined event again: the event with its sinks, or `undefined` while it still can't be routed. */
export type Reroute = (event: Event) => { readonly event: Event; readonly sinks: ReadonlyArray<string> } | undefined

/** An undelivered event of another journal, and the lanes that it waits for. */
export interface UndeliveredEvent {
  /** Its place in that journal. */
  readonly sequence: number
  readonly event: Event
  /** It was a replay: it is imported although its event was received again since. */
  readonly replayed: boolean
  readonly pending: ReadonlyArray<string>
  /** Set when it is a dead letter of these lanes. */
  readonly dead?: { readonly at: number; readonly attempts: ReadonlyArray<Attempt> }
}

/** The counts of an import: events, each counted once per lane. */
export interface ImportCounts {
  readonly pending: number
  readonly deadLetters: number
  /** Imported before, or received again since. */
  readonly known: number
}

export interface JournalStatus {
  /** `unavailable` while its server does not answer; `red` until a person acknowledges it: events were lost, or a file was set aside. */
  readonly health: "starting" | "ok" | "unavailable" | "full" | "broken" | "red"
  /** The problem and what to do about it; empty when there is none. */
  readonly message: string
  /** Losses that nobody has acknowledged, one per line, and when the first was found (epoch milliseconds). */
  readonly alarm: { readonly lines: ReadonlyArray<string>; readonly since: number }
  /** Entries that were appended so far, in all streams: the highest sequence where there is one. */
  readonly head: number
  /** `head + 1` less the events that are kept: the lowest sequence where there is one stream. */
  readonly first: number
  readonly usedBytes: number
  readonly maxBytes: number
  /** The highest mark, in percent of `maxBytes`, that `usedBytes` has passed. */
  readonly filling: 0 | 50 | 80 | 95
  readonly counters: JournalCounters
  readonly engine: EngineStatus
}

/** Figures that only some engines have; `status` shows those that are there. */
export interface EngineStatus {
  readonly path?: string
  readonly walBytes?: number
  readonly freeDiskBytes?: number
  /** Epoch milliseconds at which its server answered last; absent while it answers. */
  readonly answeredAt?: number
}

/** Since the start; all of them only grow. */
export interface JournalCounters {
  readonly appended: number
  readonly duplicates: number
  /** Same webhook and event id as an earlier event, different bytes: kept as an event of its own. */
  readonly altered: number
  readonly commits: number
  /** Time spent in commits, in milliseconds. */
  readonly commitMillis: number
}

/** The operations of an operator, on all that the journal holds. */
export interface Archive {
  setPaused(lane: string, paused: boolean): Effect.Effect<void, JournalError>
  /**
   * Moves everything that `from` holds to `to`: pending events are appended
   * again for `to`, retries and dead letters change lanes. How many.
   */
  moveLane(from: string, to: string): Effect.Effect<number, JournalError>
  /** Removes a lane with its pending events and dead letters; how many events were given up. */
  dropLane(name: string): Effect.Effect<number, JournalError>

  /** At most `limit` and at most some megabytes; empty at the end. */
  deadLetters(query: DeadLetterQuery): Effect.Effect<ReadonlyArray<StoredDeadLetter>, JournalError>
  /**
   * Appends dead letters again for their lane and removes them, in one
   * transaction; how many. Those of the quarantine are routed by `reroute`:
   * they are appended as deliveries, not as replays, or stay.
   */
  replayDeadLetters(ids: ReadonlyArray<string>, reroute?: Reroute): Effect.Effect<number, JournalError>
  dropDeadLetters(ids: ReadonlyArray<string>): Effect.Effect<number, JournalError>
  /** Appends entries again as replays, in one commit: as many of the first as have a megabyte, at least one. Ascending targets are read quickest. */
  replay(targets: ReadonlyArray<ReplayTarget>): Effect.Effect<ReplayCounts, JournalError>

  /**
   * Imports undelivered events of the journal with this id: appended for just
   * those lanes, dead letters as dead letters. Each event once per lane,
   * however often it is imported; a few hundred at a time.
   */
  import(journal: string, events: ReadonlyArray<UndeliveredEvent>): Effect.Effect<ImportCounts, JournalError>

  /**
   * Events that are kept, newest first: those of the log, then retries and
   * dead letters that the log was pruned of; oldest first for a query with
   * `after`. A search ends after a moment and says how far it came: a page may
   * be empty although there are more.
   */
  events(query: EventQuery): Effect.Effect<EventPage, JournalError>
  /** The end of the events that are kept now: a query's `through`. */
  readonly end: Effect.Effect<string, JournalError>

  readonly status: Effect.Effect<JournalStatus>
  /** A person has seen the alarm. */
  readonly acknowledge: Effect.Effect<void, JournalError>
}

/** The stream that this relay writes, and the archive. */
export class Journal extends Context.Service<
  Journal,
  Log &
    Archive & {
      /** Succeeds when the event, or the one that it is a duplicate of, is durable. One commit serves all that wait for it. */
      append(event: Event, sinks: ReadonlyArray<string>): Effect.Effect<Appended, JournalError>
      /**
       * Appends without a fiber, for the hot path: an exit when it is known at
       * once (a refusal, an old duplicate), else the promise that all events of
       * one commit share, so that it may call a duplicate appended. It never
       * rejects.
       */
      appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit>
      /** Absent where there is but this one. */
      readonly streams?: Streams
      /** Says which sinks events will be routed to, before they are; absent where an append needs to know none. */
      readonly knowSinks?: (sinks: ReadonlyArray<KnownSink>) => void
      /** Absent where there can be but one relay. */
      readonly fleet?: Fleet
      /** Fails once the journal is broken and never succeeds: race the process against it. */
      readonly broken: Effect.Effect<never, JournalBroken>
    }
>()("relay/journal/Journal") {}
