/** The facts that the journal's file holds of itself, by name. */
import type { DatabaseSync } from "node:sqlite"

/** Reads a fact; `undefined` when there is none. */
export const meta = (db: DatabaseSync, key: string): string | undefined => {
  const value = db.prepare("SELECT value FROM meta WHERE key = ?").get(key)?.value
  return typeof value === "string" ? value : undefined
}

/** Writes a fact. */
export const setMeta = (db: DatabaseSync, key: string, value: string): void => {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(key, value)
}
