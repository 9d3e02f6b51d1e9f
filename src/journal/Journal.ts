/**
 * The journal: an append-only log with a cursor per sink. Ingest appends to it,
 * and lanes read and settle. What operators ask of it is in `Archive.ts`.
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
  /** The stream that this relay writes; `lanes` are those of all streams. */
  Log & {
    /** Succeeds when the event, or the one that it is a duplicate of, is durable. One commit serves all that wait for it. */
    append(event: Event, sinks: ReadonlyArray<string>): Effect.Effect<Appended, JournalError>
    /**
     * Appends without a fiber, for the hot path: an exit when it is known at
     * once (a refusal, an old duplicate), else the promise that all events of
     * one commit share, so that it may call a duplicate appended. It never
     * rejects.
     */
    appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit>
    /** Why an event was not stored although its commit was; absent if a commit always stores all of its events or none. */
    readonly refusalOf?: (event: Event) => AppendExit | undefined
    /** The streams that this relay delivers; absent where there is but this one. */
    readonly streams?: Streams
    /** Says which sinks events will be routed to, before they are; absent where an append needs to know none. */
    readonly knowSinks?: (sinks: ReadonlyArray<KnownSink>) => void
    /** Fails once the journal is broken and never succeeds: race the process against it. */
    readonly broken: Effect.Effect<never, JournalBroken>
  }
>()("relay/journal/Journal") {}
