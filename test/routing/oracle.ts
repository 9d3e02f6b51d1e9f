/**
 * The meaning of patterns and conditions, spelled out. Braces are expanded first, then segments are compared one by
 * one.
 */
import type { Condition, Scalar, Tests } from "../../src/routing/Condition.ts"

/** Expands the first innermost brace into its alternatives, and repeats that until no brace is left. */
const expand = (pattern: string): ReadonlyArray<string> => {
  const brace = /\{([^{}]*)\}/.exec(pattern)
  if (brace === null) return [pattern]
  const before = pattern.slice(0, brace.index)
  const after = pattern.slice(brace.index + brace[0].length)
  const choices = new Set((brace[1] ?? "").split(","))
  return [...choices].flatMap((choice) => expand(before + choice + after))
}

const inSegment = (pattern: string, text: string): boolean => {
  if (pattern === "") return text === ""
  if (pattern.startsWith("*")) {
    return inSegment(pattern.slice(1), text) || (text !== "" && inSegment(pattern, text.slice(1)))
  }
  return text !== "" && pattern.charAt(0) === text.charAt(0) && inSegment(pattern.slice(1), text.slice(1))
}

const inSegments = (patterns: ReadonlyArray<string>, segments: ReadonlyArray<string>): boolean => {
  const [pattern, ...restPatterns] = patterns
  const [segment, ...rest] = segments
  if (pattern === undefined) return segments.length === 0
  if (pattern === "**")
    return inSegments(restPatterns, segments) || (segment !== undefined && inSegments(patterns, rest))
  return segment !== undefined && inSegment(pattern, segment) && inSegments(restPatterns, rest)
}

export const matches = (pattern: string, type: string): boolean => {
  if (type.startsWith("relay.") !== pattern.startsWith("relay.")) return false
  return expand(pattern).some((one) => inSegments(one.split("."), type.split(".")))
}

const each = (tests: ReadonlyArray<Scalar> | Tests, value: unknown): ReadonlyArray<boolean> => {
  if (Array.isArray(tests)) return [tests.some((one) => one === value)]
  return Object.entries(tests).flatMap(([key, wanted]) => {
    if (key === "exists") return [wanted === (value !== undefined)]
    if (key === "oneOf") return [(wanted as ReadonlyArray<Scalar>).some((one) => one === value)]
    const starts = wanted as ReadonlyArray<string>
    return key === "prefix" ? [typeof value === "string" && starts.some((start) => value.indexOf(start) === 0)] : []
  })
}

/** Whether a value satisfies a condition. `undefined` means no value. */
export const holds = (condition: Condition, value: unknown): boolean => {
  const not = "not" in condition && condition.not !== undefined ? each(condition.not, value) : []
  return !each(condition, value).includes(false) && !not.includes(true)
}

/** A random condition of any form, over values that also occur in the tests' events. */
export const randomCondition = (random: () => number): Condition => {
  const pick = <A>(from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A
  const some = <A>(from: ReadonlyArray<A>): ReadonlyArray<A> => [pick(from), ...(random() < 0.5 ? [pick(from)] : [])]
  const scalars: ReadonlyArray<Scalar> = [1, 2, null, "1", "10", "x", true, false, ""]
  const tests = (): Tests => ({
    ...(random() < 0.4 ? { oneOf: some(scalars) } : {}),
    ...(random() < 0.4 ? { prefix: some(["1", "10", "x", "xy"]) } : {}),
    ...(random() < 0.4 ? { exists: random() < 0.5 } : {}),
  })
  if (random() < 0.3) return some(scalars)
  return { ...tests(), ...(random() < 0.6 ? { not: random() < 0.4 ? some(scalars) : tests() } : {}) }
}
