/**
 * The archive: operators' searches of a journal's events, and their changes to them. The same journal's
 * `Journal` appends and delivers.
 *
 * **Guarantee.** An operation is one transaction, or a series of transactions that may end early: the finished
 * ones are kept, and the rest is unchanged. It records who requested it (`JournalContext.ts`).
 *
 * `journalContract` and `eventsContract` in `test/contract` define what every archive must do.
 */
import { Context, type Effect } from "effect"
import type { Event } from "../event/Event.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import type { AuditLog } from "./AuditLog.ts"
import type { Attempt } from "./DeliveryStatus.ts"
import type { EventPage, EventQuery } from "./EventQuery.ts"
import type { Fleet } from "./FleetStatus.ts"
import type { JournalError } from "./JournalError.ts"
import type { DeadLetterQuery, LaneInfo, Mute, Paused, StoredAlert, StoredDeadLetter } from "./LaneInfo.ts"
import type { SearchIds } from "./stream/SearchIds.ts"

export type { DeliveryStatus } from "./DeliveryStatus.ts"
export type * from "./EventQuery.ts"

/** Percentages of a journal's maximum size. An operator gets a notice when its bytes exceed one. */
export const fillingMarks = [95, 80, 50] as const

/**
 * A journal's condition. Figures over all streams include other relays' streams, as those relays last reported
 * them.
 */
export interface JournalStatus {
  /**
   * `unavailable` while its server doesn't answer. `red` if events were lost or a file was moved aside, until
   * an operator acknowledges it.
   */
  readonly health: "starting" | "ok" | "unavailable" | "full" | "broken" | "red"
  /** The problem and how to solve it; empty if there is none. */
  readonly message: string
  /** Unacknowledged losses, one per line, and when the first was found, in epoch milliseconds. */
  readonly alarm: { readonly lines: ReadonlyArray<string>; readonly since: number }
  /** Number of entries appended to all streams. With one stream this is the highest sequence. */
  readonly head: number
  /** `head + 1` minus the number of events kept. With one stream this is the lowest sequence. */
  readonly first: number
  readonly usedBytes: number
  readonly maxBytes: number
  /** The highest mark that `usedBytes` has exceeded, in percent of `maxBytes`. */
  readonly filling: 0 | (typeof fillingMarks)[number]
  readonly counters: JournalCounters
  readonly engine: EngineStatus
}

/** Figures that only some engines have. `status` shows those that are present. */
interface EngineStatus {
  readonly path?: string
  readonly walBytes?: number
  readonly freeDiskBytes?: number
  /** When its server last answered, in epoch milliseconds; absent while it answers. */
  readonly answeredAt?: number
}

/** Counts since the start, which only grow. */
interface JournalCounters {
  readonly appended: number
  readonly duplicates: number
  /** Events with the webhook and id of an earlier event, but other bytes. Each is kept as an event of its own. */
  readonly altered: number
  readonly commits: number
  /** Time spent in commits, in milliseconds. */
  readonly commitMillis: number
}

/** An entry to append again for these sinks, whether it was routed to them or not. */
export interface ReplayTarget {
  readonly sequence: number
  readonly sinks: ReadonlyArray<string>
}

/** The progress of a replay. */
export interface ReplayCounts {
  /** The number of finished targets, counted from the first. */
  readonly done: number
  /** Targets that were skipped, because they are no longer kept, were erased, or can't be read. */
  readonly gone: ReadonlyArray<number>
}

/** Routes a quarantined event again. Returns the event with its sinks, or `undefined` if it still can't be routed. */
export type Reroute = (event: Event) => { readonly event: Event; readonly sinks: ReadonlyArray<string> } | undefined

/** An undelivered event of another journal, and the lanes that have not delivered it. */
export interface UndeliveredEvent {
  /** Its sequence in that journal. */
  readonly sequence: number
  readonly event: Event
  /** True if it was a replay. A replay is imported even if its event was received again since. */
  readonly replayed: boolean
  readonly pending: ReadonlyArray<string>
  /** Present if it is a dead letter of these lanes. */
  readonly dead?: { readonly at: number; readonly attempts: ReadonlyArray<Attempt> }
}

/** The counts of an import. Each event counts once per lane. */
export interface ImportCounts {
  readonly pending: number
  readonly deadLetters: number
  /** Events imported before, or received again since. */
  readonly known: number
}

/** The result of a part of an erasure. */
export interface ErasedEvents {
  readonly erased: ReadonlyArray<number>
  /** Events that weren't erased, because these lanes have not delivered them yet. */
  readonly undelivered: ReadonlyArray<{ readonly sequence: number; readonly lanes: ReadonlyArray<string> }>
}

