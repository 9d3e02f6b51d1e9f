/** A signed release: the requirements for signing, the signed files, and their verification by a user. */
import { beforeAll, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { procedures } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as Checksums from "./Checksums.ts"
import type { Provenance } from "./Provenance.ts"
import { versionOf } from "./Version.ts"

const directory = temporaryDirectory("signature-")
const tree = join(directory, "tree")
const released = join(tree, "dist/release")
const { version } = versionOf(root)

const run = (command: ReadonlyArray<string>, cwd = tree) => {
  const [program = "", ...args] = command
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" }
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", env })
  return { status, stdout, stderr }
}
const git = (...args: ReadonlyArray<string>): void => {
  const as = ["-c", "user.name=A publisher", "-c", "user.email=publisher@example.com"]
  const { status, stderr } = run(["git", ...as, ...args])
  expect([args, status, status === 0 ? "" : stderr]).toEqual([args, 0, ""])
}
/** A key for this test, and its public part. */
const keyOf = (name: string): readonly [file: string, key: string] => {
  const file = join(directory, name)
  expect(run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a comment", "-f", file], directory).status).toBe(0)
  return [file, readFileSync(`${file}.pub`, "utf8").split(" ").slice(0, 2).join(" ")]
}
const release = (...args: ReadonlyArray<string>) => run([process.execPath, "test/release/main.ts", ...args])
const sections = { Contact: "mailto:security@example.com", Source: "https://git.example.com/relay" }

/** Sets a line of SECURITY.md as the publisher does. */
const set = (title: string, value: string): void => {
  const page = readFileSync(join(tree, "SECURITY.md"), "utf8")
  const changed = page.replace(new RegExp(`^- ${title}: .*$`, "m"), `- ${title}: ${value}`)
  expect(changed).not.toBe(page)
  writeFileSync(join(tree, "SECURITY.md"), changed)
}

/** Runs a procedure of install.md in a directory; `names` replaces the reader's own values. */
const procedure = (title: string, cwd: string, names: Readonly<Record<string, string>>) => {
  const lines = procedures.get(title) ?? ""
  expect(lines).not.toBe("")
  const own = Object.entries(names).reduce((text, [from, to]) => text.replaceAll(from, to), lines)
  return run(["sh", "-ec", own], cwd)
}

const lacking = ["git", "ssh-keygen"].find((program) => Bun.which(program) === null)

suiteUnless(lacking === undefined ? undefined : `${lacking} is missing`, "a release with --sign", () => {
  const [key, publicKey] = lacking === undefined ? keyOf("key") : ["", ""]
  const signing = ["--only", "sbom", "--sign", key]

  beforeAll(() => {
    for (const name of ["src", "test", "config", "docs", "package.json", "bun.lock", "CHANGELOG.md", "SECURITY.md"])
      cpSync(join(root, name), join(tree, name), { recursive: true })
    for (const name of [".gitignore", "LICENSE", "relay.config.json", "tsconfig.json", "bunfig.toml"])
      cpSync(join(root, name), join(tree, name))
    symlinkSync(join(root, "node_modules"), join(tree, "node_modules"))
    for (const title of ["Contact", "Source", "Signing key"]) {
      const page = readFileSync(join(tree, "SECURITY.md"), "utf8")
      writeFileSync(join(tree, "SECURITY.md"), page.replace(new RegExp(`^- ${title}: .*$`, "m"), `- ${title}: not set`))
    }
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "a release")
  })

  test("is not needed to build, but then there is no provenance and no signature", () => {
    expect(release("--only", "sbom")).toMatchObject({ status: 0, stdout: expect.stringContaining("not signed") })
    expect(readdirSync(released).sort()).toEqual([Checksums.file, "relay.cdx.json"])
    rmSync(released, { recursive: true })
  })

  test("is refused, and names the change to make, until it has a contact, its key, a commit and a tag", () => {
    const refused = (words: string): void => {
      const { status, stderr } = release(...signing)
      expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(words) })
      expect(existsSync(join(released, Checksums.file))).toBe(false)
    }
    for (const [title, value] of Object.entries(sections)) {
      refused(`SECURITY.md has no ${title}: write the line "- ${title}: `)
      set(title, value)
    }
    refused("SECURITY.md has no Signing key")
    const [, other] = keyOf("other")
    set("Signing key", other)
    refused(`the signing key of SECURITY.md is not the key of ${key}, ${publicKey}`)
    set("Signing key", publicKey)
    refused("the tree has changes since its commit:\nM SECURITY.md")
    git("commit", "--quiet", "--all", "--message", "the publisher")
    refused(`the commit has no tag v${version}`)
    git("tag", "--annotate", `v${version}`, "--message", "a release")
    expect(release(...signing)).toMatchObject({ status: 0, stdout: expect.stringContaining(`signed by ${publicKey}`) })
  }, 60_000)

  test("is verified as install.md says, and no longer if a file, the list or the key differs", () => {
    const download = join(directory, "download")
    cpSync(released, download, { recursive: true })
    const verified = (key = publicKey) => procedure("Verifying a download", download, { "ssh-ed25519 AAAA…": key })
    expect(verified()).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/Good "file" signature for relay with ED25519 key .*\n(.*\n)*relay\.cdx\.json: OK/),
    })
    expect(verified(keyOf("third")[1]).status).not.toBe(0)
    const sbom = readFileSync(join(download, "relay.cdx.json"), "utf8")
    writeFileSync(join(download, "relay.cdx.json"), `${sbom} `)
    expect(verified()).toMatchObject({ status: 1, stdout: expect.stringContaining("relay.cdx.json: FAILED") })
    writeFileSync(join(download, Checksums.file), Checksums.make(download))
    expect(verified().stdout + verified().stderr).toContain("Could not verify signature")
    rmSync(download, { recursive: true })
  })

  test("has SLSA's provenance of its files, its commit and its packages", () => {
    const provenance: Provenance = JSON.parse(readFileSync(join(released, "relay.provenance.json"), "utf8"))
    const commit = run(["git", "rev-parse", "HEAD"]).stdout.trim()
    const { buildDefinition, runDetails } = provenance.predicate
    expect(provenance).toMatchObject({
      _type: "https://in-toto.io/Statement/v1",
      predicateType: "https://slsa.dev/provenance/v1",
    })
    const sums = provenance.subject.map(({ name, digest }) => `${digest.sha256}  ${name}\n`)
    expect(sums).toHaveLength(1)
    expect(readFileSync(join(released, Checksums.file), "utf8")).toStartWith(sums.join(""))
    expect(buildDefinition).toMatchObject({
      buildType: `${sections.Source}#bun-run-release`,
      externalParameters: { source: `git+${sections.Source}@refs/tags/v${version}`, parts: ["sbom"], targets: [] },
    })
    expect(runDetails.builder).toEqual({ id: sections.Contact, version: { bun: Bun.version } })
    const dependencies: ReadonlyArray<{ name?: string; uri?: string; digest?: Record<string, string> }> =
      buildDefinition.resolvedDependencies
    expect(dependencies[0]).toMatchObject({ name: "source", digest: { gitCommit: commit } })
    expect(dependencies.find(({ uri }) => uri?.startsWith("pkg:npm/effect@"))).toEqual({
      uri: expect.stringMatching(/^pkg:npm\/effect@[\d.]+$/),
      digest: { sha512: expect.stringMatching(/^[0-9a-f]{128}$/) },
    })
    for (const { uri, digest = {} } of dependencies) {
      expect([uri, uri === undefined || URL.canParse(uri)]).toEqual([uri, true])
      for (const value of Object.values(digest)) expect(value).toMatch(/^([0-9a-f]{2})+$/)
    }
  })

  const slow = process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test compiles it from its tag"
  suiteUnless(slow, "built again from its tag", () => {
    test("has the same bytes, for one target", () => {
      // The bundler resolves links, so its output would contain other paths than an installation's.
      rmSync(join(tree, "node_modules"))
      expect(run([process.execPath, "install", "--frozen-lockfile"]).status).toBe(0)
      const { status, stderr } = release("--only", "tarballs,npm,sbom", "--target", "linux-x64", "--sign", key)
      expect([status, status === 0 ? "" : stderr]).toEqual([0, ""])
      const download = join(directory, "published")
      cpSync(released, download, { recursive: true })
      const again = procedure("Building it again from its tag", download, {
        $SOURCE: tree,
        "v0.1.0": `v${version}`,
        "bun ": `${process.execPath} `,
      })
      expect([again.status, again.stdout]).toEqual([0, expect.any(String)])
      const built = ["relay.cdx.json", `relay-${version}-linux-x64.tar.gz`, `relay-${version}.tgz`]
      for (const file of built) expect(again.stdout).toContain(`${file}: OK\n`)
    }, 300_000)
  })
})
