/** `bun test/parts/lock.ts` rewrites the lock files of Apache Kafka after a version change. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { allReleases, fetchJars, lockFile, lockOf } from "./Kafka.ts"

for (const release of allReleases) {
  const directory = mkdtempSync(join(tmpdir(), "relay-parts-"))
  try {
    fetchJars(directory, release)
    writeFileSync(lockFile(release), lockOf(directory))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
