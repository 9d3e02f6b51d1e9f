/** Comments and public texts are whole sentences in plain words; the places that are not: bun test/words.ts */
import { expect, test } from "bun:test"
import { avoidedWords, comments, ellipticDocs } from "./words.ts"

/** Comments of src that lack a subject or a verb. The number may only fall, until it is below 2 % of all. */
const elliptic = 227

test("comments open with a subject and a verb, but for those that are counted here", () => {
  const found = comments()
  expect(found.all).toBeGreaterThan(3_000)
  expect(found.elliptic.length).toBeLessThanOrEqual(elliptic)
})

test("public texts open with a subject and a verb, but for 2 %", () => {
  const { all, elliptic } = ellipticDocs()
  expect(all).toBeGreaterThan(500)
  expect(elliptic.length / all).toBeLessThan(0.02)
})

test("public texts have no word to avoid", () => {
  expect(avoidedWords()).toEqual([])
})
