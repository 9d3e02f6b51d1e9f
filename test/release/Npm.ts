/**
 * The npm package: the bundled program, which runs on the Bun that it depends
 * on, so that `npx` needs Node alone.
 */
import { execFile } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import manifest from "../../package.json" with { type: "json" }
import { gzip, tar } from "./Tarball.ts"
import type { Version } from "./Version.ts"

/** Writes the same package as `npm pack`: `relay-1.2.3.tgz`. Returns its path. */
export const make = async ({
  root,
  version: { version, time },
  into,
}: {
  readonly root: string
  readonly version: Version
  readonly into: string
}): Promise<string> => {
  const read = (path: string): string => readFileSync(join(root, path), "utf8")
  const bundle = mkdtempSync(join(tmpdir(), "relay-npm-"))
  // The build runs in the tree's own directory, because paths determine the names of chunks.
  const args = ["build", "--target=bun", "--minify", "--splitting", "--format=esm", "src/main.ts", "--outdir", bundle]
  await promisify(execFile)(process.execPath, args, { cwd: root })
  const chunks = readdirSync(bundle).sort()
  const bundled = chunks.map((name) => ({ path: `dist/${name}`, content: readFileSync(join(bundle, name)) }))
  rmSync(bundle, { recursive: true })
  const described = {
    name: manifest.name,
    version,
    description: "Receives signed webhook deliveries, keeps them, and relays them",
    license: manifest.license,
    type: "module",
    bin: { relay: "bin/relay.cjs" },
    engines: { node: ">=20" },
    dependencies: { bun: Bun.version },
  }
  const files = [
    { path: "package.json", content: `${JSON.stringify(described, null, 2)}\n` },
    { path: "bin/relay.cjs", content: readFileSync(join(import.meta.dir, "npm/relay.cjs")), mode: 0o755 },
    { path: "bunfig.toml", content: "" },
    { path: "LICENSE", content: read("LICENSE") },
    { path: "CHANGELOG.md", content: read("CHANGELOG.md") },
    ...bundled,
  ]
  const placed = files.map((file) => ({ ...file, path: `package/${file.path}` }))
  const target = join(into, `${manifest.name}-${version}.tgz`)
  writeFileSync(target, await gzip(await tar(placed, time)))
  return target
}
