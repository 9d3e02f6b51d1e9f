/** Translates database errors for users of the journal. */
import { Effect } from "effect"
import { full, type JournalError, refusedData, unavailable } from "../../JournalError.ts"
import { type DatabaseError, diskFull, isOfData } from "./DatabaseError.ts"

/** Maps a full disk to `JournalFull`, and everything else to `JournalUnavailable`. */
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

/**
 * Reports whether the same statement may be sent again: as far as this relay knows nothing was stored, or another
 * transaction came first.
 */
export const mayRepeat = ({ reason, code }: DatabaseError): boolean =>
  (reason === "unavailable" || reason === "conflict") && code !== diskFull
