/** Reads a config's JSON without trusting its shape. A value of another kind counts as empty. */
import { Predicate } from "effect"

/** The keys down to a value, such as `sinks`, `audit`, `headers`, `authorization`. */
export type Path = ReadonlyArray<string | number>

export type Fields = Readonly<Record<string, unknown>>

export const fields = (value: unknown): Fields => (Predicate.isObject(value) ? value : {})
export const items = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Returns the value at a path, or `undefined` if there is none. */
export const valueAt = (root: unknown, path: Path): unknown =>
  path.reduce((value, key) => (Predicate.isObjectOrArray(value) ? (value as Fields)[key] : undefined), root)
