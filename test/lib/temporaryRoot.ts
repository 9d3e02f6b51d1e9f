/**
 * A directory for files of tests, removed after all of them. It is preloaded:
 * an `afterAll` of a module that many test files share is that of the first.
 */
import { afterAll } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export const temporaryRoot = mkdtempSync(join(tmpdir(), "relay-tests-"))
afterAll(() => rmSync(temporaryRoot, { recursive: true, force: true }))
