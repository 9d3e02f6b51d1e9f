/** Which parts `bun run release` makes. */
import { expect, test } from "bun:test"
import { type Part, parts, planOf } from "./Plan.ts"

const nothing = () => undefined
const noPython = (part: Part) => (part === "deb" ? "it needs Python" : undefined)

test("all parts are made where nothing lacks, and by --only those that it names", () => {
  expect(planOf([], nothing)).toEqual({ made: parts, skipped: [] })
  expect(planOf(["--only", "deb"], nothing)).toEqual({ made: ["deb"], skipped: [] })
  expect(planOf(["--only", "sbom,npm", "--only=deb"], nothing).made).toEqual(["deb", "npm", "sbom"])
})

test("a part that this machine can't make is left out with the reason", () => {
  const { made, skipped } = planOf([], noPython)
  expect(made).toEqual(parts.filter((part) => part !== "deb"))
  expect(skipped).toEqual([{ part: "deb", why: "it needs Python" }])
})

test("it is an error to ask for that part alone, or for one that there is not", () => {
  expect(() => planOf(["--only", "deb"], noPython)).toThrow("nothing can be made here: deb: it needs Python")
  expect(() => planOf(["--only", "msi"], nothing)).toThrow("there is no part msi; the parts are: tarballs, deb")
})
