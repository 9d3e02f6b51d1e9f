/** A line diff of two texts, by their longest common subsequence, with context around each change. */

/** Unchanged lines shown before and after a change. */
const around = 2

/** Beyond this many pairs of lines, everything between the common start and end counts as changed. */
const maxPairs = 1_000_000

interface Line {
  readonly sign: " " | "-" | "+"
  readonly text: string
}

const signed = (sign: Line["sign"], lines: ReadonlyArray<string>): ReadonlyArray<Line> =>
  lines.map((text) => ({ sign, text }))

/** `a` and `b` have no common start or end. */
const compare = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): ReadonlyArray<Line> => {
  if (a.length * b.length > maxPairs) return [...signed("-", a), ...signed("+", b)]
  // lengths[i][j]: of the longest common subsequence of what follows i in a and j in b.
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1))
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = lengths[i]
      if (row !== undefined) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const out: Array<Line> = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]]
    if (left !== undefined && left === right) {
      out.push({ sign: " ", text: left })
      i += 1
      j += 1
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      out.push({ sign: "-", text: left })
      i += 1
    } else {
      out.push({ sign: "+", text: right ?? "" })
      j += 1
    }
  }
  return out
}

/** Lines that begin with `- ` (expected), `+ ` (actual) or `  ` (both); empty for equal texts. */
export const diff = (expected: string, actual: string): ReadonlyArray<string> => {
  if (expected === actual) return []
  const [a, b] = [expected.split("\n"), actual.split("\n")]
  let start = 0
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  const lines = [
    ...signed(" ", a.slice(0, start)),
    ...compare(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...signed(" ", a.slice(a.length - end)),
  ]
  const isNear = (index: number) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ sign }) => sign !== " ")
  return lines.flatMap(({ sign, text }, index) => {
    if (isNear(index)) return [`${sign} ${text}`]
    return index > 0 && isNear(index - 1) ? ["  …"] : []
  })
}
