/**
 * The count of erasures, by which what was read before one is not stored after it.
 *
 * **Guarantee.** Of a replay and an erasure of the same event, the replay comes
 * first, and the erasure finds its copy, or it is refused.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { Queries } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"

/** The count where nothing was erased yet. */
const none = "0"

/** Counts one more; within its transaction. */
export const count = (queries: Queries) =>
  queries.query(
    `INSERT INTO meta VALUES ('erasures', '1')
     ON CONFLICT (key) DO UPDATE SET value = (meta.value::bigint + 1)::text`,
  )

/** The count before something is read. */
export const counted = (queries: Queries): Effect.Effect<string, DatabaseError> =>
  Effect.map(
    queries.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = 'erasures'"),
    ({ rows }) => rows[0]?.value ?? none,
  )

/** Fails where events were erased since; until the transaction ends none is, and no other replay passes here. */
export const requireNoneSince = Effect.fnUntraced(function* (
  queries: Queries,
  before: string,
): Effect.fn.Return<void, DatabaseError | JournalError> {
  // It changes nothing, and locks the row, which it makes where nothing was erased yet.
  const { rows } = yield* queries.query<{ readonly value: string }>(
    `INSERT INTO meta VALUES ('erasures', $1) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value`,
    [none],
  )
  if (rows[0]?.value !== before) return yield* unavailable("Events were erased meanwhile. Look again, and repeat it.")
})
