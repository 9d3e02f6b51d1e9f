/** Journals on disk for tests: a directory of their own, gone when the test file is done. */
import { afterAll } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Options } from "../../src/journal/sqlite/Engine.ts"
import { optionsAt } from "./samples.ts"

const root = mkdtempSync(join(tmpdir(), "relay-journal-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let count = 0

export const options = (more: Partial<Options> = {}): Options => ({
  ...optionsAt(join(root, String(++count), "journal.db")),
  ...more,
})
