import { expect, test } from "bun:test"
import { makeVerifiedSenders, mostVerified } from "../../src/ingest/Bodies.ts"

test("an address is verified by its last delivery, and an unknown one never", () => {
  const { has, note } = makeVerifiedSenders()
  expect(has("198.51.100.7")).toBe(false)
  note("198.51.100.7", true)
  expect(has("198.51.100.7")).toBe(true)
  note("198.51.100.7", false)
  expect(has("198.51.100.7")).toBe(false)
  note("", true)
  expect(has("")).toBe(false)
})

test("the verified address that delivered longest ago is forgotten when there are too many", () => {
  const { has, note } = makeVerifiedSenders()
  note("first", true)
  note("second", true)
  note("first", true)
  for (let count = 2; count <= mostVerified; count += 1) note(String(count), true)
  expect([has("first"), has("second"), has("2")]).toEqual([true, false, true])
})
