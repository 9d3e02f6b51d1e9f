/**
 * The journal: an append-only log with a cursor per sink.
 *
 * **Guarantee.** When `append` succeeds the event is on disk, and it stays
 * readable until every lane it was routed to has passed it. What a lane parks
 * or dead-letters is copied out of the log by the same `settle` that moves the
 * cursor past it, so pruning never touches anything that was promised.
 *
 * **The core is `append`, `read`, `settle`.** Everything else hangs on it. A
 * journal that can do these three can carry the relay; `journalContract` in
 * `test/contract` says what each must hold to.
 *
 * **Gotchas.** Sequences start at 1 and have no holes. A failed fsync is final:
 * after it every call fails with `JournalBroken` and the process must end.
 */
import { Context, type Effect, type Exit, Schema } from "effect"
import type { Entry } from "../event/Entry.ts"
import type { Event } from "../event/Event.ts"

/** What became of an `append`. */
export type Appended = "appended" | "duplicate"

export type AppendExit = Exit.Exit<Appended, JournalError>

/** Where a lane stands. Everything up to `sequence` is settled, parked or not routed to the lane. */
export interface Cursor {
  readonly sequence: number
  /** Ranges above `sequence` that are settled too, both ends included, ascending. */
  readonly settled: ReadonlyArray<readonly [from: number, to: number]>
}

/** One failed attempt, as it is kept with a parked event or a dead letter. */
export interface Attempt {
  /** Epoch milliseconds. */
  readonly at: number
  /** The reason's tag, e.g. `DeliveryFailed`. */
  readonly reason: string
  /** What the sink saw; holds no secret and no payload. */
  readonly message: string
}

/** When an event that was taken out of the log is tried again. */
export interface Wait {
  readonly sequence: number
  /** The lane's order key of the event; empty where the lane keeps no order. */
  readonly key: string
  /** Wall-clock due time in epoch milliseconds; a load waits clamp(due − now, 0, delay). */
  readonly due: number
  /** The delay in milliseconds that led to `due`. */
  readonly delay: number
  /**
   * The first attempt, in the lane's own time: epoch milliseconds without those
   * that the lane was paused until then. 0 when it was parked without one.
   */
  readonly firstAttemptAt: number
  /** Attempts that are charged to it; those of a sink's outage are not. */
  readonly tried: number
}

/** A parked event, as the journal keeps it. */
export interface Retry extends Wait {
  /** The reason of its newest failed attempt, e.g. `DeliveryFailed`; empty when there is none. */
  readonly lastFailure: string
}

/** What became of attempts with an event since the journal last heard of it: see {@link keptAttempts}. */
export interface Tries {
  /** So many of the newest ones that the journal has are given back: they were the sink's fault. */
  readonly refunded: number
  /** Those that failed since. */
  readonly failed: ReadonlyArray<Attempt>
}

/** A change to a parked event. */
export interface RetryChange extends Wait, Tries {}

/** An event that won't be tried again until a person replays it. */
export interface DeadLetter extends Tries {
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
}

export interface StoredDeadLetter {
  /** Identifies it on the command line: the lane and the sequence, `lake:42`. */
  readonly id: string
  readonly lane: string
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}

/** How many attempts of an event are kept: the first, and the newest. */
const maxAttempts = 10

/** What is kept of the attempts before and those since. */
export const keptAttempts = (before: ReadonlyArray<Attempt>, { refunded, failed }: Tries): ReadonlyArray<Attempt> => {
  const all = [...before.slice(0, Math.max(0, before.length - refunded)), ...failed]
  return all.length <= maxAttempts ? all : [...all.slice(0, 1), ...all.slice(1 - maxAttempts)]
}

/** What a lane wants to have on disk; applied in one transaction with those of other lanes. */
export interface Settlement {
  readonly lane: string
  readonly cursor: Cursor
  /** Parked events that are new or changed. The journal finds the bytes by sequence, in the log or in what is parked already. */
  readonly retry: ReadonlyArray<RetryChange>
  /** Parked events that were delivered. */
  readonly endRetry: ReadonlyArray<number>
  /** Dead letters that are new; if the event was parked it no longer is. */
  readonly deadLetter: ReadonlyArray<DeadLetter>
  /** How long the lane was paused in all, in milliseconds. */
  readonly pausedFor: number
}

/** What the journal knows of a lane. */
export interface LaneInfo {
  readonly name: string
  readonly cursor: Cursor
  /** How many events are parked. */
  readonly retrying: number
  readonly deadLetters: number
  readonly deadLetterBytes: number
  /** Routed to it and not settled: in the log above the cursor, and parked. */
  readonly backlog: number
  /** Paused by a person (`lanes pause`), across restarts. */
  readonly paused: boolean
}

/** A lane as it is opened, with its parked events. Their bytes are brought by `readParked`. */
export interface OpenedLane extends LaneInfo {
  /** How long it was paused in all, in milliseconds. */
  readonly pausedFor: number
  readonly retries: ReadonlyArray<Retry>
}

