/**
 * Rewrites the fixtures of this version: `bun test/journal/released/make.ts`.
 *
 * A released version keeps its fixtures, so set the next version in `package.json` first.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Logger } from "effect"
import { relayVersion } from "../../../src/runtime/Version.ts"
import { makePostgres, missing } from "../../parts/Postgres.ts"
import { writeFile, writeScript } from "./Fixtures.ts"

const lacking = missing()
if (lacking !== undefined) throw new Error(lacking)
const scratch = mkdtempSync(join(tmpdir(), "relay-released-"))
const server = await makePostgres()
try {
  const write = Effect.andThen(writeFile(relayVersion, scratch), writeScript(relayVersion, server.url, "relay"))
  await Effect.runPromise(Effect.provide(write, Logger.layer([])))
} finally {
  await server.stop()
  rmSync(scratch, { recursive: true })
}
