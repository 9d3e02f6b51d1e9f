/** What a pattern means, spelled out: braces expanded, then segment by segment. */

/** The texts that the first innermost brace stands for, and so on until there is none. */
const expand = (pattern: string): ReadonlyArray<string> => {
  const brace = /\{([^{}]*)\}/.exec(pattern)
  if (brace === null) return [pattern]
  const before = pattern.slice(0, brace.index)
  const after = pattern.slice(brace.index + brace[0].length)
  return (brace[1] ?? "").split(",").flatMap((choice) => expand(before + choice + after))
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