export interface RetryEntries {
  /** In the order asked for. */
  readonly entries: ReadonlyArray<Entry>
  /** Those that are lost: their bytes are not what was written. They are parked no more. */
  readonly lost: ReadonlyArray<number>
}

export interface DeadLetterQuery {
  readonly lane?: string
  /** A pattern of event types. */
  readonly type?: string
  /** Only older than this id, for paging. Newest first. */
  readonly before?: string
  readonly limit: number
}

/** What became of an event at a sink that it was promised to. */
export type Outcome =
  /** Its lane has passed it: it was delivered, unless a person dropped or replayed its dead letter. */
  | "delivered"
  /** It waits in the log for its lane. */
  | "pending"
  | "retrying"
  | "dead"
  /** The lane is no more: what was pending in it was moved or given up. */
  | "gone"

export interface DeliveryStatus {
  readonly sink: string
  readonly outcome: Outcome
  /** Of a parked event, when it is tried again: epoch milliseconds. */
  readonly due?: number
  /** Of a dead letter, since when it is one: epoch milliseconds. */
  readonly at?: number
  /** Those that failed, while it is parked or a dead letter: afterwards they are not kept. */
  readonly attempts: ReadonlyArray<Attempt>
}

/** Which events: all that is given must hold. */
export interface EventQuery {
  readonly id?: string
  readonly sequence?: number
  /** Patterns of event types; none is all. */
  readonly types?: ReadonlyArray<string>
  readonly account?: string
  readonly webhook?: string
  /** Epoch milliseconds, included. */
  readonly since?: number
  /** Epoch milliseconds, excluded. */
  readonly until?: number
  /** That of at least one sink; `unrouted` went to none. */
  readonly outcome?: Exclude<Outcome, "gone"> | "unrouted"
  /** Only those below this sequence: the next page. */
  readonly before?: number
  readonly limit: number
}

/** An event that is kept, and what became of it. */
export interface FoundEvent {
  readonly sequence: number
  /** How it came into the log: `moved` from one lane to another. */
  readonly origin: "delivered" | "replayed" | "moved"
  readonly event: Omit<Event, "body">
  /** The signed bytes, where the query names one event. */
  readonly body?: Uint8Array
  /** As they were promised when it was accepted. */
  readonly fates: ReadonlyArray<DeliveryStatus>
}

/** What a while of looking came to: newest first. */
export interface EventPage {
  readonly events: ReadonlyArray<FoundEvent>
  /** How many were looked at. */
  readonly looked: number
  /** When the last of them was received, in epoch milliseconds; 0 when there was none. */
  readonly lookedTo: number
  /** There may be more below this sequence: the next query's `before`. Absent at the end. */
  readonly next?: number
}

export interface ReplayQuery {
  /** Epoch milliseconds, included. */
  readonly since: number
  /** Epoch milliseconds, excluded. */
  readonly until: number
  readonly types: (type: string) => boolean
  /** The sink to replay to; whether it was routed there at the time does not matter. */
  readonly sink: string
  /** Hears now and then how much of the log has been looked through, from 0 to 1. */
  readonly progress?: (share: number) => void
}

/** What becomes of a quarantined event by now: the event with its sinks, or `undefined` while it still can't be routed. */
export type Reroute = (event: Event) => { readonly event: Event; readonly sinks: ReadonlyArray<string> } | undefined

/** An event of another journal, and the lanes that it is still owed to. */
export interface OwedEvent {
  /** Its place in that journal. */
  readonly sequence: number
  readonly event: Event
  /** It stood there by a replay: then it is brought back although it was delivered again since. */
  readonly replayed: boolean
  readonly pending: ReadonlyArray<string>
  /** Set when it is a dead letter of these lanes. */
  readonly dead?: { readonly at: number; readonly attempts: ReadonlyArray<Attempt> }
}

/** What became of events that were brought back, each counted once a lane. */
export interface Imported {
  readonly pending: number
  readonly deadLetters: number
  /** Brought back before, or received anew since. */
  readonly known: number
}

export interface JournalStatus {
  /** `red` until a person acknowledges it: a file was quarantined or a checksum failed. */
  readonly health: "starting" | "ok" | "full" | "broken" | "red"
  /** What is wrong and what to do about it, in words; empty when nothing is. */
  readonly message: string
  /** Why it is red, a line each, whatever else its health says; and since when, in epoch milliseconds. */
  readonly red: { readonly lines: ReadonlyArray<string>; readonly since: number }
  readonly head: number
  /** The lowest sequence still kept; `head + 1` when empty. */
  readonly tail: number
  readonly usedBytes: number
  readonly maxBytes: number
  readonly walBytes: number
  readonly freeDiskBytes: number
  readonly path: string
  /** The highest mark, in percent of `maxBytes`, that `usedBytes` has passed. */
  readonly filling: 0 | 50 | 80 | 95
  readonly counters: JournalCounters
}

/** Since the start; all of them only grow. */
export interface JournalCounters {
  readonly appended: number
  readonly duplicates: number
  /** Same webhook and event id as an event before it, other bytes: kept as an event of its own. */
  readonly altered: number
  readonly commits: number
  /** Spent in commits, in milliseconds. */
  readonly commitMillis: number
}

