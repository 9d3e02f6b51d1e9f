/** Makes a tarball for each target, with the program and the files for a manual installation. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Help } from "./Help.ts"
import { type Entry, gzip, tar } from "./Tarball.ts"
import type { Target } from "./Targets.ts"
import type { Version } from "./Version.ts"

/** Writes the tarball. Returns its path. */
export const make = async ({
  root,
  version: { version, time },
  help: { manual, completions },
  target,
  binary,
  into,
}: {
  readonly root: string
  readonly version: Version
  readonly help: Help
  readonly target: Target
  readonly binary: string
  readonly into: string
}): Promise<string> => {
  const name = `relay-${version}-${target.name}`
  const read = (path: string): string => readFileSync(join(root, path), "utf8")
  const entries: ReadonlyArray<Entry> = [
    { path: "" },
    { path: target.binary, content: readFileSync(binary), mode: 0o755 },
    { path: "LICENSE", content: read("LICENSE") },
    { path: "CHANGELOG.md", content: read("CHANGELOG.md") },
    { path: "relay.config.json", content: read("relay.config.json") },
    ...(target.name.startsWith("linux")
      ? [{ path: "relay.service", content: read("config/deploy/relay.service") }]
      : []),
    { path: "relay.1", content: manual },
    { path: "completions/" },
    { path: "completions/relay.bash", content: completions.bash },
    { path: "completions/_relay", content: completions.zsh },
    { path: "completions/relay.fish", content: completions.fish },
  ]
  const placed = entries.map((entry) => ({ ...entry, path: `${name}/${entry.path}` }))
  const archive = join(into, `${name}.tar.gz`)
  writeFileSync(archive, await gzip(await tar(placed, time)))
  return archive
}
