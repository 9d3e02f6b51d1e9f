/** The lanes that events of other journals were imported for, in the table `imported`. */
import { Effect } from "effect"
import type { ImportNote } from "../../archive/JournalTables.ts"
import { type Queries, unnested } from "../connection/Database.ts"

/** Adds lanes to those that are noted. Takes one round trip, or none if there is nothing to note. */
export const noteImports = (queries: Queries, imported: ReadonlyArray<ImportNote>) =>
  imported.length === 0
    ? Effect.void
    : queries.query(
        `INSERT INTO imported (journal, sequence, lanes)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::jsonb[])
         ON CONFLICT (journal, sequence) DO UPDATE SET lanes = (
           SELECT jsonb_agg(DISTINCT lane) FROM jsonb_array_elements(imported.lanes || excluded.lanes) AS lane)`,
        unnested(3, imported, ({ journal, sequence, lanes }) => [journal, sequence, JSON.stringify(lanes)]),
      )
