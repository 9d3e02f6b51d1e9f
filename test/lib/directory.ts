/** A directory of one's own for the length of a scope. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"

export const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "relay-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)
