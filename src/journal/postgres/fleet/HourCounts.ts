/** A relay's counts of the last hour, under its name: the next relay of that name continues them. */
import { Effect } from "effect"
import type { KeptText } from "../../Archive.ts"
import type { Database } from "../connection/Database.ts"

/** A database that doesn't answer must not hold up a start or a stop. */
const options = { timeout: 2_000 }

/**
 * A crash of the server may lose the counts, so this doesn't wait for the disk. Rows older than an hour belong
 * to relays that have ended.
 */
const replace = `WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
  old AS (DELETE FROM hour WHERE at < now() - interval '1 hour' AND relay <> $1)
INSERT INTO hour SELECT $1, now(), $2 FROM relaxed
ON CONFLICT (relay) DO UPDATE SET at = excluded.at, counts = excluded.counts`

export const make = (db: Database, relay: string): KeptText => ({
  read: db.query<{ readonly counts: string }>("SELECT counts FROM hour WHERE relay = $1", [relay], options).pipe(
    Effect.map(({ rows }) => rows[0]?.counts),
    Effect.orElseSucceed(() => undefined),
  ),
  replace: (text) => Effect.ignore(db.query(replace, [relay, text], options)),
})
