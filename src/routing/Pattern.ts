/**
 * Patterns over dotted event types: `*` stays within a segment, `**` spans
 * segments (also none), `{a,b}` is either. The matcher is Effect's `Glob` with
 * dots mapped to slashes; it is linear, so a hostile pattern costs nothing.
 */
import { Glob } from "effect"
import { eventTypes, isRelayEvent } from "../event/EventType.ts"

export interface Pattern {
  readonly source: string
  readonly matches: (type: string) => boolean
}

const toPath = (text: string): string => text.replaceAll(".", "/")

/** What a path can stand for. Of a type that is anything else, such as `a..b` or `a/b`, a glob would say things that are not so. */
const dotted = /^[^./]+(?:\.[^./]+)*$/

/**
 * A pattern reaches the relay's own events only when it begins with `relay.`:
 * `**` is everything that the sender sends, however odd, and no more.
 */
export const make = (source: string): Pattern => {
  const glob = Glob.make(toPath(source))
  const namesRelay = source.startsWith("relay.")
  return {
    source,
    matches: (type) =>
      isRelayEvent(type) === namesRelay && (source === "**" || (dotted.test(type) && Glob.match(glob, toPath(type)))),
  }
}

/** Characters that a pattern may hold: anything else is a typing error worth naming. */
const allowed = /^[A-Za-z0-9_.*{},-]+$/

/** What is wrong with a pattern's text, in words; `undefined` when nothing is. */
export const problem = (source: string): string | undefined => {
  if (source === "") return "a pattern can't be empty; `**` matches every event type"
  if (!allowed.test(source)) {
    return "a pattern holds letters, digits, `_`, `-`, dots, `*`, `**` and `{a,b}`"
  }
  if (source.split(".").some((segment) => segment === "")) return "a pattern has an empty segment between its dots"
  if (source.split(".").some((segment) => segment.includes("**") && segment !== "**")) {
    return "`**` stands alone between dots; within a segment use `*`"
  }
  if (/[{,][,.}]|\.[,}]/.test(source)) return "a choice in a `{a,b}` is empty, or has a dot at its end"
  /** Of each brace that is open, whether it has a choice yet. */
  const open: Array<boolean> = []
  for (const character of source) {
    if (character === "{") open.push(false)
    if (character === "," && open.length > 0) open[open.length - 1] = true
    if (character !== "}") continue
    const choice = open.pop()
    if (choice === undefined) return unpaired
    // A glob would take it for the braces themselves, which no event type has.
    if (!choice) return "a `{` holds at least two choices, as in `{a,b}`"
  }
  return open.length === 0 ? undefined : unpaired
}

const unpaired = "a `{` has no `}` or the other way round"

const distance = (a: string, b: string): number => {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min((previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, substitution))
    }
    previous = row
  }
  return previous[b.length] ?? 0
}

/** The candidate nearest to `given`, when one is near enough to be what was meant. */
export const nearest = (given: string, candidates: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const d = distance(given.toLowerCase(), candidate.toLowerCase())
    if (d < bestDistance) {
      best = candidate
      bestDistance = d
    }
  }
  return bestDistance <= Math.max(2, Math.floor(given.length / 3)) ? best : undefined
}

/** The catalogue's event types that a pattern matches. */
export const matchedTypes = (pattern: Pattern): ReadonlyArray<string> => eventTypes.filter(pattern.matches)
