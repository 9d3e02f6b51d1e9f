/**
 * The audit log: who changed what by the admin API, the command line or the
 * page. The journal keeps it beside the events, so in a fleet every relay shows
 * the operations of all.
 *
 * **Guarantee.** A record has names, selectors, counts and reasons, and never a
 * payload or a secret.
 */
import { Cause, Clock, Effect, Exit, Option, Predicate } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"
import type { JournalError } from "./JournalError.ts"

/** How an operation ended. One that was refused changed nothing; one that failed may have changed a part. */
export const results = ["done", "refused", "failed"] as const

export interface Operation {
  readonly at: EpochMillis
  /** The name of the token, or the local user. */
  readonly who: string
  /** The program that asked: the page, the command line, the admin API. */
  readonly by: string
  /** The words of the command that does the same: `lanes pause`. */
  readonly what: string
  /** The names or selectors of what was changed; empty for the relay as a whole. */
  readonly on: string
  readonly result: (typeof results)[number]
  /** A count, or the reason why it was refused or failed. */
  readonly note: string
}

export interface AuditRecord extends Operation {
  /** Ascends with each record. */
  readonly id: number
  /** The relay that was asked; empty where there can be but one. */
  readonly relay: string
}

export interface AuditQuery {
  /** At or after this time. */
  readonly since?: EpochMillis
  /** Older than this record. */
  readonly before?: number
  readonly limit: number
}

export interface AuditLog {
  /** Succeeds when the record is durable. The oldest go beyond {@link kept}. */
  record(operation: Operation): Effect.Effect<void, JournalError>
  /** Newest first. */
  list(query: AuditQuery): Effect.Effect<ReadonlyArray<AuditRecord>, JournalError>
}

/**
 * The newest so many of the operations that were refused and as many of the
 * others, and none that is older when another is stored. They are counted apart:
 * a token that may only read can't push out what others did.
 */
export const kept = { records: 10_000, age: 400 * 24 * 3_600_000 } as const

/** A loss that the journal has found, beside the operations: it stays here when the alarm was acknowledged. */
export const lossRecord = (at: EpochMillis, note: string): Operation => ({
  ...{ at, who: "relay", by: "the journal", what: "loss", on: "" },
  ...{ result: "failed", note },
})

/** A selection may name thousands of ids, and a reason a whole config. */
const longest = 500
const cut = (text: string): string => {
  const [line = ""] = text.split("\n")
  return line.length <= longest ? line : `${line.slice(0, longest)}…`
}

/** The errors that say that the operation could not be done now; any other refuses it. */
const failures: ReadonlySet<string> = new Set(["Unavailable", "JournalError", "MaintenanceError"])

const endOf = <A, E>(exit: Exit.Exit<A, E>, noteOf: (answer: A) => string): Pick<Operation, "result" | "note"> => {
  if (Exit.isSuccess(exit)) return { result: "done", note: noteOf(exit.value) }
  if (Cause.hasInterruptsOnly(exit.cause)) return { result: "failed", note: "the client or the relay stopped it" }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (!Predicate.hasProperty(error, "message"))
    return { result: "failed", note: "internal error: this is a bug in relay" }
  const isFailure = Predicate.hasProperty(error, "_tag") && failures.has(String(error._tag))
  return { result: isFailure ? "failed" : "refused", note: String(error.message) }
}

/** Stores a record. What was done is done, so a log that can't be written is reported and fails nothing. */
export const store = (log: AuditLog, operation: Operation): Effect.Effect<void> => {
  const record = { ...operation, on: cut(operation.on), note: cut(operation.note) }
  return Effect.catch(log.record(record), ({ message }) =>
    Effect.annotateLogs(Effect.logError(`an operation is not in the audit log: ${message}`), { ...record }),
  )
}

/** Stores how an operation ended; `noteOf` says what came of one that was done. */
export const storeEnd =
  <A>(log: AuditLog, operation: Omit<Operation, "at" | "result" | "note">, noteOf: (answer: A) => string = () => "") =>
  <E>(exit: Exit.Exit<A, E>): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => store(log, { at, ...operation, ...endOf(exit, noteOf) }))