/** Full: `maxSize`, the free-space watermark, or a lane's backlog. A retry is wanted. */
export class JournalFull extends Schema.TaggedError<JournalFull>()("JournalFull", {
  cause: Schema.Literals(["maxSize", "disk", "backlog"]),
  message: Schema.String,
}) {}

/** Not now: it is starting, or this commit failed and was rolled back. A retry is wanted. */
export class JournalUnavailable extends Schema.TaggedError<JournalUnavailable>()("JournalUnavailable", {
  message: Schema.String,
}) {}

/** Never again in this process: an fsync failed, or the file is not the one that was opened. */
export class JournalBroken extends Schema.TaggedError<JournalBroken>()("JournalBroken", {
  message: Schema.String,
}) {}

export class JournalError extends Schema.TaggedError<JournalError>()("JournalError", {
  reason: Schema.Union([JournalFull, JournalUnavailable, JournalBroken]),
}) {
  override get message(): string {
    return this.reason.message
  }
}

export class Journal extends Context.Service<
  Journal,
  {
    /**
     * Keeps an event: succeeds when it is on disk, or when it is a duplicate
     * of one that is. One commit serves all that wait for it.
     */
    append(event: Event, sinks: ReadonlyArray<string>): Effect.Effect<Appended, JournalError>
    /**
     * The same without a fiber, for the hot path: an exit when it is known at
     * once (a refusal, an old duplicate), else the promise that all events of
     * one commit share. The promise never rejects.
     */
    appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit>
    /**
     * Entries above `after`, ascending, at most `limit` and at most some
     * megabytes; at once, and empty at the head. Freshly committed ones come
     * from memory. Old ones that no lane waits for may be left out.
     */
    read(after: number, limit: number): Effect.Effect<ReadonlyArray<Entry>, JournalError>
    /** Makes lanes' progress durable, all in one transaction. */
    settle(settlements: ReadonlyArray<Settlement>): Effect.Effect<void, JournalError>

    /** The highest sequence on disk. */
    readonly head: Effect.Effect<number>
    /** Waits until something above `after` is on disk. */
    awaitBeyond(after: number): Effect.Effect<void>

    /** All lanes that have a cursor, those without a sink included. */
    readonly lanes: Effect.Effect<ReadonlyArray<LaneInfo>, JournalError>
    /**
     * Opens a lane: where it stood, or at the head when it is new. While there is
     * a lane `renamedFrom` it takes over what that one holds, also what an earlier
     * take-over that was cut short has left there.
     */
    openLane(name: string, renamedFrom?: string): Effect.Effect<OpenedLane, JournalError>
    /** Appends are refused while the lane's backlog is above `max`; no bound when `undefined`. */
    limitBacklog(lane: string, max: number | undefined): Effect.Effect<void>
    setPaused(lane: string, paused: boolean): Effect.Effect<void, JournalError>
    /** Hands everything pending of `from` to `to`: the log's entries above its cursor are appended for `to`, parked ones and dead letters change lanes. */
    moveLane(from: string, to: string): Effect.Effect<number, JournalError>
    /** Forgets a lane, what is pending in it and its dead letters; the number of events given up. */
    dropLane(name: string): Effect.Effect<number, JournalError>

    /** Parked events with their bytes, as many as fit into some megabytes, at least one. */
    readRetries(lane: string, sequences: ReadonlyArray<number>): Effect.Effect<RetryEntries, JournalError>

    /** At most `limit` and at most some megabytes; empty at the end. */
    deadLetters(query: DeadLetterQuery): Effect.Effect<ReadonlyArray<StoredDeadLetter>, JournalError>
    /**
     * Appends dead letters anew for their lane and forgets them, in one
     * transaction; how many. Those of the quarantine `reroute` decides anew:
     * they are appended as what they are found to be, in the place of the
     * delivery that they came by, or stay where they are.
     */
    replayDeadLetters(ids: ReadonlyArray<string>, reroute?: Reroute): Effect.Effect<number, JournalError>
    dropDeadLetters(ids: ReadonlyArray<string>): Effect.Effect<number, JournalError>
    /** Appends what the retained log holds of the query for one sink; how many. */
    replay(query: ReplayQuery): Effect.Effect<number, JournalError>

    /**
     * Brings back what the journal of that id still owed: appended for just
     * those lanes, dead letters as such. Each event once a lane, whenever and
     * however often it is asked; a few hundred at a time.
     */
    import(journal: string, owed: ReadonlyArray<OwedEvent>): Effect.Effect<Imported, JournalError>

    /**
     * Events that are kept, newest first: of the log, then parked ones and dead
     * letters that the log has forgotten. It looks for a moment and says how far
     * it came: a page may be empty although there are more.
     */
    events(query: EventQuery): Effect.Effect<EventPage, JournalError>

    readonly status: Effect.Effect<JournalStatus>
    /** Fails once the journal is broken, and never succeeds: race the process against it. */
    readonly broken: Effect.Effect<never, JournalBroken>
    /** A person has seen why it is red. */
    readonly acknowledge: Effect.Effect<void, JournalError>
  }
>()("relay/journal/Journal") {}
