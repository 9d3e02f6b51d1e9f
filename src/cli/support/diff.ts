/** A line diff of two texts, with context around each change. */
import { TextDiff } from "effect"

/** Unchanged lines shown before and after a change. */
const around = 2

/** Beyond this many changed lines the diff need not be the shortest. */
const maxEdits = 1_000

const signs = { Equal: " ", Delete: "-", Insert: "+" } as const

/** Lines that begin with `- ` (expected), `+ ` (actual) or `  ` (both); empty for equal texts. */
export const diff = (expected: string, actual: string): ReadonlyArray<string> => {
  if (expected === actual) return []
  const edits = TextDiff.diff(expected.split("\n"), actual.split("\n"), { maxEdits })
  const lines = edits.flatMap(({ _tag, items }) => items.map((text) => ({ sign: signs[_tag], text })))
  const isNear = (index: number) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ sign }) => sign !== " ")
  return lines.flatMap(({ sign, text }, index) => {
    if (isNear(index)) return [`${sign} ${text}`]
    return index > 0 && isNear(index - 1) ? ["  …"] : []
  })
}
