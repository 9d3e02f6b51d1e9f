/**
 * Random mutants that no test should notice, each with the reason. Here are only
 * changes that leave the behaviour as it is, or that a clock or a cost alone
 * could show. Any other survivor lacks a test.
 */
import type { Result } from "./Results.ts"

interface Explained extends Pick<Result, "file" | "code" | "column" | "was" | "becomes"> {
  readonly why: string
}

export const explained: ReadonlyArray<Explained> = [
  {
    file: "src/journal/sqlite/search/Index.ts",
    code: "if (codes.size > 0) return codes",
    column: 22,
    was: "0",
    becomes: "1",
    why: "A map with one code is put again into the maps that have it.",
  },
  {
    file: "src/routing/Pattern.ts",
    code: "all.push(...expand(source.slice(0, open) + choice + source.slice(end), limit - all.length))",
    column: 82,
    was: "-",
    becomes: "+",
    why: "Only the number of patterns above the limit changes, and callers only ask whether it is above.",
  },
  {
    file: "src/delivery/lane/Lane.ts",
    code: "return (filled.fresh > 0 && this.#parts.queue.fresh === 0) || (filled.due > 0 && this.#parts.queue.retries === 0)",
    column: 116,
    was: "0",
    becomes: "1",
    why: "The next due retries are read when the first attempt ends, instead of at once. No event waits longer than an attempt.",
  },
]

export const explanationOf = (result: Omit<Explained, "why">): string | undefined =>
  explained.find(({ why, ...change }) =>
    Object.entries(change).every(([key, value]) => result[key as keyof typeof change] === value),
  )?.why
