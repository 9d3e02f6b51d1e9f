/**
 * The audit log of changes over the admin API, the command line or the page, each
 * with its user. The journal stores it next to the events, so every relay of a fleet
 * shows the operations of all.
 *
 * **Guarantee.** A record has names, selectors, counts and reasons, and never a
 * payload or a secret.
 */
import { Cause, Clock, Effect, Exit, Option, Predicate, Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import type { JournalError } from "./JournalError.ts"

/** How an operation ended. A refused one changed nothing; a failed one may have changed a part. */
const results = ["done", "refused", "failed"] as const

const operation = {
  at: EpochMillis,
  /**
   * The name of the token. `admin` is `admin.token`, `local` is a user of this machine without a token, and `user NAME`
   * ran a command without the relay.
   */
  who: Schema.String,
  /** The origin: the page, the command line, the admin API, or a signal. */
  by: Schema.String,
  /** The words of the equivalent command: `lanes pause`. */
  what: Schema.String,
  /** The names or selectors of the changed objects; empty for the relay as a whole. */
  on: Schema.String,
  result: Schema.Literals(results),
  /** A count, or why the operation was refused or failed. */
  note: Schema.String,
}
export type Operation = Schema.Struct.Type<typeof operation>

/** An operation by an operator, and its result. */
export const AuditRecord = Schema.Struct({
  /** Rises with each record. */
  id: Schema.Int,
  ...operation,
  /** The relay that received the request; empty if there can be only one. */
  relay: Schema.String,
})
export type AuditRecord = typeof AuditRecord.Type

export interface AuditQuery {
  /** At or after this time. */
  readonly since?: EpochMillis
  /** Older than this record. */
  readonly before?: number
  readonly limit: number
}

export interface AuditLog {
  /** Succeeds when the record is durable. The oldest records beyond {@link kept} are deleted. */
  record(operation: Operation): Effect.Effect<void, JournalError>
  /** Newest first. */
  list(query: AuditQuery): Effect.Effect<ReadonlyArray<AuditRecord>, JournalError>
}

/**
 * The limits of the log. Refused operations and all others are counted separately, so that a token that may
 * only read can't push out other records. Records above the number or the age are deleted when another is
 * stored.
 */
export const kept = { records: 10_000, age: 400 * 24 * 3_600_000 } as const

/** Returns the record of a loss that the journal has found. It is kept after the alarm is acknowledged. */
export const lossRecord = (at: EpochMillis, note: string): Operation => ({
  ...{ at, who: "relay", by: "the journal", what: "loss", on: "" },
  ...{ result: "failed", note },
})

/** Maximum characters of a field: a selection may name thousands of ids, and a reason may quote a whole config. */
const longest = 500
const cut = (text: string): string => {
  const [line = ""] = text.split("\n")
  return line.length <= longest ? line : `${line.slice(0, longest)}…`
}

/** Errors that mean that the operation couldn't be done now. Any other error means that it was refused. */
const failures: ReadonlySet<string> = new Set(["Unavailable", "JournalError", "MaintenanceError"])

const endOf = <A, E>(exit: Exit.Exit<A, E>, noteOf: (answer: A) => string): Pick<Operation, "result" | "note"> => {
  if (Exit.isSuccess(exit)) return { result: "done", note: noteOf(exit.value) }
  if (Cause.hasInterruptsOnly(exit.cause)) return { result: "failed", note: "the client or the relay stopped it" }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (!Predicate.hasProperty(error, "message"))
    return { result: "failed", note: "internal error; the log has the cause, please report it" }
  const isFailure = Predicate.hasProperty(error, "_tag") && failures.has(String(error._tag))
  return { result: isFailure ? "failed" : "refused", note: String(error.message) }
}

/**
 * Stores a record. The operation can't be undone, so if the log can't be written, the error is logged and
 * nothing fails.
 */
export const store = (log: AuditLog, operation: Operation): Effect.Effect<void> => {
  const record = { ...operation, on: cut(operation.on), note: cut(operation.note) }
  return Effect.catch(log.record(record), ({ message }) =>
    Effect.annotateLogs(Effect.logError(`an operation is not in the audit log: ${message}`), { ...record }),
  )
}

/** Stores how an operation ended. `noteOf` returns the note about a successful one. */
export const storeEnd =
  <A>(log: AuditLog, operation: Omit<Operation, "at" | "result" | "note">, noteOf: (answer: A) => string = () => "") =>
  <E>(exit: Exit.Exit<A, E>): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => store(log, { at, ...operation, ...endOf(exit, noteOf) }))
