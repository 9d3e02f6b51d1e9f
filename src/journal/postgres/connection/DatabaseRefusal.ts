/** The meaning of a database error for those who use the journal. */
import { Effect } from "effect"
import { full, type JournalError, refusedData, unavailable } from "../../JournalError.ts"
import { type DatabaseError, diskFull, isOfData } from "./DatabaseError.ts"

/** A full disk is `JournalFull`; everything else is `JournalUnavailable`. */
export const refusalOf = (error: DatabaseError): JournalError => {
  const { code, message } = error
  if (code === diskFull) return full("disk", message)
  return isOfData(error) ? refusedData(message) : unavailable(message)
}

/** Translates the errors of an effect. */
export const refusing = <A, R>(
  effect: Effect.Effect<A, DatabaseError | JournalError, R>,
): Effect.Effect<A, JournalError, R> =>
  Effect.mapError(effect, (error) => (error._tag === "DatabaseError" ? refusalOf(error) : error))

/** Whether the same once more may do: nothing is known to have been stored, or another transaction was first. */
export const mayRepeat = ({ reason, code }: DatabaseError): boolean =>
  (reason === "unavailable" || reason === "conflict") && code !== diskFull
