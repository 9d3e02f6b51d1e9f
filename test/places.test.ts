/**
 * Where `src` calls what must not be called just anywhere, each place with its
 * reason. A new one fails here, and is either done otherwise or added.
 */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const src = join(import.meta.dir, "../src")

/** Not what runs in a browser. */
const sources = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
  (file) => /\.tsx?$/.test(file) && !/^page\/(browser|built)\//.test(file),
)

const isComment = (line: string): boolean => /^\s*(\/\/|\/?\*)/.test(line)

/** How often each file has the pattern outside comments and imports. */
const placesOf = (pattern: RegExp): Readonly<Record<string, number>> => {
  const found: Record<string, number> = {}
  for (const file of sources) {
    const text = readFileSync(join(src, file), "utf8").replaceAll(/^import\b[^"]*"[^"]*"/gm, "")
    const code = text.split("\n").filter((line) => !isComment(line))
    const count = code.join("\n").matchAll(pattern).toArray().length
    if (count > 0) found[file] = count
  }
  return found
}

const counts = (places: Readonly<Record<string, readonly [number, string]>>): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(places).map(([file, [count]]) => [file, count]))

describe("the places in src that", () => {
  /**
   * `Console` of Effect is not among them: in the relay `Stderr.ts` is behind it. A pipe, a socket or a terminal may
   * stop the event loop, so each place must write to a file.
   */
  test("write to a descriptor synchronously, which a pipe, a socket or a terminal could stop", () => {
    const pattern =
      /\b(?:writeSync|writevSync|writeFileSync|appendFileSync|sendto)\(|\bconsole\.(?:log|info|warn|error|debug|trace|table|dir)\(|\b(?:stdout|stderr)\.write\(|\bwarn\(\.\.\.parts\)/g
    expect(placesOf(pattern)).toEqual(
      counts({
        "journal/sqlite/file/WriteProbe.ts": [1, "a file that it makes beside the journal"],
        "journal/sqlite/file/Space.ts": [1, "the journal's ballast, a file"],
        "journal/sqlite/file/HighWaterMark.ts": [3, "the journal's mark, a file"],
        "journal/sqlite/maintenance/Repair.ts": [1, "the start of a damaged journal, a file"],
        "journal/sqlite/maintenance/Maintenance.ts": [1, "`relay journal salvage`, which is not the relay"],
        "runtime/Notify.ts": [1, "it sends with MSG_DONTWAIT"],
        "runtime/Stderr.ts": [1, "commands that end by themselves; the relay writes by `StandardStream.ts`"],
        "cli/start.ts": [3, "its `console` writes by `Stderr.ts`"],
      }),
    )
  })
})
