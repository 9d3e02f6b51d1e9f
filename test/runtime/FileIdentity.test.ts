import { describe, expect, test } from "bun:test"
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import process from "node:process"
import { Effect } from "effect"
import { load } from "../../src/config/load/Load.ts"
import { fileIdentity } from "../../src/runtime/Files.ts"
import { config, options } from "../config/fixture.ts"
import { temporaryRoot } from "../lib/temporaryRoot.ts"

const directory = join(temporaryRoot, "identity")
// A worker of the runner may have removed the root after its previous files.
mkdirSync(directory, { recursive: true })
const journal = join(directory, "journal.db")
writeFileSync(journal, "")
linkSync(journal, join(directory, "hard"))
symlinkSync(journal, join(directory, "soft"))
symlinkSync(directory, `${directory}.link`)

/** The diagnostics of a file sink at this path, with a journal at {@link journal}. */
const saidOf = (path: string) => {
  const text = config({ journal: { path: journal }, sinks: { audit: { type: "file", path } } })
  const files = { "relay.config.json": text }
  return Effect.runPromise(
    load("relay.config.json", { ...options(files), fileOf: fileIdentity }).pipe(
      Effect.match({
        onSuccess: () => "",
        onFailure: ({ diagnostics }) => diagnostics.map(({ message }) => message).join(),
      }),
    ),
  )
}

describe("a file sink", () => {
  for (const [what, path] of [
    ["its path from here", relative(process.cwd(), journal)],
    ["a hard link", join(directory, "hard")],
    ["a symbolic link", join(directory, "soft")],
    ["a link to its directory", join(`${directory}.link`, "journal.db")],
  ] as const) {
    test(`can't be the journal's file through ${what}`, async () => {
      expect(await saidOf(path)).toBe("journal.path is the same file")
    })
  }

  for (const suffix of [
    "-wal",
    "-shm",
    "-lock",
    "-mark",
    "-ballast",
    "-index",
    "-index-wal",
    "-index-shm",
    "-lock-journal",
    "-journal",
    "-index-journal",
    "-hour",
  ]) {
    test(`can't be the journal's ${suffix}, there or not, by another path`, async () => {
      expect(await saidOf(join(`${directory}.link`, `journal.db${suffix}`))).toBe(
        `this is a file of the journal's own: that of journal.path with ${suffix}`,
      )
    })
  }

  test("may be any other file beside the journal", async () => {
    expect(await saidOf(join(directory, "journal.db.ndjson"))).toBe("")
  })
})
