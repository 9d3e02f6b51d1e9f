/** The meaning of a database error for those who use the journal. */
import { Effect } from "effect"
import { full, type JournalError, unavailable } from "../../JournalError.ts"
import { type DatabaseError, diskFull } from "./DatabaseError.ts"

/** A full disk is `JournalFull`; everything else is `JournalUnavailable`. */
export const refusalOf = ({ code, message }: DatabaseError): JournalError =>
  code === diskFull ? full("disk", message) : unavailable(message)

/** Translates the errors of an effect. */
export const refusing = <A, R>(
  effect: Effect.Effect<A, DatabaseError | JournalError, R>,
): Effect.Effect<A, JournalError, R> =>
  Effect.mapError(effect, (error) => (error._tag === "DatabaseError" ? refusalOf(error) : error))

/** Whether the same once more may do: nothing is known to have been stored, or another transaction was first. */
export const mayRepeat = ({ reason, code }: DatabaseError): boolean =>
  (reason === "unavailable" || reason === "conflict") && code !== diskFull
