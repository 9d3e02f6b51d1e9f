/** Helpers of the rules: the texts, duplicates and names of a config's resolved JSON. */
import * as Numbers from "../../event/Numbers.ts"
import { errorAtKey, type Finding, warning } from "../diagnostics/Source.ts"
import { fields, type Path } from "../Fields.ts"

export interface Text {
  readonly path: Path
  readonly text: string
}

/** The texts of a key that holds one text or a list of them. */
export const texts = (value: unknown, path: Path): ReadonlyArray<Text> =>
  (Array.isArray(value)
    ? value.map((text, index) => [text, [...path, index]] as const)
    : [[value, path] as const]
  ).flatMap(([text, path]) => (typeof text === "string" ? [{ text, path }] : []))

/** Every text of a value. */
export const deepTexts = (value: unknown, path: Path): ReadonlyArray<Text> => {
  if (typeof value === "string") return [{ path, text: value }]
  if (Array.isArray(value)) return value.flatMap((item, index) => deepTexts(item, [...path, index]))
  if (Numbers.isNumber(value)) return []
  return Object.entries(fields(value)).flatMap(([key, item]) => deepTexts(item, [...path, key]))
}

/** The duplicates among items that must be unique, each with the first. */
export const repeated = <A extends { readonly path: Path }>(
  all: ReadonlyArray<A>,
  identity: (item: A) => string,
): ReadonlyArray<readonly [again: A, first: A]> => {
  const first = new Map<string, A>()
  return all.flatMap((item) => {
    const earlier = first.get(identity(item))
    if (earlier === undefined) first.set(identity(item), item)
    return earlier === undefined ? [] : [[item, earlier] as const]
  })
}

/** Fewer bytes can be guessed. */
const shortestSecret = 16

/** A secret that can be guessed, or that was cut off. A finding tells no more of it than that it is short. */
export const weakRules = (value: unknown, path: Path, what: string): ReadonlyArray<Finding> => {
  if (typeof value !== "string" || value === "" || Buffer.byteLength(value) >= shortestSecret) return []
  const hint = "check that it is complete; `openssl rand -hex 32` makes a longer one"
  return [warning(path, `${what} of fewer than ${shortestSecret} bytes can be guessed`, hint)]
}

export const isName = (name: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/.test(name)

/** Names are used in metrics, in the ids of dead letters (`sink:42`) and on the command line. */
export const nameRules = (name: string, at: Path, what: string): ReadonlyArray<Finding> => {
  if (name.startsWith("_")) {
    return [errorAtKey(at, `a ${what}'s name can't begin with "_"`, "such names are the relay's own, like _quarantine")]
  }
  return isName(name)
    ? []
    : [errorAtKey(at, `this is no name for a ${what}`, "letters, digits, `_`, `-` and `.`, at most 100")]
}
