/**
 * Opens files in SQLite.
 *
 * **Guarantee.** SQLite writes no temporary files. By default it puts them into `/var/tmp`, `/tmp` or the
 * working directory, and a full or read-only disk there would stop the journal. In memory they take a few pages
 * at a time: the pages that one settlement or one slice of an operation changes, because no statement sorts a
 * table. Only `VACUUM` needs as much space as the journal has: see `Maintenance.ts`.
 */
import { lstatSync } from "node:fs"
import { resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"

/** Opens the file at a path, or creates it. Throws SQLite's errors. */
export const connect = (path: string, options: { readonly readOnly?: boolean } = {}): DatabaseSync => {
  // The path is absolute, because SQLite treats `:memory:` and `file:` at the start of a path specially.
  const db = new DatabaseSync(resolve(path), options)
  db.prepare("PRAGMA temp_store = MEMORY").run()
  // On macOS a sync leaves data in the disk's own cache without these; other systems ignore them.
  db.prepare("PRAGMA fullfsync = ON").run()
  db.prepare("PRAGMA checkpoint_fullfsync = ON").run()
  return db
}

/** Opens a file of the relay next to the journal, but not through a link. */
export const connectBeside = (file: string): DatabaseSync => {
  if (lstatSync(file, { throwIfNoEntry: false })?.isFile() === false) throw new Error(`${file} is not a file`)
  return connect(file)
}
