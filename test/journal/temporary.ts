/** Journals on disk for tests: in a directory that is deleted after the test file. */
import { afterAll } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { SqliteConfig } from "../../src/journal/sqlite/SqliteConfig.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import { optionsAt } from "./samples.ts"

const root = mkdtempSync(join(tmpdir(), "relay-journal-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let count = 0

/** A new, empty journal on disk, as the contracts want it. */
export const createSqlite = () => {
  const at = options()
  return () => SqliteJournal.layer(at)
}

export const options = (more: Partial<SqliteConfig> = {}): SqliteConfig => ({
  ...optionsAt(join(root, String(++count), "journal.db")),
  ...more,
})
