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
import { Context, type Effect, type Exit } from "effect"
import type { Event } from "../event/Event.ts"
import type { JournalBroken, JournalError } from "./JournalError.ts"
import type { RefusedSettlement } from "./Settlement.ts"
import type { KnownSink, Log, Streams } from "./StreamLog.ts"

export * from "./JournalError.ts"
export type * from "./LaneInfo.ts"
export type * from "./Settlement.ts"
export type * from "./StreamLog.ts"

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
    /** Succeeds when the event is durable, or the one that it is a duplicate of. One commit serves all callers. */
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
     * Announces the sinks to which events will be routed. Call it before any event is. Absent if appends don't
     * depend on it.
     */
    readonly knowSinks?: (sinks: ReadonlyArray<KnownSink>) => void
    /** Never succeeds, and fails once the journal is broken: race the process against it. */
    readonly broken: Effect.Effect<never, JournalBroken>
  }
>()("relay/journal/Journal") {}
