/**
 * Has PostgreSQL overwrite the bytes of erased events, and names the remaining copies.
 *
 * A row that changes leaves its former version, until `VACUUM`. The version's bytes
 * stay in the free space of the page until new rows fill it: only `VACUUM FULL`
 * rewrites the tables. `ANALYZE` keeps samples of columns in `pg_statistic`. The
 * write-ahead log has all rows that were stored. Segments that are kept for later use
 * still have their former bytes.
 */
import { Effect } from "effect"
import type { JournalError } from "../../JournalError.ts"
import { ceilingOf } from "../../Sequences.ts"
import { elsewhere } from "../../stream/Erasure.ts"
import type { Database } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"

/** The tables that have bodies or receivers' answers. */
const tables = ["log", "dead", "retry", "ended"]

/** Deletes outcomes of events that were kept beyond the log, and are not any more: no search finds them. */
const forgetOutcomes = `DELETE FROM ended USING (
   SELECT id * ${ceilingOf(0)} AS floor, coalesce(
     (SELECT min(first) FROM log WHERE first > id * ${ceilingOf(0)} AND first < (id + 1) * ${ceilingOf(0)}),
     (id + 1) * ${ceilingOf(0)}) AS first
   FROM stream) AS kept
 WHERE sequence > kept.floor AND coalesce(last, sequence) < kept.first
   AND NOT EXISTS (SELECT FROM dead WHERE dead.sequence = ended.sequence)
   AND NOT EXISTS (SELECT FROM retry WHERE retry.sequence = ended.sequence)`

/** Fills every segment of the write-ahead log that is kept for later use. */
const fillSegments =
  "SELECT pg_logical_emit_message(false, 'relay', 'erased'), pg_switch_wal() FROM generate_series(1, (SELECT count(*)::int FROM pg_ls_waldir()))"

/** The statements that overwrite the rest in the server's files. A segment that is in use is kept for later by the first round. */
export const statements = (schema: string) => ({
  asOwner: [`VACUUM (FULL, ANALYZE) ${tables.map((table) => `${schema}.${table}`).join(", ")}`],
  asSuperuser: ["VACUUM FULL pg_statistic", "CHECKPOINT", fillSegments, "CHECKPOINT", fillSegments, "CHECKPOINT"],
})

/** Drops former versions of rows if the relay's role may. Returns where copies may be, each with the statements against it. */
export const scrub = Effect.fnUntraced(function* (db: Database): Effect.fn.Return<ReadonlyArray<string>, JournalError> {
  yield* refusing(db.query(forgetOutcomes))
  const { rows } = yield* refusing(
    db.query<{ readonly may: boolean; readonly schema: string }>(
      `SELECT bool_and(pg_has_role(relowner, 'USAGE')) AS may, quote_ident(current_schema()) AS schema
       FROM pg_class WHERE oid = ANY($1::regclass[])`,
      [`{${tables.join(",")}}`],
    ),
  )
  const [{ may, schema } = { may: false, schema: "relay" }] = rows
  // Not in a transaction, and one at a time: a table that is locked delays only itself.
  if (may) {
    yield* Effect.forEach(tables, (table) => refusing(db.query(`VACUUM (ANALYZE) ${table}`)), { discard: true })
  }
  const { asOwner, asSuperuser } = statements(schema)
  return [
    `${may ? "free space of the tables' pages, until new rows fill it" : "former versions of rows, which the relay's role may not vacuum"}: \`${asOwner.join("; ")}\` as their owner, which locks each table while it is rewritten`,
    `samples in the server's statistics, and its write-ahead log: then \`${asSuperuser.join("; ")}\` as a superuser`,
    "the archive of the write-ahead log, standbys until they have followed, and snapshots",
    ...elsewhere,
  ]
})
