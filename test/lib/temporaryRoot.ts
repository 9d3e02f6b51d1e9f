/**
 * A directory for files of tests, removed after all of them. It is preloaded:
 * an `afterAll` of a module that many test files share is that of the first.
 *
 * **Gotcha.** Where files run side by side, each worker removes it after each
 * file, so a file makes what it needs with its parents.
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