/** A string of this relay that its next start reads. It is replaced as a whole. A failure loses only this string. */
export interface KeptText {
  /** The string, or `undefined` if there is none or it can't be read. */
  readonly read: Effect.Effect<string | undefined>
  replace(text: string): Effect.Effect<void>
}

/** The operations that operators use to search and change a journal's contents. */
export class Archive extends Context.Service<
  Archive,
  {
    /** Health, size and counters. They are in memory, so they are available even while a server doesn't answer. */
    readonly status: Effect.Effect<JournalStatus>
    /** Acknowledges the alarm: the journal is no longer red. */
    readonly acknowledge: Effect.Effect<void, JournalError>
    /** This relay's counts of the last hour. */
    readonly hour: KeptText
    /** Operators' changes. */
    readonly audit: AuditLog
    /** The relays on this journal; absent if there can be only one. */
    readonly fleet?: Fleet
    /** The places of objects' ids in a body. */
    readonly searchIds: SearchIds

    /** All lanes over all streams, by name, including those without a sink. */
    readonly lanes: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
    /** The alerts of all lanes over all streams, as they are stored. */
    readonly alerts: Effect.Effect<ReadonlyArray<StoredAlert & { readonly lane: string }>, JournalError>
    /** Stores that an operator paused or resumed a lane, and the rule for events received meanwhile. */
    setPaused(lane: string, paused: Paused, mute?: Mute): Effect.Effect<void, JournalError>
    /** Resumes a lane whose pause ends at `until`, and keeps its mute. If an operator has changed the pause, nothing happens. */
    endPause(lane: string, until: EpochMillis): Effect.Effect<void, JournalError>
    /**
     * Moves everything from the lane `from` to `to`: pending events are appended again for `to`; retries and dead
     * letters change lanes. Returns the number of events. Fails if the lane `from` doesn't exist.
     */
    moveLane(from: string, to: string): Effect.Effect<number, JournalError>
    /** Removes a lane with its pending events and dead letters. Returns the number of events dropped. */
    dropLane(name: string): Effect.Effect<number, JournalError>

    /** Returns dead letters, newest first: at most `limit`, and at most some megabytes. It is empty at the end. */
    deadLetters(query: DeadLetterQuery): Effect.Effect<ReadonlyArray<StoredDeadLetter>, JournalError>
    /**
     * Turns dead letters into retries, which their lanes take up oldest first (`returned` of `Journal.ts`).
     * Returns their number. Quarantined events are routed by `reroute`: they are appended as deliveries, or
     * stay in quarantine. Ids of dead letters that no longer exist are ignored.
     */
    replayDeadLetters(ids: ReadonlyArray<string>, reroute?: Reroute): Effect.Effect<number, JournalError>
    /** Removes dead letters for good, in slices. Returns the number of those that existed. */
    dropDeadLetters(ids: ReadonlyArray<string>): Effect.Effect<number, JournalError>

    /**
     * Returns stored events, newest first: events of the log, then retries and dead letters that are no
     * longer in the log. With `after` it returns them oldest first. A search ends after a moment and reports how far it
     * got: a page may be empty although there are more. Fails if a position in the query is invalid.
     */
    events(query: EventQuery): Effect.Effect<EventPage, JournalError>
    /** The end of the events that are stored now: a query's `through`. */
    readonly end: Effect.Effect<string, JournalError>
    /**
     * Appends entries again as replays, in one commit: about a megabyte of the first targets, and at least one.
     * Ascending targets are read fastest.
     */
    replay(targets: ReadonlyArray<ReplayTarget>): Effect.Effect<ReplayCounts, JournalError>
    /**
     * Overwrites bodies, answers and signatures of a few hundred events at a time, wherever they are stored.
     * Ids, types, times, outcomes and duplicate keys are kept. An event that a lane has not delivered yet is
     * left unchanged, unless `giveUp` drops it there first; then no such lane may run. At any time, each event
     * is either complete or erased.
     */
    erase(sequences: ReadonlyArray<number>, giveUp: boolean): Effect.Effect<ErasedEvents, JournalError>
    /**
     * Makes the storage overwrite what `erase` has replaced, as far as it can. Returns the copies that it can't
     * reach, in sentences.
     */
    readonly scrub: Effect.Effect<ReadonlyArray<string>, JournalError>
    /**
     * Imports undelivered events of the journal with this id, a few hundred at a time. They are appended only
     * for their lanes; dead letters remain dead letters. Each event is imported once per lane, however often
     * this is called.
     */
    import(journal: string, events: ReadonlyArray<UndeliveredEvent>): Effect.Effect<ImportCounts, JournalError>
  }
>()("relay/journal/Archive") {}
