/**
 * A directory for files of tests, removed after all tests. It is preloaded, because an `afterAll` in a module that many
 * test files import belongs to the first file.
 *
 * **Gotcha.** If files run side by side, each worker removes the directory after each file. So a file creates its
 * directories with their parents.
 */
import { afterAll } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export const temporaryRoot = mkdtempSync(join(tmpdir(), "relay-tests-"))
afterAll(() => rmSync(temporaryRoot, { recursive: true, force: true }))

/** Makes a directory of the test's own in it. */
export const temporaryDirectory = (prefix: string): string => {
  mkdirSync(temporaryRoot, { recursive: true })
  return mkdtempSync(join(temporaryRoot, prefix))
}
