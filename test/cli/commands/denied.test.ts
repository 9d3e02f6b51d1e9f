/** `relay journal …` as a user who may not read the journal. The user isn't root, who may read everything. */
import { afterAll, expect } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { Effect } from "effect"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { localUser } from "../../../src/runtime/Files.ts"
import { optionsAt } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { relayBinary } from "../../lib/programs.ts"

const isRoot = process.getuid?.() === 0
const asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
const binary = relayBinary()

const run = (...command: ReadonlyArray<string>) => {
  const words = [...(isRoot ? asNobody : []), ...command]
  return Bun.spawnSync(words, { cwd: "/", env: { PATH: process.env.PATH ?? "" } })
}
const relay = (...args: ReadonlyArray<string>) => {
  const { exitCode, stdout, stderr } = run(binary, ...args)
  return { code: exitCode, stdout: stdout.toString(), stderr: stderr.toString() }
}

const lacking = run("test", "-x", binary).exitCode === 0 ? undefined : "nobody may not run the binary"

suiteUnless(lacking, "without the right to read", () => {
  const directory = mkdtempSync(join(tmpdir(), "relay-denied-"))
  afterAll(() => rmSync(directory, { recursive: true }))
  chmodSync(directory, 0o755)

  it.live("journal commands name the owner of the file, and who may read it", function* () {
    const [shown, hidden] = [join(directory, "shown"), join(directory, "hidden")]
    for (const at of [shown, hidden]) {
      yield* Effect.scoped(Effect.provide(Effect.void, SqliteJournal.layer(optionsAt(join(at, "journal.db")))))
    }
    chmodSync(shown, 0o755)
    chmodSync(join(shown, "journal.db"), 0o000)
    chmodSync(hidden, 0o000)
    const advice = `belongs to the user ${localUser()} and has the mode 0000. Run this command as that user, or as root.`
    for (const [path, what] of [
      [join(shown, "journal.db"), "it"],
      [join(hidden, "journal.db"), hidden],
    ] as const) {
      for (const args of [["check"], ["backup", "/tmp/never"], ["salvage", "/tmp/never"], ["import"]]) {
        expect([args, relay("journal", ...args, path)]).toEqual([
          args,
          { code: 74, stdout: "", stderr: `relay: ${path} can't be read: permission denied; ${what} ${advice}\n` },
        ])
      }
    }
    chmodSync(hidden, 0o700)
  })

  it.live("journal import reads a file in a directory that it may not write", () =>
    Effect.sync(() => {
      const closed = join(directory, "closed")
      mkdirSync(closed)
      const path = join(closed, "passwd")
      writeFileSync(path, "root:x:0:0\n")
      chmodSync(closed, 0o555)
      const { code, stderr } = relay("journal", "import", path)
      expect([code, stderr]).toEqual([1, expect.stringContaining("neither a journal nor a salvage of one")])
      chmodSync(closed, 0o700)
    }),
  )
})
