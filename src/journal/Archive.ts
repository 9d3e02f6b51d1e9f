/**
 * The archive: what operators ask of the events that the journal keeps, and what
 * they change about them. The same journal's `Journal` appends and delivers.
 *
 * **Guarantee.** An operation is one transaction, or a row of them that may end
 * early: then what was done is done, and the rest is as it was. It records who
 * asked for it (`Operator.ts`).
 *
 * `journalContract` and `eventsContract` in `test/contract` say what every
 * archive must do.
 */
import { Context, type Effect } from "effect"
import type { Event } from "../event/Event.ts"
import type { AuditLog } from "./AuditLog.ts"
import type { EventPage, EventQuery } from "./EventQuery.ts"
import type { Fleet } from "./FleetStatus.ts"
import type { JournalError } from "./JournalError.ts"
import type { JournalStatus } from "./JournalStatus.ts"
import type { DeadLetterQuery, LaneInfo, StoredDeadLetter } from "./LaneInfo.ts"
import type { Attempt } from "./Settlement.ts"

export type * from "./EventQuery.ts"
export type * from "./JournalStatus.ts"

/** An entry to append again, for these sinks. Whether it was routed to them does not matter. */
export interface ReplayTarget {
  readonly sequence: number
  readonly sinks: ReadonlyArray<string>
}

/** How far a replay came. */
export interface ReplayCounts {
  /** The number of targets that are done, from the first one on. */
  readonly done: number
  /** The targets that are no longer kept, were erased, or can't be read: nothing was appended. */
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

/** How a part of an erasure went. */
export interface ErasedEvents {
  /** Erased now. */
  readonly erased: ReadonlyArray<number>
  /** Not erased, because these lanes have yet to deliver them. */
  readonly undelivered: ReadonlyArray<{ readonly sequence: number; readonly lanes: ReadonlyArray<string> }>
}

/** A text of this relay that its next start reads. It is replaced whole, and a failure costs no more than the text. */
export interface KeptText {
  /** `undefined` where there is none, or none that can be read. */
  readonly read: Effect.Effect<string | undefined>
  replace(text: string): Effect.Effect<void>
}

/** The operations by which operators search a journal and change what it holds. */
export class Archive extends Context.Service<
  Archive,
  {
    /** Health, size and counters. It is in memory: it is known while a server does not answer. */
    readonly status: Effect.Effect<JournalStatus>
    /** An operator has seen the alarm: the journal is no longer red. */
    readonly acknowledge: Effect.Effect<void, JournalError>
    /** This relay's counts of the last hour. */
    readonly hour: KeptText
    /** The operations by which operators changed something. */
    readonly audit: AuditLog
    /** The relays on this journal; absent where there can be but one. */
    readonly fleet?: Fleet

    /** All lanes over all streams, by name, also those without a sink. */
    readonly lanes: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
    /** Stores that an operator paused a lane, or resumed it: nothing else stops or starts it. */
    setPaused(lane: string, paused: boolean): Effect.Effect<void, JournalError>
    /**
     * Moves everything that `from` holds to `to`: pending events are appended
     * again for `to`, retries and dead letters change lanes. Succeeds with the
     * number of events. Fails where there is no lane `from`.
     */
    moveLane(from: string, to: string): Effect.Effect<number, JournalError>
    /** Removes a lane with its pending events and dead letters; succeeds with the number of events that were given up. */
    dropLane(name: string): Effect.Effect<number, JournalError>

    /** Dead letters, newest first: at most `limit` and at most some megabytes; empty at the end. */
    deadLetters(query: DeadLetterQuery): Effect.Effect<ReadonlyArray<StoredDeadLetter>, JournalError>
    /**
     * Makes retries of dead letters, which their lanes take up oldest first
     * (`returned` of `StreamLog.ts`). Succeeds with their number. Those of the
     * quarantine are routed by `reroute`: they are appended as deliveries, or stay.
     * Ids that are not dead letters any more are ignored.
     */
    replayDeadLetters(ids: ReadonlyArray<string>, reroute?: Reroute): Effect.Effect<number, JournalError>
    /** Removes dead letters for good, in slices. Succeeds with the number of those that there were. */
    dropDeadLetters(ids: ReadonlyArray<string>): Effect.Effect<number, JournalError>

    /**
     * Events that are kept, newest first: those of the log, then retries and
     * dead letters that the log was pruned of; oldest first for a query with
     * `after`. A search ends after a moment and says how far it came: a page may
     * be empty although there are more. Fails where a place of the query is none.
     */
    events(query: EventQuery): Effect.Effect<EventPage, JournalError>
    /** The end of the events that are kept now: a query's `through`. */
    readonly end: Effect.Effect<string, JournalError>
    /** Appends entries again as replays, in one commit: as many of the first as have a megabyte, at least one. Ascending targets are read quickest. */
    replay(targets: ReadonlyArray<ReplayTarget>): Effect.Effect<ReplayCounts, JournalError>
    /**
     * Overwrites bodies, answers and signatures of events, a few hundred at a
     * time, wherever they are kept; ids, types, times, outcomes and what makes
     * the next delivery a duplicate stay. An event that a lane has yet to
     * deliver is left as it is, unless `giveUp` ends it there first, as dropped:
     * then no such lane may run. Each event is whole or erased at any time.
     */
    erase(sequences: ReadonlyArray<number>, giveUp: boolean): Effect.Effect<ErasedEvents, JournalError>
    /** Has the storage overwrite what `erase` has replaced, as far as it can; succeeds with what it does not reach, in sentences. */
    readonly scrub: Effect.Effect<ReadonlyArray<string>, JournalError>
    /**
     * Imports undelivered events of the journal with this id: appended for just
     * those lanes, dead letters as dead letters. Each event once per lane,
     * however often it is imported; a few hundred at a time.
     */
    import(journal: string, events: ReadonlyArray<UndeliveredEvent>): Effect.Effect<ImportCounts, JournalError>
  }
>()("relay/journal/Archive") {}
