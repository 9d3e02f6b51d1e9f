/** Columns of SQLite's rows, as the types that the tables have. */
import type { SQLOutputValue } from "node:sqlite"

/** A row as `node:sqlite` gives it. */
export type Row = Record<string, SQLOutputValue>

export const int = (value: unknown): number => Number(value)
export const text = (value: unknown): string => String(value)
export const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array())

/** Frees a large value that nothing needs any more: at once, and not when garbage is collected. It is empty then. */
export const release = ({ buffer }: Uint8Array): void => {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** The result of `work`; `undefined` where it throws, because the disk has damaged what it reads. */
export const tolerant = <A>(work: () => A): A | undefined => {
  try {
    return work()
  } catch {
    return undefined
  }
}

/** A list that is kept as JSON; empty where the disk has damaged it. */
export const list = <A>(value: unknown): ReadonlyArray<A> => {
  const parsed = tolerant((): unknown => JSON.parse(String(value)))
  return Array.isArray(parsed) ? parsed : []
}
