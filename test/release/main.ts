/**
 * `bun run release`: after the build, puts beside the binaries what they are
 * made of (`relay.cdx.json`) and the checksums of all files (`SHA256SUMS`).
 */
import { existsSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import * as Checksums from "./Checksums.ts"
import * as Sbom from "./Sbom.ts"

const root = resolve(import.meta.dir, "../..")
const dist = join(root, "dist")
if (!existsSync(join(dist, "relay"))) {
  console.error("there is no dist/relay: `bun run release` builds it first")
  process.exit(1)
}

const sbom = Sbom.make(root, Bun.version, new Date().toISOString())
writeFileSync(join(dist, "relay.cdx.json"), `${JSON.stringify(sbom, null, 2)}\n`)
const checksums = Checksums.make(dist)
writeFileSync(join(dist, Checksums.file), checksums)
console.log(`dist/relay.cdx.json: ${sbom.components.length} components\n${checksums.trimEnd()}`)
