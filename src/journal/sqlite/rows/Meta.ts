/** Facts that the journal's file stores about itself, by name. */
import type { DatabaseSync } from "node:sqlite"

/** Returns a fact, or `undefined` if there is none. */
export const meta = (db: DatabaseSync, key: string): string | undefined => {
  const value = db.prepare("SELECT value FROM meta WHERE key = ?").get(key)?.value
  return typeof value === "string" ? value : undefined
}

export const setMeta = (db: DatabaseSync, key: string, value: string): void => {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(key, value)
}
