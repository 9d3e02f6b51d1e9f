/** Journals on disk for tests: in a directory that is removed after them. */
import { join } from "node:path"
import type { SqliteConfig } from "../../src/journal/sqlite/SqliteConfig.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import { temporaryRoot } from "../lib/temporaryRoot.ts"
import { optionsAt } from "./samples.ts"

let count = 0

/** A new, empty journal on disk, as the contracts want it. */
export const createSqlite = (maxSize?: number) => {
  const at = options(maxSize === undefined ? {} : { maxSize })
  return () => SqliteJournal.layer(at)
}

export const options = (more: Partial<SqliteConfig> = {}): SqliteConfig => ({
  ...optionsAt(join(temporaryRoot, String(++count), "journal.db")),
  ...more,
})
