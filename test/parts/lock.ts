/** `bun test/parts/lock.ts`: writes the lock of the parts anew, after a version in `pom.xml` was changed. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fetchJars, lockOf } from "./Kafka.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-parts-"))
try {
  fetchJars(directory)
  writeFileSync(join(import.meta.dir, "kafka", "jars.sha256"), lockOf(directory))
} finally {
  rmSync(directory, { recursive: true, force: true })
}
