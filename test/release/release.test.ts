/** Files that are published with the binaries: the SBOM, the changelog, the unit and the checksums. */
import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { Spec, Validation } from "@cyclonedx/cyclonedx-library"
import manifest from "../../package.json" with { type: "json" }
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as Checksums from "./Checksums.ts"
import { unitOf } from "./LinuxFiles.ts"
import * as Sbom from "./Sbom.ts"
import { entries, versionOf } from "./Version.ts"

const root = resolve(import.meta.dir, "../..")
const sbom = Sbom.make(root, Bun.version, 1_795_219_200)
const libraries = sbom.components.filter(({ type }) => type === "library")
const nameOf = ({ group, name }: Sbom.Component): string => (typeof group === "string" ? `${group}/${name}` : name)

describe("the SBOM", () => {
  test("is CycloneDX 1.6 by the official schema", async () => {
    const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6)
    expect(await validator.validate(JSON.stringify(sbom))).toBeNull()
    expect(await validator.validate(JSON.stringify({ ...sbom, components: [{ name: "x" }] }))).not.toBeNull()
  })

  test("names every package whose code the bundle holds, in the version that is there", async () => {
    const { outputs } = await Bun.build({
      entrypoints: [join(root, "src/main.ts")],
      target: "bun",
      sourcemap: "external",
    })
    const maps = outputs.filter(({ kind }) => kind === "sourcemap")
    const sources = (await Promise.all(maps.map((map) => map.json()))).flatMap(
      (map): ReadonlyArray<string> => map.sources,
    )
    const places = sources.flatMap((source) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source) ?? [])
    const bundled = [...new Set(places.filter((_, index) => index % 2 === 1))].sort()
    expect(bundled).toContain("effect")
    const versions = new Map(libraries.map((component) => [nameOf(component), component.version]))
    for (const name of bundled) {
      const { version } = JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8"))
      expect([name, versions.get(name)]).toEqual([name, version])
    }
  })

  test("names all that the relay depends on and nothing that only its development needs", () => {
    const names = libraries.map(nameOf)
    expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.dependencies)))
    for (const name of ["@biomejs/biome", "typescript", "deno", "@cyclonedx/cyclonedx-library"]) {
      expect(names).not.toContain(name)
    }
    expect(sbom.components.find(({ type }) => type === "platform")).toMatchObject({ name: "bun", version: Bun.version })
  })

  test("lists every package with its origin, its hash and its licence", () => {
    for (const component of libraries) {
      expect(component).toMatchObject({
        purl: expect.stringMatching(/^pkg:npm\//),
        hashes: [{ alg: "SHA-512", content: expect.stringMatching(/^[0-9a-f]{128}$/) }],
        licenses: [expect.anything()],
        externalReferences: [{ type: "distribution", url: expect.stringMatching(/\.tgz$/) }],
      })
    }
  })

  test("connects only listed packages, and every package to the relay", () => {
    const refs = new Set(sbom.components.map((component) => component["bom-ref"]))
    const reached = new Set(sbom.dependencies[0]?.dependsOn)
    for (const ref of reached) {
      const { dependsOn = [] } = sbom.dependencies.find((dependency) => dependency.ref === ref) ?? {}
      for (const other of dependsOn) reached.add(other)
    }
    expect([...reached].sort()).toEqual([...refs].sort())
  })
})

describe("the changelog", () => {
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8")

  test("begins with the version of package.json, and every release refuses to be made otherwise", () => {
    expect(entries(changelog)[0]?.version).toBe(manifest.version)
    const tree = temporaryDirectory("version-")
    writeFileSync(join(tree, "package.json"), JSON.stringify({ version: "1.2.3" }))
    writeFileSync(join(tree, "CHANGELOG.md"), "# Changelog\n\n## 1.2.2 (2026-11-01)\n")
    expect(() => versionOf(tree)).toThrow('must be "## 1.2.3 (YYYY-MM-DD)"')
    writeFileSync(join(tree, "CHANGELOG.md"), "# Changelog\n\n## 1.2.3 (2026-11-02)\n\n## 1.2.2 (2026-11-01)\n")
    expect(versionOf(tree)).toMatchObject({ version: "1.2.3" })
  })

  test("has an entry with text for each version, newest first, and no other headings of that level", () => {
    const all = entries(changelog)
    expect(changelog.match(/^## /gm)).toHaveLength(all.length)
    expect(all.map(({ version }) => version)).toEqual(
      all.map(({ version }) => version).toSorted((a, b) => Bun.semver.order(b, a)),
    )
    expect(all.map(({ day }) => day)).toEqual(
      all
        .map(({ day }) => day)
        .toSorted()
        .reverse(),
    )
    for (const entry of changelog.split(/^## .*$/m).slice(1)) expect(entry.trim()).not.toBe("")
  })
})

test("the packages' unit is the relay's own except for the program, the user and the group's rights", () => {
  const unit = readFileSync(join(root, "config/deploy/relay.service"), "utf8")
  const own = unit.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  const packaged = unitOf(unit).split("\n")
  expect(own.filter((line) => !packaged.includes(line))).toEqual([
    "ExecStart=/usr/local/bin/relay run -c /etc/relay/relay.config.json",
    "ExecReload=/usr/local/bin/relay reload -c /etc/relay/relay.config.json",
    "DynamicUser=yes",
    "StateDirectoryMode=0700",
  ])
  expect(packaged.filter((line) => line !== "" && !line.startsWith("#") && !own.includes(line))).toEqual([
    "ExecStart=/usr/bin/relay run -c /etc/relay/relay.config.json",
    "ExecReload=/usr/bin/relay reload -c /etc/relay/relay.config.json",
    "User=relay",
    "Group=relay",
    "StateDirectoryMode=0750",
  ])
  expect(() => unitOf(unit.replace("DynamicUser=yes\n", ""))).toThrow("is not there to be replaced")
})

test("sha256sum accepts the checksums, and no longer when a byte differs", () => {
  const directory = temporaryDirectory("release-")
  writeFileSync(join(directory, "relay"), "one")
  writeFileSync(join(directory, "relay-linux-arm64"), "two")
  for (const _ of ["first", "again"]) writeFileSync(join(directory, Checksums.file), Checksums.make(directory))
  const check = () => spawnSync("sha256sum", ["-c", Checksums.file], { cwd: directory, encoding: "utf8" })
  expect(check()).toMatchObject({ status: 0, stdout: "relay: OK\nrelay-linux-arm64: OK\n" })
  writeFileSync(join(directory, "relay"), "ONE")
  expect(check().status).toBe(1)
})
