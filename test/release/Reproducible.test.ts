/** A build of the same source gives the same bytes in every directory and at every time. */
import { expect, test } from "bun:test"
import { mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { suiteUnless } from "../lib/lacking.ts"
import { root } from "../lib/programs.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import * as Npm from "./Npm.ts"
import * as Sbom from "./Sbom.ts"
import * as Tarballs from "./Tarballs.ts"
import { compile, targets } from "./Targets.ts"
import { copyTree } from "./Tree.ts"
import { versionOf } from "./Version.ts"

const directory = temporaryDirectory("reproducible-")

const lacking = process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test builds it twice"
suiteUnless(lacking, "built here and in another directory", () => {
  const trees = [root, join(directory, "a/longer/way/to/it")]
  /** Builds in each tree, and compares the digests of the results. */
  const both = async (make: (root: string, into: string) => Promise<string>): Promise<void> => {
    const digests = []
    for (const [number, tree] of trees.entries()) {
      const into = join(directory, String(number))
      mkdirSync(into, { recursive: true })
      digests.push(Bun.SHA256.hash(readFileSync(await make(tree, into)), "hex"))
    }
    expect(digests[1]).toBe(digests[0] ?? "")
  }
  const help = { manual: ".TH RELAY 1\n", completions: { bash: "1", zsh: "2", fish: "3" } }
  const small = join(root, "LICENSE")

  test("the binary is the same", async () => {
    copyTree(trees[1] ?? "")
    const [target] = targets
    if (target === undefined) throw new Error("there is no target")
    await both((tree, into) => compile(tree, target, into))
  }, 60_000)

  test("the npm package, the tarball and the bill of materials are the same", async () => {
    await both((tree, into) => Npm.make({ root: tree, version: versionOf(tree), into }))
    await both(async (tree, into) => {
      const [target] = targets.slice(-1)
      if (target === undefined) throw new Error("there is no target")
      return Tarballs.make({ root: tree, version: versionOf(tree), help, target, binary: small, into })
    })
    const [here, there] = trees.map((tree) => Sbom.make(tree, Bun.version, versionOf(tree).time))
    expect(there).toEqual(here as Sbom.Sbom)
  }, 60_000)

  test.skipIf(LinuxPackages.reasonToSkip() !== undefined)(
    `the .deb and the .rpm are the same${LinuxPackages.reasonToSkip() ?? ""}`,
    async () => {
      const names = targets[0]?.packaged
      if (names === undefined) throw new Error("nothing is packaged")
      for (const format of ["deb", "rpm"] as const) {
        await both((tree, into) =>
          LinuxPackages.make(format, names, { root: tree, version: versionOf(tree), help, binary: small, into }),
        )
      }
    },
    60_000,
  )
})
