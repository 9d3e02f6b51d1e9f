/**
 * The count of erasures. It prevents data that was read before an erasure from being stored after it.
 *
 * **Guarantee.** If a replay and an erasure meet at one event, either the replay comes first and the erasure
 * finds its copy, or the replay is refused.
 */
import { Effect } from "effect"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { Queries } from "../connection/Database.ts"
import type { DatabaseError } from "../connection/DatabaseError.ts"

/** The count before the first erasure. */
const none = "0"

/** Increments the count, within an erasure's transaction. */
export const count = (queries: Queries) =>
  queries.query(
    `INSERT INTO meta VALUES ('erasures', '1')
     ON CONFLICT (key) DO UPDATE SET value = (meta.value::bigint + 1)::text`,
  )

/** Returns the count before something is read. */
export const counted = (queries: Queries): Effect.Effect<string, DatabaseError> =>
  Effect.map(
    queries.query<{ readonly value: string }>("SELECT value FROM meta WHERE key = 'erasures'"),
    ({ rows }) => rows[0]?.value ?? none,
  )

/** Fails if events were erased since. Until the transaction ends, no erasure and no other replay passes this point. */
export const requireNoneSince = Effect.fnUntraced(function* (
  queries: Queries,
  before: string,
): Effect.fn.Return<void, DatabaseError | JournalError> {
  // Changes nothing, but locks the row. If nothing was erased yet, it creates the row.
  const { rows } = yield* queries.query<{ readonly value: string }>(
    `INSERT INTO meta VALUES ('erasures', $1) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value`,
    [none],
  )
  if (rows[0]?.value !== before) return yield* unavailable("Events were erased meanwhile. Look again, and repeat it.")
})
