/** Comments and public texts are in plain words; the places that are not: bun test/words.ts */
import { expect, test } from "bun:test"
import { avoidedExports, avoidedWords, comments, ellipticDocs } from "./words.ts"

test("comments open with a noun or a verb, and not with a fragment, but for 1 %", () => {
  const { all, elliptic } = comments()
  expect(all).toBeGreaterThan(3_000)
  expect(elliptic.length / all).toBeLessThan(0.01)
})

test("public texts open with a subject and a verb, but for 2 %", () => {
  const { all, elliptic } = ellipticDocs()
  expect(all).toBeGreaterThan(500)
  expect(elliptic.length / all).toBeLessThan(0.02)
})

test("public texts have no word to avoid", () => {
  expect(avoidedWords()).toEqual([])
})

test("exported names have no word to avoid", () => {
  expect(avoidedExports()).toEqual([])
})
