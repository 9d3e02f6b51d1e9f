/** Converts columns of SQLite's rows to the types of the tables. */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import { parsedJson } from "../../../event/Tolerance.ts"

/** A row as `node:sqlite` returns it. */
export type Row = Record<string, SQLOutputValue>

export const int = (value: unknown): number => Number(value)
export const text = (value: unknown): string => String(value)
export const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

/**
 * Frees a large value immediately, not at the next garbage collection. Afterwards it is empty, so nothing may
 * need it any more.
 */
export const release = ({ buffer }: Uint8Array): void => {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** Decodes a list stored as JSON. It is empty if the disk has damaged it. */
export const list = <A>(value: unknown): ReadonlyArray<A> => {
  const parsed = parsedJson(String(value))
  return Array.isArray(parsed) ? parsed : []
}

/** Returns a fact, or `undefined` if there is none. */
export const meta = (db: DatabaseSync, key: string): string | undefined => {
  const value = db.prepare("SELECT value FROM meta WHERE key = ?").get(key)?.value
  return typeof value === "string" ? value : undefined
}

export const setMeta = (db: DatabaseSync, key: string, value: string): void => {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(key, value)
}

/** Returns the number of transactions that have erased events. */
export const erasuresOf = (db: DatabaseSync): string => meta(db, "erasures") ?? "0"

/** Counts a transaction that erases events. A copy that began before it must restart. */
export const countErasure = (db: DatabaseSync): void => setMeta(db, "erasures", String(Number(erasuresOf(db)) + 1))
