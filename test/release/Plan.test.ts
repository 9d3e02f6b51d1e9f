/** The parts that `bun run release` makes. */
import { expect, test } from "bun:test"
import { type Part, parts, planOf } from "./Plan.ts"
import { targets } from "./Targets.ts"

const nothing = () => undefined
const noPython = (part: Part) => (part === "deb" ? "it needs Python" : undefined)

test("a release makes all parts if nothing is missing, and with --only those that it names", () => {
  expect(planOf([], nothing)).toEqual({ made: parts, skipped: [], targets })
  expect(planOf(["--only", "deb"], nothing)).toEqual({ made: ["deb"], skipped: [], targets })
  expect(planOf(["--only", "sbom,npm", "--only=deb"], nothing).made).toEqual(["deb", "npm", "sbom"])
})

test("a release leaves out a part that this machine can't make, with the reason", () => {
  const { made, skipped } = planOf([], noPython)
  expect(made).toEqual(parts.filter((part) => part !== "deb"))
  expect(skipped).toEqual([{ part: "deb", why: "it needs Python" }])
})

test("a release by --only fails for a part that this machine can't make, or that does not exist", () => {
  expect(() => planOf(["--only", "deb"], noPython)).toThrow("nothing can be made here: deb: it needs Python")
  expect(() => planOf(["--only", "msi"], nothing)).toThrow("there is no part msi; the parts are: tarballs, deb")
})

test("a release compiles for all targets, or for those that --target names", () => {
  expect(planOf(["--target", "linux-x64,darwin-arm64"], nothing).targets.map(({ name }) => name)).toEqual([
    "linux-x64",
    "darwin-arm64",
  ])
  expect(() => planOf(["--target", "plan9"], nothing)).toThrow("there is no target plan9; the targets are: linux-x64,")
})
