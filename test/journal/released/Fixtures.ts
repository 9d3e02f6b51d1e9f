/**
 * The fixtures: for each released version of the schema, the journals of `History.ts` as a file and as a script of SQL.
 * `make.ts` writes them.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { gunzipSync, gzipSync } from "node:zlib"
import { Effect, Layer } from "effect"
import { unavailable } from "../../../src/journal/Journal.ts"
import { servicesOf } from "../../../src/journal/JournalType.ts"
import type { Database } from "../../../src/journal/postgres/connection/Database.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import { migrate, steps } from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { openDatabase } from "../postgres/database.ts"
import { optionsAt } from "../samples.ts"
import { type Open, play } from "./History.ts"

/** The versions that have a fixture, the newest last. */
export const versions: ReadonlyArray<string> = readdirSync(import.meta.dir, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort(Bun.semver.order)

const fileOf = (version: string) => join(import.meta.dir, version, "journal.db.gz")
const scriptOf = (version: string) => join(import.meta.dir, version, "journal.sql")

/** A journal on a file. */
export const onFile =
  (path: string): Open =>
  (retention) =>
    SqliteJournal.layer({ ...optionsAt(path), retention })

/** A journal in a schema of a database, opened by the relay with this name. */
export const inSchema =
  (url: string, schema: string, name = "one"): Open =>
  (retention) =>
    Layer.effectContext(
      Effect.gen(function* () {
        const database = yield* openDatabase(url, { schema })
        yield* Effect.mapError(migrate(database, schema), ({ message }) => unavailable(message))
        const { maxSize, duplicates } = optionsAt("")
        return servicesOf(yield* PostgresJournal.make(database, { name, retention, maxSize, duplicates }))
      }),
    )

/** Puts the file of a version at a path. */
export const restoreFile = (version: string, path: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, gunzipSync(readFileSync(fileOf(version))))
}

/** The script of a version: the steps of its schema, and the rows of all tables. */
export const scriptText = (version: string): string => readFileSync(scriptOf(version), "utf8")

/** Restores the schema of a version in a database, with its rows. */
export const restoreScript = (version: string, url: string, schema: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openDatabase(url, { schema })
      yield* database.query(`CREATE SCHEMA ${schema}`)
      yield* database.query(scriptText(version))
    }),
  )

/** Plays the history into a file, and writes it as the fixture of a version. */
export const writeFile = Effect.fnUntraced(function* (version: string, scratch: string) {
  const [path, copy] = [join(scratch, "journal.db"), join(scratch, "copy.db")]
  yield* play(onFile(path))
  const db = new DatabaseSync(path)
  db.prepare("VACUUM INTO ?").run(copy)
  db.close()
  mkdirSync(dirname(fileOf(version)), { recursive: true })
  writeFileSync(fileOf(version), gzipSync(readFileSync(copy), { level: 9 }))
})

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** Returns statements that insert the rows of all tables, whatever their columns are. */
const rowsOf = Effect.fnUntraced(function* (database: Database) {
  const lines: Array<string> = []
  const tables = yield* database.query<{ readonly name: string; readonly identity: string | null }>(
    `SELECT tablename AS name, (
       SELECT column_name FROM information_schema.columns
       WHERE table_schema = schemaname AND table_name = tablename AND is_identity = 'YES'
     ) AS identity FROM pg_tables WHERE schemaname = current_schema ORDER BY 1`,
  )
  for (const { name, identity } of tables.rows) {
    lines.push(`DELETE FROM ${name};`)
    const { rows } = yield* database.query<{ readonly row: string }>(`SELECT t::text AS row FROM ${name} t ORDER BY 1`)
    for (const { row } of rows) {
      lines.push(`INSERT INTO ${name} OVERRIDING SYSTEM VALUE SELECT (${quoted(row)}::${name}).*;`)
    }
    if (identity !== null) {
      const sequence = `pg_get_serial_sequence('${name}', '${identity}')`
      lines.push(`SELECT setval(${sequence}, greatest(1, (SELECT max(${identity}) FROM ${name})));`)
    }
  }
  return lines
})

/** Plays the history into a schema, and writes it as the fixture of a version. */
export const writeScript = Effect.fnUntraced(function* (version: string, url: string, schema: string) {
  yield* play(inSchema(url, schema))
  const rows = yield* Effect.scoped(Effect.flatMap(openDatabase(url, { schema }), rowsOf))
  mkdirSync(dirname(scriptOf(version)), { recursive: true })
  writeFileSync(scriptOf(version), `${steps.join("\n")}\n${rows.join("\n")}\n`)
})
