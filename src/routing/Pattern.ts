/**
 * Patterns over dotted event types. `*` matches within a segment, `**` matches any
 * number of segments, also none, and `{a,b}` matches either. The matcher is Effect's
 * `Glob` with dots mapped to slashes. It takes linear time, so a hostile pattern
 * does no harm.
 */
import { Glob } from "effect"
import { longest } from "../event/Envelope.ts"
import { isRelayEvent } from "../event/EventType.ts"

export interface Pattern {
  readonly source: string
  readonly matches: (type: string) => boolean
}

const toPath = (text: string): string => text.replaceAll(".", "/")

/**
 * A type that can be written as a path. For other types, such as `a..b` or `a/b`, a
 * glob would return wrong results.
 */
const dotted = /^[^./]+(?:\.[^./]+)*$/

/**
 * Makes a pattern. It matches the relay's own events only if it begins with
 * `relay.`. `**` matches everything that the sender sends, however unusual.
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

/**
 * Limits on the characters of a pattern, on the patterns that its braces expand to,
 * and on the nesting of braces. The glob's own limits are wider. Beyond them, it
 * would treat braces as literal characters and match nothing.
 */
const most = { characters: 1_000, choices: 1_000, depth: 16 } as const

/** Expands a pattern's braces into patterns, up to `limit` and one more. The braces of `source` must be balanced. */
const expand = (source: string, limit: number): ReadonlyArray<string> => {
  const open = source.indexOf("{")
  if (open === -1) return [source]
  // The outermost brace first, because its choices may contain braces.
  const choices: Array<string> = []
  let [depth, from, end] = [0, open + 1, open]
  do {
    const character = source[end]
    if (character === "{") depth += 1
    if (character === "}") depth -= 1
    if (depth === 0 || (depth === 1 && character === ",")) {
      choices.push(source.slice(from, end))
      from = end + 1
    }
    end += 1
  } while (depth > 0)
  const all: Array<string> = []
  for (const choice of choices) {
    all.push(...expand(source.slice(0, open) + choice + source.slice(end), limit - all.length))
    if (all.length > limit) break
  }
  return all
}

const count = (text: string, part: string): number => text.split(part).length - 1

/** Describes a problem with the expanded patterns. */
const choiceProblem = (source: string): string | undefined => {
  const choices = expand(source, most.choices)
  if (choices.length > most.choices) return `the braces expand to more than ${most.choices} patterns: write several`
  for (const choice of choices) {
    if (count(choice, "**") !== count(source, "**")) return alone
    if (choice.startsWith("relay.") && !source.startsWith("relay.")) {
      return "the relay's own events are matched by a pattern that begins with `relay.`, and never from within braces: write two patterns"
    }
    if (choice.replaceAll("*", "").length > longest) {
      return `this can never match: an event type has ${longest} bytes at most`
    }
  }
  return undefined
}

const alone = "`**` must be alone between dots; within a segment use `*`"

/** The characters that a pattern may have. Any other is a typing error that is worth a message. */
const allowed = /^[A-Za-z0-9_.*{},-]+$/

/** Describes the problem with a pattern's text, or returns `undefined` if it is valid. */
export const problem = (source: string): string | undefined => {
  if (source === "") return "a pattern can't be empty; `**` matches every event type"
  if (source.length > most.characters) return `a pattern has ${most.characters} characters at most: write several`
  if (!allowed.test(source)) return notAllowed(source)
  if (source.split(".").some((segment) => segment === "")) return "a pattern has an empty segment between its dots"
  if (source.split(".").some((segment) => segment.includes("**") && segment !== "**")) return alone
  if (/[{,][,.}]|\.[,}]/.test(source)) return "a choice in a `{a,b}` is empty, or has a dot at its end"
  /** For each open brace, whether a comma has followed it yet. */
  const open: Array<boolean> = []
  for (const character of source) {
    if (character === "{" && open.push(false) > most.depth) return `braces are nested ${most.depth} deep at most`
    if (character === "," && open.length > 0) open[open.length - 1] = true
    if (character !== "}") continue
    const choice = open.pop()
    if (choice === undefined) return unpaired
    // A glob would match the braces literally, and no event type has braces.
    if (!choice) return "a `{` holds at least two choices, as in `{a,b}`"
  }
  if (open.length > 0) return unpaired
  return choicesOf(source).length > 1 ? several : choiceProblem(source)
}

/** Splits a pattern at the commas outside its braces, in case several patterns were written as one. */
export const choicesOf = (source: string): ReadonlyArray<string> => {
  let depth = 0
  const choices = [""]
  for (const character of source) {
    if (character === "{") depth += 1
    if (character === "}") depth -= 1
    if (character === "," && depth === 0) choices.push("")
    else choices[choices.length - 1] += character
  }
  return choices
}

const several = "a `,` outside of braces separates nothing: write several patterns one by one"

const notAllowed = (source: string): string => {
  if (source.startsWith("!"))
    return 'a pattern can\'t begin with `!`: list the types that a route must not match in its "except"'
  if (/[|^$\\()+?[\]]/.test(source)) {
    return "this is not a regular expression: `*` stands for part of a segment, `**` for any segments, `{a,b}` for either"
  }
  return "a pattern holds letters, digits, `_`, `-`, dots, `*`, `**` and `{a,b}`"
}

const unpaired = "a `{` has no `}` or the other way round"
