import { expect, test } from "bun:test"
import { dedupKeyOf } from "../../src/page/browser/parts/EventFacts.ts"

test("the dedup key is read from a payload's body, which is JSON or a text of it", () => {
  expect(dedupKeyOf({ method: "POST", body: { dedup_key: "a/b" } })).toBe("a/b")
  expect(dedupKeyOf({ body: '{"dedup_key":"a/b"}' })).toBe("a/b")
})

test("a payload of another service has no dedup key", () => {
  for (const payload of [undefined, "text", [], { body: "text" }, { body: { dedup_key: 1 } }, { line: "{}" }]) {
    expect(dedupKeyOf(payload)).toBeUndefined()
  }
})
