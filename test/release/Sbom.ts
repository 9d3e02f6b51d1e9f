/**
 * The relay's components as a CycloneDX 1.6 document: every package that the production dependencies lead to in
 * `bun.lock`, and the Bun in the binary.
 *
 * Packages for a single platform (native code that supports another package) are left out, because a binary contains
 * none of them.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "jsonc-parser"

type Versions = Readonly<Record<string, string>>

interface Facts {
  readonly dependencies?: Versions
  readonly optionalDependencies?: Versions
  readonly peerDependencies?: Versions
  readonly os?: unknown
  readonly cpu?: unknown
}

interface Lock {
  readonly workspaces: { readonly "": Facts }
  /** Packages by place: `name`, or `parent/name` if two versions are needed. */
  readonly packages: Readonly<
    Record<string, readonly [ident: string, registry: string, facts: Facts, integrity: string]>
  >
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license?: string
}

export interface Component {
  readonly type: "library" | "platform" | "application"
  readonly "bom-ref": string
  readonly name: string
  readonly version: string
  readonly [more: string]: unknown
}

export interface Sbom {
  readonly bomFormat: "CycloneDX"
  readonly specVersion: "1.6"
  readonly serialNumber: string
  readonly version: 1
  readonly metadata: unknown
  readonly components: ReadonlyArray<Component>
  readonly dependencies: ReadonlyArray<{ readonly ref: string; readonly dependsOn: ReadonlyArray<string> }>
}

/** The names in a place, outermost first. A scope and its name are one name. */
const namesOf = (place: string): ReadonlyArray<string> => place.match(/@[^/]+\/[^/]+|[^/]+/g) ?? []

/** The place where `name` resolves to from another place: inside it, or in the nearest enclosing place. */
const resolve = (lock: Lock, from: string, name: string): string | undefined => {
  for (let names = namesOf(from); ; names = names.slice(0, -1)) {
    const place = [...names, name].join("/")
    if (Object.hasOwn(lock.packages, place)) return place
    if (names.length === 0) return undefined
  }
}

const isOfOnePlatform = ({ os, cpu }: Facts): boolean => os !== undefined || cpu !== undefined

/** The places of a package's dependencies. */
const edges = (lock: Lock, from: string, ...wanted: ReadonlyArray<Versions | undefined>): ReadonlyArray<string> =>
  wanted
    .flatMap((versions) => Object.keys(versions ?? {}))
    .flatMap((name) => resolve(lock, from, name) ?? [])
    .filter((place) => !isOfOnePlatform(lock.packages[place]?.[2] ?? {}))

const closure = (start: ReadonlyArray<string>, next: (place: string) => ReadonlyArray<string>): ReadonlySet<string> => {
  const found = new Set(start)
  for (const place of found) for (const other of next(place)) found.add(other)
  return found
}

const licenses = (license: string | undefined) => {
  if (license === undefined) return {}
  return { licenses: [/^[\w.+-]+$/.test(license) ? { license: { id: license } } : { expression: license }] }
}

const hashes = (integrity: string) => {
  const [algorithm = "", digest = ""] = integrity.split(/-(.*)/)
  return [{ alg: algorithm.replace("sha", "SHA-"), content: Buffer.from(digest, "base64").toString("hex") }]
}

/** A UUID (version 8, RFC 9562) computed from a text, so that it is reproducible. */
const named = (text: string): string =>
  createHash("sha256")
    .update(text)
    .digest("hex")
    .replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5")

/** Makes the SBOM. `root` contains `package.json`, `bun.lock` and `node_modules`; `time` is in epoch seconds. */
export const make = (root: string, bun: string, time: number): Sbom => {
  const json = (...path: ReadonlyArray<string>): Manifest => JSON.parse(readFileSync(join(root, ...path), "utf8"))
  const own = json("package.json")
  const lock: Lock = parse(readFileSync(join(root, "bun.lock"), "utf8"), [], { allowTrailingComma: true })
  const factsOf = (place: string): Facts => lock.packages[place]?.[2] ?? {}

  const direct = edges(lock, "", lock.workspaces[""].dependencies)
  const needs = (place: string) => edges(lock, place, factsOf(place).dependencies, factsOf(place).peerDependencies)
  const uses = (place: string) => [...needs(place), ...edges(lock, place, factsOf(place).optionalDependencies)]
  const required = closure(direct, needs)
  const places = [...closure(direct, uses)].sort()

  const refOf = (place: string): string => `pkg:npm/${(lock.packages[place]?.[0] ?? "").replace(/^@/, "%40")}`
  const library = (place: string): Component => {
    const { name, version, license } = json(...namesOf(place).flatMap((name) => ["node_modules", name]), "package.json")
    const [group, plain] = name.startsWith("@") ? name.split("/") : [undefined, name]
    const file = `${plain}-${version}.tgz`
    return {
      type: "library",
      "bom-ref": refOf(place),
      ...(group === undefined ? {} : { group }),
      name: plain ?? name,
      version,
      scope: required.has(place) ? "required" : "optional",
      hashes: hashes(lock.packages[place]?.[3] ?? ""),
      ...licenses(license),
      purl: refOf(place),
      externalReferences: [{ type: "distribution", url: `https://registry.npmjs.org/${name}/-/${file}` }],
    }
  }
  const platform: Component = {
    type: "platform",
    "bom-ref": `pkg:github/oven-sh/bun@bun-v${bun}`,
    name: "bun",
    version: bun,
    purl: `pkg:github/oven-sh/bun@bun-v${bun}`,
    externalReferences: [{ type: "license", url: "https://bun.sh/docs/project/licensing" }],
  }
  const relay: Component = {
    type: "application",
    "bom-ref": `${own.name}@${own.version}`,
    name: own.name,
    version: own.version,
    ...licenses(own.license),
  }
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${named(JSON.stringify([relay, time, places]))}`,
    version: 1,
    metadata: { timestamp: new Date(time * 1000).toISOString(), lifecycles: [{ phase: "build" }], component: relay },
    components: [platform, ...places.map(library)],
    dependencies: [
      { ref: relay["bom-ref"], dependsOn: [platform["bom-ref"], ...direct.map(refOf)] },
      ...places.map((place) => ({ ref: refOf(place), dependsOn: [...new Set(uses(place).map(refOf))] })),
    ],
  }
}
